"""Adafactor: second moments of matrices, stored as a row and a column."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..autograd import no_grad, wrap
from ..dtypes import finfo
from .arguments import check_rate, number
from .flat.flat_parameters import scalar_dtype, zeros_beside
from .optimizer import Group, Optimizer

__all__ = ["Adafactor"]


class Adafactor(Optimizer):
    """Adaptive steps with a state much smaller than the parameters (Shazeer and Stern 2018).

    Parameters
    ----------
    params : iterable
        Parameters, (name, parameter) pairs, or dictionaries, each a group: "params", and
        hyperparameters of its own.
    lr : float or Tensor, optional
        The largest step relative to the parameter's size; also times weight_decay.
    beta2_decay : float, optional
        Step t's squared gradient has the weight t ** beta2_decay.
    eps : (float or None, float), optional
        The least divisor (None: the dtype's eps), and the least size of a parameter.
    d : float, optional
        Steps with a larger root mean square than this are shortened.
    weight_decay : float, optional
        Times lr, the share of the parameter that a step subtracts from it.
    foreach : bool, optional
        Accepted; has no effect.
    maximize : bool, optional
        Whether to go uphill.

    Raises
    ------
    ValueError
        A hyperparameter is out of its range.
    RuntimeError
        A parameter is complex, or in a step a gradient is sparse.

    Notes
    -----
    The second moment of a matrix `(n, m)` is kept as n + m sums of its rows and columns.

    Examples
    --------
    >>> weight = st.ones(30, 20, requires_grad=True)
    >>> optimizer = st.optim.Adafactor([weight])
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> sum(x.numel() for x in optimizer.state[weight].values()) < weight.numel()
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_rate(lr, "Learning rate should be >= 0 but is")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters that have a gradient.

        Copies: some of the size of a parameter.

        Args:
            closure: computes the loss anew, and its gradients.

        Returns: what closure returned.

        Raises: RuntimeError, a parameter is complex or a gradient sparse.
        """
        loss = self._evaluate(closure)
        with no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        self._update(group, p.detach(), p.grad, self._state_of(p))
        return loss

    def _state_of(self, p: Any) -> dict[str, Any]:
        if p.is_complex():
            raise RuntimeError(f"Adafactor does not support complex parameters: {p.dtype.name}")
        if p.grad.is_sparse:
            raise RuntimeError(
                f"Adafactor does not support sparse gradients: of a parameter {tuple(p.shape)}"
            )
        state: dict[str, Any] = self.state[p]
        if not state:
            state["step"] = wrap(np.zeros((), scalar_dtype()))
            shape = p.array.shape
            if len(shape) > 1:
                state["row_var"] = wrap(zeros_beside(p.array, (*shape[:-1], 1)))
                state["col_var"] = wrap(zeros_beside(p.array, (*shape[:-2], 1, shape[-1])))
            else:
                state["variance"] = wrap(zeros_beside(p.array, shape))
        return state

    def _update(self, group: Group, p: Any, g: Any, state: dict[str, Any]) -> None:
        lr, (eps1, eps2) = float(number(group["lr"])), group["eps"]
        eps1 = float(finfo(p.dtype).eps) if eps1 is None else eps1
        if group["maximize"]:
            g = -g
        state["step"] += 1
        step = state["step"].item()
        length = max(eps2, root_mean_square(p)) * min(lr, step**-0.5)
        if group["weight_decay"]:
            p.mul_(1 - lr * group["weight_decay"])
        weight = step ** group["beta2_decay"]
        square = g * g
        if p.ndim > 1:
            rows, columns = state["row_var"], state["col_var"]
            rows.lerp_(square.mean(-1, keepdim=True), weight)
            columns.lerp_(square.mean(-2, keepdim=True), weight)
            variance = rows / rows.mean(-2, keepdim=True).clamp_(min=eps1) * columns
        else:
            variance = state["variance"].lerp_(square, weight).clone()
        update = variance.clamp_(min=eps1 * eps1).rsqrt_().mul_(g)
        p.add_(update, alpha=-length / max(1.0, root_mean_square(update) / group["d"]))


def root_mean_square(x: Any) -> float:
    return float(x.norm()) / math.sqrt(max(x.numel(), 1))
