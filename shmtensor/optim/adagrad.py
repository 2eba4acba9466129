"""Adagrad: steps by the sum of all squares so far."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import reference_updates
from .arguments import as_numbers, check_not_negative, check_rate
from .flat.flat_optimizer import FlatOptimizer
from .flat.flat_parameters import Array
from .optimizer import Group

if TYPE_CHECKING:
    from ..sparse import SparseTensor

__all__ = ["Adagrad"]


class Adagrad(FlatOptimizer):
    """The gradient over the root of the sum of its squares so far (Duchi, Hazan and Singer 2011).

    Parameters
    ----------
    params : iterable
        Parameters, (name, parameter) pairs, or dictionaries, each a group: "params", and
        hyperparameters of its own.
    lr : float or Tensor, optional
        The step's length, divided by 1 + (steps so far) * lr_decay.
    lr_decay : float, optional
        See lr.
    weight_decay : float, optional
        Times the parameter, added to the gradient: L2 regularisation.
    initial_accumulator_value : float, optional
        First value of the sums.
    eps : float, optional
        Added to the denominator.
    foreach, fused : bool, optional
        Accepted; a step is one kernel call for all parameters anyway. `fused` with `foreach` or
        `differentiable` is refused, as in PyTorch.
    maximize : bool, optional
        Whether to go uphill.
    differentiable : bool, optional
        Whether the step is computed in tensor operations that record history.

    Raises
    ------
    RuntimeError
        In a step: weight_decay with sparse gradients.

    Notes
    -----
    Sparse gradients: the cost of a step is in proportion to their stored values.

    Examples
    --------
    >>> p = st.tensor([1.0], requires_grad=True)
    >>> optimizer = st.optim.Adagrad([p], lr=0.1)
    >>> (p * 3).sum().backward()
    >>> optimizer.step()
    >>> p.detach().round(decimals=3)
    tensor([0.9000])
    """

    rule = "adagrad_"
    states = ("sum",)

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
        check_rate(lr)
        check_not_negative(
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
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
                self._begin(flat, self.states, range(len(flat.tensors)))

    def share_memory(self) -> None:
        """Moves the sums into shared memory, unless they are there. Copies: none or one."""
        for entry in self.state.values():
            entry["sum"].share_memory_()

    def _initial(self, group: Group) -> dict[str, float]:
        return {"sum": group["initial_accumulator_value"]}

    def _length(self, group: Group, step: int) -> Any:
        return group["lr"] / (1 + (step - 1) * group["lr_decay"])

    def _arguments(self, group: Group, step: int, scalars: dict[str, Any]) -> tuple[Any, ...]:
        length, decay = self._length(group, step), group["weight_decay"]
        return length, group["eps"], decay, group["maximize"]

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
        coalesced = g.coalesce()
        index = tuple(coalesced.places.array)
        new, total = p[index], state["sum"][index]
        length = self._length(as_numbers(group), step)
        numbers = coalesced.numbers.detach().array
        reference_updates.adagrad_(
            new, numbers, total, length, group["eps"], 0.0, group["maximize"]
        )
        p[index], state["sum"][index] = new, total
