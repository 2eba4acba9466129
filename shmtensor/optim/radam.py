"""RAdam: Adam that ignores the second moment in the first steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .arguments import check_betas, check_not_negative, check_rate
from .flat.flat_optimizer import FlatOptimizer
from .optimizer import Group

__all__ = ["RAdam"]


class RAdam(FlatOptimizer):
    """Adam with the variance of its step rectified (Liu et al. 2019).

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
    decoupled_weight_decay : bool, optional
        Whether weight_decay is subtracted from the parameter instead, as AdamW does.
    maximize : bool, optional
        Whether to go uphill.
    foreach, capturable : bool, optional
        Accepted; without effect: a step is one kernel call for all parameters anyway.
    differentiable : bool, optional
        Whether the step is computed in tensor operations that record history.

    Notes
    -----
    In the first steps, where the variance is not defined, the step is that of momentum alone.

    Examples
    --------
    >>> p = st.tensor([1.0], requires_grad=True)
    >>> optimizer = st.optim.RAdam([p], lr=0.1)
    >>> (p * 3).sum().backward()
    >>> optimizer.step()
    >>> p.detach().round(decimals=3)
    tensor([0.7000])
    """

    rule = "radam_"
    states = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        check_betas(betas)
        check_not_negative(eps=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _arguments(self, group: Group, step: int, scalars: dict[str, Any]) -> tuple[Any, ...]:
        lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
        decoupled = group["decoupled_weight_decay"]
        return (
            lr / (1 - beta1**step),
            rectification(beta2, step),
            1 - beta1,
            beta2,
            1 - beta2,
            group["eps"],
            1 - lr * decay if decoupled else 1,
            0 if decoupled else decay,
            group["maximize"],
        )


def rectification(beta2: float, step: int) -> float:
    """The paper's r_t times the correction of the second moment; 0 in the first steps, where the
    variance is not tractable yet."""
    correction = 1 - beta2**step
    longest = 2 / (1 - beta2) - 1  # of the simple moving average that the second moment represents
    length = longest - 2 * step * beta2**step / correction
    if length <= 5:
        return 0.0
    r: float = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    return float((r * correction) ** 0.5)
