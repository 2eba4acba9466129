"""Adamax: Adam by the largest gradient instead of the mean square."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .arguments import check_betas, check_not_negative, check_rate
from .flat.flat_optimizer import FlatOptimizer
from .optimizer import Group

__all__ = ["Adamax"]


class Adamax(FlatOptimizer):
    """Adam with a decaying maximum in the place of the second moment (Kingma, Ba 2014).

    Args:
        params: tensors, (name, tensor) pairs, or groups of them.
        lr: the step's length.
        betas: decay of the average and of the maximum.
        eps: added to the gradient's size.
        weight_decay: times the parameter, added to the gradient.
        maximize: go uphill.
        foreach, capturable, differentiable: as in PyTorch; it is one kernel call anyway, and a
            step in tensor operations where it is differentiable.
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
