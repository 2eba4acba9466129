"""RMSprop: steps by the root of the mean square of the gradient."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .arguments import check_not_negative, check_rate
from .flat.flat_optimizer import FlatOptimizer
from .optimizer import Group

__all__ = ["RMSprop"]


class RMSprop(FlatOptimizer):
    """The gradient over the root of its running mean square (Tieleman and Hinton 2012).

    Parameters
    ----------
    params : iterable
        Parameters, (name, parameter) pairs, or dictionaries, each a group: "params", and
        hyperparameters of its own.
    lr : float or Tensor, optional
        The step's length, the learning rate.
    alpha : float, optional
        Decay of the averages.
    eps : float, optional
        Added to the denominator.
    weight_decay : float, optional
        Times the parameter, added to the gradient: L2 regularisation.
    momentum : float, optional
        Share of the previous step that is added to this one.
    centered : bool, optional
        Whether to divide by the deviation from the mean gradient instead (Graves 2013).
    foreach, capturable : bool, optional
        Accepted; without effect: a step is one kernel call for all parameters anyway.
    differentiable : bool, optional
        Whether the step is computed in tensor operations that record history.
    maximize : bool, optional
        Whether to go uphill.

    Examples
    --------
    >>> p = st.tensor([1.0], requires_grad=True)
    >>> optimizer = st.optim.RMSprop([p], lr=0.01)
    >>> (p * 3).sum().backward()
    >>> optimizer.step()
    >>> p.detach().round(decimals=3)
    tensor([0.9000])
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
