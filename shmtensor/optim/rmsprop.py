"""RMSprop: steps by the root of the mean square of the gradient."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .arguments import check_not_negative, check_rate
from .flat.flat_optimizer import FlatOptimizer
from .optimizer import Group

__all__ = ["RMSprop"]


class RMSprop(FlatOptimizer):
    """The gradient over the root of its running mean square (Tieleman, Hinton 2012).

    Args:
        params: tensors, (name, tensor) pairs, or groups of them.
        lr: the step's length.
        alpha: decay of the averages.
        eps: added to the denominator.
        weight_decay: times the parameter, added to the gradient.
        momentum: share of the previous step that is added to this one.
        centered: divide by the deviation from the mean gradient instead (Graves 2013).
        maximize: go uphill.
        foreach, capturable, differentiable: as in PyTorch; it is one kernel call anyway, and a
            step in tensor operations where it is differentiable.
    """

    rule = "rmsprop_"
    states = ("square_avg", "momentum_buffer", "grad_avg")

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        check_not_negative(eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _names(self, group: Group) -> tuple[str, ...]:
        flags = (True, group["momentum"] > 0, group["centered"])
        return tuple(name for name, flag in zip(self.states, flags, strict=True) if flag)

    def _arguments(self, group: Group, step: int, scalars: dict[str, Any]) -> tuple[Any, ...]:
        alpha = group["alpha"]
        return (
            group["lr"],
            alpha,
            1 - alpha,
            group["eps"],
            group["momentum"],
            group["weight_decay"],
            group["maximize"],
        )
