"""Adam: steps by the first and second moments of the gradient."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..tensor import Tensor
from .arguments import check_betas, check_not_negative, check_rate
from .flat.flat_optimizer import FlatOptimizer
from .optimizer import Group

__all__ = ["Adam"]


class Adam(FlatOptimizer):
    """Steps scaled by the first and second moments of the gradient (Kingma and Ba 2014).

    Parameters
    ----------
    params : iterable
        Parameters, (name, parameter) pairs, or dictionaries, each a group: "params", and
        hyperparameters of its own.
    lr : float or Tensor, optional
        The step's length, the learning rate.
    betas : (float, float), optional
        Decay of the averages of the gradient and of its square.
    eps : float, optional
        Added to the denominator.
    weight_decay : float, optional
        Times the parameter, added to the gradient: L2 regularisation.
    amsgrad : bool, optional
        Whether to use the largest second moment so far (Reddi et al. 2018).
    foreach, capturable, fused : bool, optional
        Accepted; a step is one kernel call for all parameters anyway. `fused` with `foreach` or
        `differentiable` is refused, as in PyTorch.
    maximize : bool, optional
        Whether to go uphill.
    differentiable : bool, optional
        Whether the step is computed in tensor operations that record history.
    decoupled_weight_decay : bool, optional
        Whether weight_decay is subtracted from the parameter instead, as AdamW does.

    Raises
    ------
    ValueError
        A hyperparameter is out of its range.

    See Also
    --------
    AdamW, SGD

    Notes
    -----
    The first steps correct the averages, which begin at 0: step 1 moves each element by lr.

    Examples
    --------
    >>> p = st.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = st.optim.Adam([p], lr=0.1)
    >>> (p * st.tensor([1.0, 100.0])).sum().backward()
    >>> optimizer.step()
    >>> p.detach().round(decimals=3)
    tensor([0.9000, 1.9000])
    """

    rule = "adam_"
    takes_found_inf = True
    states = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_rate(lr)
        check_not_negative(eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        check_tensors(lr, betas, bool(foreach) and not capturable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def _names(self, group: Group) -> tuple[str, ...]:
        return self.states if group["amsgrad"] else WITHOUT_MAXIMUM

    def _arguments(self, group: Group, step: int, scalars: dict[str, Any]) -> tuple[Any, ...]:
        return (
            step,
            group["lr"],
            *group["betas"],
            group["eps"],
            group["weight_decay"],
            group["decoupled_weight_decay"],
            group["maximize"],
        )


WITHOUT_MAXIMUM = Adam.states[:2]


def check_tensors(lr: Any, betas: tuple[Any, Any], foreach: bool) -> None:
    """Raises: ValueError, a tensor where PyTorch accepts none."""
    if isinstance(betas[0], Tensor) is not isinstance(betas[1], Tensor):
        raise ValueError(f"betas must be either both floats or both Tensors: got {betas}")
    for name, value in (("lr", lr), ("betas[0]", betas[0]), ("betas[1]", betas[1])):
        if foreach and isinstance(value, Tensor):
            raise ValueError(
                f"{name} as a Tensor is not supported for capturable=False and foreach=True: "
                f"{value}"
            )
