"""Adamax: Adam by the largest gradient instead of the mean square."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .arguments import check_betas, check_not_negative, check_rate
from .flat.flat_optimizer import FlatOptimizer
from .optimizer import Group

__all__ = ["Adamax"]


class Adamax(FlatOptimizer):
    """Adam with a decaying maximum in the place of the second moment (Kingma and Ba 2014).

    Parameters
    ----------
    params : iterable
        Parameters, (name, parameter) pairs, or dictionaries, each a group: "params", and
        hyperparameters of its own.
    lr : float or Tensor, optional
        The step's length, the learning rate.
    betas : (float, float), optional
        Decay of the average and of the maximum.
    eps : float, optional
        Added to the gradient's size.
    weight_decay : float, optional
        Times the parameter, added to the gradient: L2 regularisation.
    maximize : bool, optional
        Whether to go uphill.
    foreach, capturable : bool, optional
        Accepted; without effect: a step is one kernel call for all parameters anyway.
    differentiable : bool, optional
        Whether the step is computed in tensor operations that record history.

    Examples
    --------
    >>> p = st.tensor([1.0], requires_grad=True)
    >>> optimizer = st.optim.Adamax([p], lr=0.1)
    >>> (p * 3).sum().backward()
    >>> optimizer.step()
    >>> p.detach().round(decimals=3)
    tensor([0.9000])
    """

    rule = "adamax_"
    states = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_rate(lr)
        check_betas(betas)
        check_not_negative(eps=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _arguments(self, group: Group, step: int, scalars: dict[str, Any]) -> tuple[Any, ...]:
        beta1, beta2 = group["betas"]
        step_size = group["lr"] / (1 - beta1**step)
        decay, maximize = group["weight_decay"], group["maximize"]
        return step_size, 1 - beta1, beta2, group["eps"], decay, maximize
