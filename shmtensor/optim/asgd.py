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
    state, "ax" (Polyak and Juditsky 1992).

    Parameters
    ----------
    params : iterable
        Parameters, (name, parameter) pairs, or dictionaries, each a group: "params", and
        hyperparameters of its own.
    lr : float or Tensor, optional
        The first step's length; step t + 1 has lr / (1 + lambd * lr * t) ** alpha.
    lambd : float, optional
        How fast the parameters decay and the steps become shorter.
    alpha : float, optional
        See lr.
    t0 : float, optional
        The step after which averaging begins.
    weight_decay : float, optional
        Times the parameter, added to the gradient: L2 regularisation.
    foreach, capturable : bool, optional
        Accepted; without effect: a step is one kernel call for all parameters anyway.
    maximize : bool, optional
        Whether to go uphill.
    differentiable : bool, optional
        Whether the step is computed in tensor operations that record history.

    Examples
    --------
    >>> p = st.tensor([1.0], requires_grad=True)
    >>> optimizer = st.optim.ASGD([p], lr=0.1, lambd=0.0)
    >>> (p * 3).sum().backward()
    >>> optimizer.step()
    >>> p.detach().round(decimals=3)
    tensor([0.7000])
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
