"""Adagrad: steps by the sum of all squares so far."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import reference_updates as rules
from .flat.flat_optimizer import FlatOptimizer
from .flat.flat_parameters import Array
from .optimizer import Group

if TYPE_CHECKING:
    from ..sparse import SparseTensor

__all__ = ["Adagrad"]


class Adagrad(FlatOptimizer):
    """The gradient over the root of the sum of its squares so far (Duchi, Hazan, Singer 2011).

    Sparse gradients: a step costs what they keep. weight_decay does not go with them.

    Args:
        params: tensors, (name, tensor) pairs, or groups of them.
        lr: the step's length, divided by 1 + (steps so far) * lr_decay.
        lr_decay: see lr.
        weight_decay: times the parameter, added to the gradient.
        initial_accumulator_value: what the sums begin with.
        eps: added to the denominator.
        maximize: go uphill.
        foreach, differentiable, fused: accepted; it is elementwise anyway.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        for value, name in (
            (lr, "learning rate"),
            (lr_decay, "lr_decay value"),
            (weight_decay, "weight_decay value"),
            (initial_accumulator_value, "initial_accumulator_value value"),
            (eps, "epsilon value"),
        ):
            if not value >= 0.0:
                raise ValueError(f"Invalid {name}: {value}")
        if differentiable:
            raise NotImplementedError(
                "Adagrad: differentiable steps are not supported: the update is in place, hint: "
                "write the update in tensor operations"
            )
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def add_param_group(self, param_group: Group) -> None:
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for flat in self._flats:
            if flat.group is group:
                flat.add_state(SUM)
                flat.state["sum"][...] = group["initial_accumulator_value"]
                self._begin(flat, SUM, range(len(flat.tensors)))

    def _names(self, group: Group) -> list[str]:
        return SUM

    def _length(self, group: Group, step: int) -> float:
        return float(group["lr"]) / (1 + (step - 1) * float(group["lr_decay"]))

    def _update(self, group: Group, p: Array, g: Array, state: dict[str, Array], step: int) -> None:
        rules.adagrad_(
            p,
            g,
            state["sum"],
            self._length(group, step),
            group["eps"],
            group["weight_decay"],
            group["maximize"],
        )

    def takes_sparse(self, group: Group) -> bool:
        if group["weight_decay"]:
            raise RuntimeError(
                "Adagrad: weight_decay option is not compatible with sparse gradients: "
                f"{group['weight_decay']}"
            )
        return True

    def _update_sparse(
        self, group: Group, p: Array, g: SparseTensor, state: dict[str, Array], step: int
    ) -> None:
        once = g.coalesce()
        at = tuple(once.places.array)
        new, total = p[at], state["sum"][at]
        length = self._length(group, step)
        numbers = once.numbers.detach().array
        rules.adagrad_(new, numbers, total, length, group["eps"], 0.0, group["maximize"])
        p[at], state["sum"][at] = new, total


SUM = ["sum"]
