"""Rprop: steps by the gradient's sign alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .arguments import check_rate
from .flat.flat_optimizer import FlatOptimizer
from .optimizer import Group

__all__ = ["Rprop"]


class Rprop(FlatOptimizer):
    """A step length for each element, longer while the gradient keeps its sign (Riedmiller and
    Braun 1993).

    Parameters
    ----------
    params : iterable
        Parameters, (name, parameter) pairs, or dictionaries, each a group: "params", and
        hyperparameters of its own.
    lr : float or Tensor, optional
        The first step's length.
    etas : (float, float), optional
        Factors of the length where the sign changes, and where it stays.
    step_sizes : (float, float), optional
        The smallest and the largest length.
    foreach, capturable : bool, optional
        Accepted; without effect: a step is one kernel call for all parameters anyway.
    differentiable : bool, optional
        Whether the step is computed in tensor operations that record history.
    maximize : bool, optional
        Whether to go uphill.

    Raises
    ------
    ValueError
        The etas are not below and above 1.

    Examples
    --------
    >>> p = st.tensor([1.0], requires_grad=True)
    >>> optimizer = st.optim.Rprop([p], lr=0.1)
    >>> (p * 3).sum().backward()
    >>> optimizer.step()
    >>> p.detach().round(decimals=3)
    tensor([0.9000])
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
