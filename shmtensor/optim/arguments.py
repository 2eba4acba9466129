"""Checks of arguments that several optimizers share, with PyTorch's messages."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor

Group = dict[str, Any]


def require_numbers(**values: Any) -> None:
    """Raises: TypeError, one of these arguments is not a number."""
    for name, value in values.items():
        if not hasattr(value, "__float__"):
            raise TypeError(f"{name} must be a number: {value!r:.80}")


def check_rate(lr: Any, complaint: str = "Invalid learning rate") -> None:
    """Raises: ValueError, a learning rate is negative, NaN or a tensor of several; TypeError, it is
    no number.
    """
    require_numbers(lr=lr)
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError(f"Tensor lr must be 1-element: got shape {tuple(lr.shape)}")
    if not lr >= 0.0:
        raise ValueError(f"{complaint}: {lr}")


def check_not_negative(**values: Any) -> None:
    """Raises: ValueError, one of these arguments is negative or NaN; TypeError, it is no number."""
    require_numbers(**values)
    for name, value in values.items():
        if not value >= 0.0:
            raise ValueError(f"Invalid {'epsilon' if name == 'eps' else name} value: {value}")


def check_betas(betas: tuple[Any, Any]) -> None:
    """Raises: ValueError, one of them is not in [0, 1); TypeError, they are not two numbers."""
    if not hasattr(betas, "__len__") or len(betas) != 2:
        raise TypeError(f"betas must be two numbers: {betas!r}")
    for i, beta in enumerate(betas):
        if isinstance(beta, Tensor) and beta.numel() != 1:
            raise ValueError(f"Tensor betas[{i}] must be 1-element: got shape {tuple(beta.shape)}")
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def check_implementations(name: str, defaults: Group) -> None:
    """Refuses the combinations of `foreach`, `fused` and `differentiable` that PyTorch refuses."""
    if defaults.get("fused") and defaults["differentiable"]:
        raise RuntimeError(f"{name}: `fused` does not support `differentiable`: both are True")
    if defaults.get("fused") and defaults["foreach"]:
        raise RuntimeError(f"{name}: `fused` and `foreach` cannot be `True` together.")


def as_numbers(group: Group) -> Group:
    """The group with numbers as hyperparameters; a new one if some of them are tensors."""
    for value in (group["lr"], group.get("weight_decay"), *group.get("betas", ())):
        if isinstance(value, Tensor):
            break
    else:  # the usual one: a loop takes half of the time of `any`
        return group
    betas = {"betas": tuple(float(beta) for beta in group["betas"])} if "betas" in group else {}
    return {name: number(value) for name, value in {**group, **betas}.items()}


def number(value: Any) -> Any:
    """A tensor of one element as a number; anything else as it is."""
    return value.item() if isinstance(value, Tensor) else value
