"""The categorical distribution of vectors with one 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd import table as ops
from ..native import Size
from ..tensor import Tensor
from . import constraints
from .categorical import Categorical
from .distribution import Distribution

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(Distribution):
    """A vector of n - 1 zeros and a 1, whose place has the distribution `Categorical`.

    Parameters
    ----------
    probs : Tensor, optional
        `(*batch_shape, n)`, not negative; they are divided by their sum.
    logits : Tensor, optional
        Their logarithms, up to a constant; one of both is given.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        None or both are given, or a number without dimensions.

    Examples
    --------
    >>> p = st.distributions.OneHotCategorical(st.tensor([1.0, 3.0]))
    >>> p.mean, p.log_prob(st.tensor([0.0, 1.0])).exp()
    (tensor([0.2500, 0.7500]), tensor(0.7500))
    >>> p.enumerate_support()
    tensor([[1., 0.],
            [0., 1.]])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # noqa: RUF012
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        # Its parameters are checked here, which names this class.
        self._categorical = Categorical(probs, logits, validate_args=False)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def _param(self) -> Tensor:
        """The parameter that was given."""
        return self._categorical._param

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

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._one_hot(self._categorical.mode)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._new(OneHotCategorical, _instance)
        new._categorical = self._categorical.expand(batch_shape)
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _one_hot(self, places: Tensor) -> Tensor:
        return ops.one_hot(places, self._categorical._num_events).to(self._param.dtype)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._one_hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n, param = self._categorical._num_events, self._param
        values = ops.eye(n, dtype=param.dtype, device=param.device)
        values = values.reshape((n, *(1,) * len(self._batch_shape), n))
        return values.expand((n, *self._batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` whose `rsample` passes gradients as if its values were the probabilities.

    Parameters
    ----------
    probs : Tensor, optional
        `(*batch_shape, n)`, not negative; they are divided by their sum.
    logits : Tensor, optional
        Their logarithms, up to a constant; one of both is given.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Notes
    -----
    A biased gradient (Bengio, Leonard, Courville, 2013, "Estimating or propagating gradients
    through stochastic neurons for conditional computation").

    Examples
    --------
    >>> logits = st.zeros(3, requires_grad=True)
    >>> draw = st.distributions.OneHotCategoricalStraightThrough(logits=logits).rsample()
    >>> draw.sum().item(), draw.requires_grad
    (1.0, True)
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        probs = self.probs
        return self.sample(sample_shape) + (probs - probs.detach())
