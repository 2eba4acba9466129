"""Adadelta: steps by the ratio of two running averages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .arguments import check_not_negative, check_rate
from .flat.flat_optimizer import FlatOptimizer
from .optimizer import Group

__all__ = ["Adadelta"]


class Adadelta(FlatOptimizer):
    """The gradient times the root of the average squared step over that of the average squared
    gradient (Zeiler 2012).

    Parameters
    ----------
    params : iterable
        Parameters, (name, parameter) pairs, or dictionaries, each a group: "params", and
        hyperparameters of its own.
    lr : float or Tensor, optional
        Factor of the step.
    rho : float, optional
        Decay of both averages.
    eps : float, optional
        Added under both roots.
    weight_decay : float, optional
        Times the parameter, added to the gradient: L2 regularisation.
    foreach, capturable : bool, optional
        Accepted; without effect: a step is one kernel call for all parameters anyway.
    differentiable : bool, optional
        Whether the step is computed in tensor operations that record history.
    maximize : bool, optional
        Whether to go uphill.

    Raises
    ------
    ValueError
        rho is not within 0 and 1.

    Examples
    --------
    >>> p = st.tensor([1.0], requires_grad=True)
    >>> optimizer = st.optim.Adadelta([p])
    >>> (p * 3).sum().backward()
    >>> optimizer.step()
    >>> bool(p < 1)
    True
    """

    rule = "adadelta_"
    states = ("square_avg", "acc_delta")

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_not_negative(eps=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _arguments(self, group: Group, step: int, scalars: dict[str, Any]) -> tuple[Any, ...]:
        rho = group["rho"]
        decay, maximize = group["weight_decay"], group["maximize"]
        return group["lr"], rho, 1 - rho, group["eps"], decay, maximize
