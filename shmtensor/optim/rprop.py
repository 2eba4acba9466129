"""Rprop: steps by the gradient's sign alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .arguments import check_rate
from .flat.flat_optimizer import FlatOptimizer
from .optimizer import Group

__all__ = ["Rprop"]


class Rprop(FlatOptimizer):
    """A step length for each element, longer while the gradient keeps its sign (Riedmiller, Braun
    1993).

    Args:
        params: tensors, (name, tensor) pairs, or groups of them.
        lr: the first step's length.
        etas: factors of the length where the sign changes, and where it stays.
        step_sizes: the smallest and the largest length.
        maximize: go uphill.
        foreach, capturable, differentiable: as in PyTorch; it is one kernel call anyway, and a
            step in tensor operations where it is differentiable.
    """

    rule = "rprop_"
    states = ("prev", "step_size")

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _initial(self, group: Group) -> dict[str, float]:
        return {"step_size": group["lr"]}

    def _arguments(self, group: Group, step: int, scalars: dict[str, Any]) -> tuple[Any, ...]:
        return *group["etas"], *group["step_sizes"], 0, group["maximize"]
