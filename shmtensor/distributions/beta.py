"""The beta distribution."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import Any

from ..autograd import table as ops
from ..tensor import Tensor
from . import constraints
from .dirichlet import sample_simplex
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Beta"]


class Beta(ExponentialFamily):
    """The beta distribution, of numbers between 0 and 1.

    Parameters
    ----------
    concentration1 : Tensor or float
        The first one, alpha, positive: the larger, the nearer to 1.
    concentration0 : Tensor or float
        The second one, beta, positive: the larger, the nearer to 0.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        A parameter is not positive.

    Notes
    -----
    Both are broadcast to the shape of the batch. `rsample` passes gradients to them, as that of
    `Dirichlet`. Where both are below 1, the density has no maximum, and `mode` is 1; where both are
    1, it is NaN.

    Examples
    --------
    >>> p = st.distributions.Beta(2.0, 3.0)
    >>> p.mean, p.mode
    (tensor(0.4000), tensor(0.3333))
    >>> p.log_prob(st.tensor(0.5))
    tensor(0.4055)
    """

    concentration1: Tensor
    concentration0: Tensor
    arg_constraints = {  # noqa: RUF012
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        is_scalar = isinstance(concentration1, Number) and isinstance(concentration0, Number)
        shape = () if is_scalar else self.concentration1.shape
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        one, zero = (a - 1).clamp(min=0), (b - 1).clamp(min=0)
        return ops.where((a < 1) & (b < 1), 1.0, one / (one + zero))

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expand(Beta, batch_shape, ("concentration1", "concentration0"), _instance)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        both = ops.stack([self.concentration1.expand(shape), self.concentration0.expand(shape)], -1)
        return sample_simplex(both)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        logs = ops.xlogy(a - 1, value) + ops.special_xlog1py(b - 1, -value)
        return logs - self._log_normalizer(a, b)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        logs = (a - 1) * a.digamma() + (b - 1) * b.digamma()
        return self._log_normalizer(a, b) + (a + b - 2) * (a + b).digamma() - logs

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return x.lgamma() + y.lgamma() - (x + y).lgamma()
