"""Muon: momentum with nearly orthogonal steps."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..autograd import no_grad, wrap
from ..autograd import table as ops
from ..dtypes import float32, int32
from .arguments import check_rate, number
from .flat.flat_parameters import zeros_beside
from .optimizer import Group, Optimizer

__all__ = ["Muon"]

LARGE = 1 << 16  # a matrix of this many elements is not stacked with others


class Muon(Optimizer):
    """Momentum for the matrices of hidden layers: each step approximates the closest matrix with
    orthonormal rows or columns (Jordan et al. 2024).

    Parameters
    ----------
    params : iterable
        Matrices, (name, matrix) pairs, or groups of them.
    lr : float or Tensor, optional
        The step's length, the learning rate.
    weight_decay : float, optional
        Times lr, the share of the parameter that a step subtracts from it.
    momentum : float, optional
        Decay of the average of the gradients.
    nesterov : bool, optional
        Whether to use Nesterov momentum.
    ns_coefficients : (float, float, float), optional
        Of the polynomial that moves the singular values towards 1.
    eps : float, optional
        The least norm by which a matrix is divided.
    ns_steps : int, optional
        How often the polynomial is applied.
    adjust_lr_fn : str, optional
        How lr depends on the shape (A, B). None or "original": times sqrt(max(1, A / B));
        "match_rms_adamw": times 0.2 * sqrt(max(A, B)) (Liu et al. 2025).

    Raises
    ------
    ValueError
        A parameter has not 2 dimensions, or a hyperparameter is out of its range.
    RuntimeError
        A parameter is complex, or in a step a gradient is sparse.

    Examples
    --------
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> optimizer = st.optim.Muon(p for p in model.parameters() if p.ndim == 2)
    >>> model(st.ones(3, 4)).sum().backward()
    >>> optimizer.step()
    >>> len(optimizer.param_groups[0]["params"])
    2
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_rate(lr, "Learning rate should be >= 0 but is")
        if not momentum >= 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for p in self._parameters():
            if p.ndim != 2:
                raise ValueError(
                    "Muon only supports 2D parameters whereas we found a parameter with size: "
                    f"{p.shape}"
                )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters that have a gradient.

        Copies: some of the size of a matrix, or of several small ones.

        Args:
            closure: computes the loss anew, and its gradients.

        Returns: what closure returned.

        Raises: RuntimeError, a parameter is complex or a gradient sparse.
        """
        loss = self._evaluate(closure)
        with no_grad():
            for group in self.param_groups:
                self._step_group(group)
        return loss

    def _step_group(self, group: Group) -> None:
        """Updates a group; matrices of equal shape are orthogonalized together."""
        stacks: dict[Any, list[Any]] = defaultdict(list)
        for i, p in enumerate(group["params"]):
            if p.grad is not None:
                key = tuple(p.shape) if p.numel() < LARGE else i
                stacks[key].append((p.detach(), self._direction(group, p)))
        arguments = (group["ns_coefficients"], group["ns_steps"], group["eps"])
        lr = float(number(group["lr"]))
        for pairs in stacks.values():
            updates = zeropower_via_newtonschulz(ops.stack([d for _, d in pairs]), *arguments)
            for (p, _), update in zip(pairs, updates, strict=True):
                p.mul_(1 - lr * group["weight_decay"])
                p.add_(update.to(p.dtype), alpha=-lr * lr_factor(group["adjust_lr_fn"], *p.shape))

    def _direction(self, group: Group, p: Any) -> Any:
        """The average of the gradients, with Nesterov's look-ahead if `nesterov`."""
        if p.is_complex():
            raise RuntimeError(f"Muon does not support complex parameters: {p.dtype.name}")
        if p.grad.is_sparse:
            raise RuntimeError(
                f"Muon does not support sparse gradients: of a parameter {tuple(p.shape)}"
            )
        state = self.state[p]
        if not state:
            state["momentum_buffer"] = wrap(zeros_beside(p.array, p.array.shape))
        average = state["momentum_buffer"].lerp_(p.grad, 1 - group["momentum"])
        return p.grad.lerp(average, group["momentum"]) if group["nesterov"] else average


def zeropower_via_newtonschulz(
    x: Any, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Any:
    """Newton-Schulz iteration on matrices (N, A, B), rounded to bfloat16 where PyTorch rounds.

    The products are computed in float32, in which bfloat16 numbers are exact.

    Returns: float32.
    Raises: ValueError, there are not three coefficients, or a hundred steps.
    """
    if steps >= 100:
        raise ValueError(
            f"Number of steps must be less than 100 for computational efficiency: {steps}"
        )
    if len(coefficients) != 3:
        raise ValueError(f"Coefficients must be a tuple of exactly 3 values: {coefficients}")
    a, b, c = coefficients
    x = to_bfloat16(x)
    is_tall = x.shape[-2] > x.shape[-1]
    if is_tall:
        x = x.mT.contiguous()
    x = to_bfloat16(x / to_bfloat16(x.norm(dim=(-2, -1), keepdim=True)).clamp_(min=eps))
    for _ in range(steps):
        gram = to_bfloat16(x @ x.mT)
        polynomial = to_bfloat16((gram @ gram).mul_(c).add_(gram, alpha=b))
        x = to_bfloat16((polynomial @ x).add_(x, alpha=a))
    return x.mT if is_tall else x


def to_bfloat16(x: Any) -> Any:
    """To the nearest bfloat16 numbers, as float32, by their bits where there is no such dtype."""
    if isinstance(x.array, np.ndarray):
        return x.bfloat16().float()
    bits = x.float().view(int32)
    is_odd = (bits >> 16) & 1
    return ((bits + is_odd + 0x7FFF) & -0x10000).view(float32)


def lr_factor(rule: str | None, rows: int, columns: int) -> float:
    """The factor of a matrix's learning rate."""
    if rule == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1.0, rows / columns))
