"""AdamW: Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .adam import Adam

__all__ = ["AdamW"]


class AdamW(Adam):
    """Adam with the weight decay subtracted from the parameter (Loshchilov and Hutter 2017).

    Parameters
    ----------
    params : iterable
        Parameters, (name, parameter) pairs, or dictionaries, each a group: "params", and
        hyperparameters of its own.
    lr : float or Tensor, optional
        The step's length, the learning rate.
    betas : (float, float), optional
        Decay of the averages of the gradient and of its square.
    eps : float, optional
        Added to the denominator.
    weight_decay : float, optional
        Times lr, the share of the parameter that a step subtracts from it.
    amsgrad : bool, optional
        Whether to use the largest second moment so far (Reddi et al. 2018).
    maximize : bool, optional
        Whether to go uphill.
    foreach, capturable, fused : bool, optional
        Accepted; a step is one kernel call for all parameters anyway. `fused` with `foreach` or
        `differentiable` is refused, as in PyTorch.
    differentiable : bool, optional
        Whether the step is computed in tensor operations that record history.

    See Also
    --------
    Adam

    Examples
    --------
    >>> p = st.tensor([1.0], requires_grad=True)
    >>> optimizer = st.optim.AdamW([p], lr=0.1, weight_decay=0.5)
    >>> (p * 3).sum().backward()
    >>> optimizer.step()  # 1 - 0.1 * 0.5 * 1 - 0.1
    >>> p.detach().round(decimals=3)
    tensor([0.8500])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
