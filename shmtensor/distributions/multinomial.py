"""The multinomial distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd import no_grad
from ..autograd import table as ops
from ..native import Size
from ..tensor import Tensor
from . import constraints
from .categorical import Categorical
from .distribution import Distribution

__all__ = ["Multinomial"]


class Multinomial(Distribution):
    """How often each of n categories occurs among a number of independent draws.

    Parameters
    ----------
    total_count : int, optional
        The number of draws.
    probs : Tensor, optional
        `(*batch_shape, n)`, not negative; they are divided by their sum.
    logits : Tensor, optional
        Their logarithms, up to a constant; one of both is given.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    NotImplementedError
        `total_count` is not an int: it is one for the whole batch.
    ValueError
        It is negative; none or both of `probs` and `logits` are given, or a number without
        dimensions.

    See Also
    --------
    distributions.Categorical

    Notes
    -----
    `log_prob` does not compare the sum of counts with `total_count` if arguments are not
    validated: it takes values of different sums.

    Examples
    --------
    >>> p = st.distributions.Multinomial(4, st.tensor([0.5, 0.25, 0.25]))
    >>> p.mean
    tensor([2., 1., 1.])
    >>> p.log_prob(st.tensor([2.0, 1.0, 1.0])).exp()
    tensor(0.1875)
    >>> p.sample((5,)).sum(-1)
    tensor([4., 4., 4., 4., 4.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # noqa: RUF012

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError(
                f"Multinomial: inhomogeneous total_count is not supported: {total_count!r}"
            )
        if total_count < 0:
            raise ValueError(f"Multinomial: total_count must not be negative: {total_count}")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits, validate_args=False)
        super().__init__(
            self._categorical.batch_shape,
            self._categorical.param_shape[-1:],
            validate_args=validate_args,
        )

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._categorical.param_shape

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """The vectors of counts whose sum is `total_count`."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._expand(Multinomial, batch_shape, (), _instance)
        new.total_count = self.total_count
        new._categorical = self._categorical.expand(batch_shape)
        return new

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            draws = self._categorical.sample((self.total_count, *sample_shape))
            drawn = draws.movedim(0, -1)
            counts = ops.zeros(
                self._extended_shape(sample_shape), dtype=self.probs.dtype, device=draws.device
            )
            return ops.scatter_add(counts, -1, drawn, ops.ones_like(drawn, dtype=counts.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, logits = ops.broadcast_tensors(value, self.logits)
        logits = ops.where(value == 0, 0.0, logits)  # 0 * -inf counts nothing
        coefficient = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return coefficient + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        # The mean of -log_prob: the mean of each (value + 1).lgamma() is one over a binomial
        # distribution.
        n, p = self.total_count, self.probs
        options: Any = {"dtype": p.dtype, "device": p.device}
        k = ops.arange(0, n + 1, **options).reshape((-1, *(1,) * p.ndim))
        log_factorial = (k + 1).lgamma()
        coefficient = math.lgamma(n + 1) - log_factorial - (n - k + 1).lgamma()
        weights = (coefficient + ops.xlogy(k, p) + ops.special_xlog1py(n - k, -p)).exp()
        return (
            n * self._categorical.entropy()
            - math.lgamma(n + 1)
            + (weights * log_factorial).sum(0).sum(-1)
        )
