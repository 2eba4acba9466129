"""NAdam: Adam with Nesterov momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .arguments import check_betas, check_not_negative, check_rate
from .flat.flat_optimizer import FlatOptimizer
from .optimizer import Group

__all__ = ["NAdam"]


class NAdam(FlatOptimizer):
    """Adam with Nesterov momentum (Dozat 2016).

    Parameters
    ----------
    params : iterable
        Parameters, (name, parameter) pairs, or dictionaries, each a group: "params", and
        hyperparameters of its own.
    lr : float or Tensor, optional
        The step's length, the learning rate.
    betas : (float, float), optional
        Decay of both averages.
    eps : float, optional
        Added to the denominator.
    weight_decay : float, optional
        Times the parameter, added to the gradient: L2 regularisation.
    momentum_decay : float, optional
        How fast the momentum grows towards betas[0].
    decoupled_weight_decay : bool, optional
        Whether weight_decay is subtracted from the parameter instead, as AdamW does.
    maximize : bool, optional
        Whether to go uphill.
    foreach, capturable : bool, optional
        Accepted; without effect: a step is one kernel call for all parameters anyway.
    differentiable : bool, optional
        Whether the step is computed in tensor operations that record history.

    Examples
    --------
    >>> p = st.tensor([1.0], requires_grad=True)
    >>> optimizer = st.optim.NAdam([p], lr=0.1)
    >>> (p * 3).sum().backward()
    >>> optimizer.step()
    >>> bool(p < 1)
    True
    """

    rule = "nadam_"
    states = ("exp_avg", "exp_avg_sq")
    scalars = ("mu_product",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        check_betas(betas)
        check_not_negative(eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _initial(self, group: Group) -> dict[str, float]:
        return {"mu_product": 1.0}

    def _arguments(self, group: Group, step: int, scalars: dict[str, Any]) -> tuple[Any, ...]:
        lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
        product = float(self._next_scalars(group, step, scalars)["mu_product"])
        ahead = momentum(group, step + 1)
        decoupled = group["decoupled_weight_decay"]
        return (
            lr * (1 - momentum(group, step)) / (1 - product),
            lr * ahead / (1 - product * ahead),
            1 - beta1,
            beta2,
            1 - beta2,
            (1 - beta2**step) ** -0.5,
            group["eps"],
            1 - lr * decay if decoupled else 1,
            0 if decoupled else decay,
            group["maximize"],
        )

    def _next_scalars(self, group: Group, step: int, scalars: dict[str, Any]) -> dict[str, Any]:
        # in the dtype of the state, as PyTorch
        return {"mu_product": scalars["mu_product"] * momentum(group, step)}


def momentum(group: Group, step: int) -> float:
    """mu of a step: smaller than beta1 in the first ones."""
    beta1: float = group["betas"][0]
    decay: float = group["momentum_decay"]
    return float(beta1 * (1 - 0.5 * 0.96 ** (step * decay)))
