"""ASGD: gradient descent that averages its parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .arguments import check_not_negative, check_rate
from .flat.flat_optimizer import FlatOptimizer
from .flat.flat_parameters import scalar_dtype
from .optimizer import Group

__all__ = ["ASGD"]


class ASGD(FlatOptimizer):
    """Gradient descent with steps that become shorter, and an average of the parameters in the
    state, "ax" (Polyak, Juditsky 1992).

    Args:
        params: tensors, (name, tensor) pairs, or groups of them.
        lr: the first step's length; step t + 1 has lr / (1 + lambd * lr * t) ** alpha.
        lambd: how fast the parameters decay and the steps become shorter.
        alpha: see lr.
        t0: the step after which averaging begins.
        weight_decay: times the parameter, added to the gradient.
        maximize: go uphill.
        foreach, capturable, differentiable: as in PyTorch; it is one kernel call anyway, and a
            step in tensor operations where it is differentiable.
    """

    rule = "asgd_"
    states = ("ax",)
    scalars = ("eta", "mu")

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_rate(lr)
        check_not_negative(weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _initial(self, group: Group) -> dict[str, float]:
        return {"eta": group["lr"], "mu": 1.0}

    def _arguments(self, group: Group, step: int, scalars: dict[str, Any]) -> tuple[Any, ...]:
        eta, mu = float(scalars["eta"]), float(scalars["mu"])
        return eta, mu, 1 - group["lambd"] * eta, group["weight_decay"], group["maximize"]

    def _next_scalars(self, group: Group, step: int, scalars: dict[str, Any]) -> dict[str, Any]:
        lr = group["lr"]
        eta = lr / (1 + group["lambd"] * lr * step) ** group["alpha"]
        dtype = scalar_dtype().type  # as in PyTorch, whatever the state's dtype is
        return {"eta": dtype(eta), "mu": dtype(1 / max(1, step - group["t0"]))}
