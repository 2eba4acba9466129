"""`MixtureSameFamily`: one of several distributions of a class, chosen by chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd import no_grad
from ..autograd import table as ops
from ..tensor import Tensor
from . import constraints
from .categorical import Categorical
from .distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A mixture of the distributions along the last dimension of a batch.

    Parameters
    ----------
    mixture_distribution : Categorical
        The probabilities of the components.
    component_distribution : Distribution
        The components: `(*batch_shape, n)` is its batch.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        They are of other classes, or their shapes do not fit.

    Examples
    --------
    >>> from shmtensor.distributions import Categorical, MixtureSameFamily, Normal
    >>> weights = Categorical(st.tensor([1.0, 3.0]))
    >>> p = MixtureSameFamily(weights, Normal(st.tensor([-1.0, 1.0]), 1.0))
    >>> p.mean, p.variance
    (tensor(0.5000), tensor(1.7500))
    """

    arg_constraints = {}  # noqa: RUF012
    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Any,
        component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            name = type(mixture_distribution).__name__
            raise ValueError(
                f"The Mixture distribution needs to be an instance of Categorical: {name}"
            )
        if not isinstance(component_distribution, Distribution):
            name = type(component_distribution).__name__
            raise ValueError(
                f"The Component distribution needs to be an instance of Distribution: {name}"
            )
        weights, batch = mixture_distribution.batch_shape, component_distribution.batch_shape
        if len(batch) < 1:
            raise ValueError(
                "The Component distribution has no dimension of its batch for the components: "
                f"{component_distribution!r}"
            )
        for i, j in zip(reversed(weights), reversed(batch[:-1])):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({weights}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch[:-1]})"
                )
        n = mixture_distribution._num_events
        if n != batch[-1]:
            raise ValueError(
                f"`mixture_distribution component` ({n}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({batch[-1]})"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(
            batch[:-1], component_distribution.event_shape, validate_args=validate_args
        )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._new(MixtureSameFamily, _instance)
        n = self._mixture_distribution._num_events
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._component_distribution = self._component_distribution.expand((*batch_shape, n))
        new._event_ndims = self._event_ndims
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        """The components' support."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The probabilities of the components."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    def _averaged(self, of_components: Tensor) -> Tensor:
        """The mean over the components, by their probabilities."""
        probs = self._mixture_distribution.probs
        probs = probs.reshape((*probs.shape, *(1,) * self._event_ndims))
        return (probs * of_components).sum(-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return self._averaged(self._component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        components = self._component_distribution
        shift = components.mean - self.mean.unsqueeze(-1 - self._event_ndims)
        return self._averaged(components.variance + shift.square())

    def _for_each_component(self, value: Tensor) -> Tensor:
        return value.unsqueeze(-1 - self._event_ndims)

    def cdf(self, x: Tensor) -> Tensor:
        probability = self._component_distribution.cdf(self._for_each_component(x))
        return (probability * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(x)
        log_prob = self._component_distribution.log_prob(self._for_each_component(x))
        log_weight = ops.log_softmax(self._mixture_distribution.logits, -1)
        return (log_prob + log_weight).logsumexp(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            values = self._component_distribution.sample(sample_shape)
            chosen = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            dim = values.ndim - 1 - self._event_ndims
            places = chosen.reshape((*chosen.shape, *(1,) * (self._event_ndims + 1)))
            places = places.expand((*chosen.shape, 1, *self._event_shape))
            return values.gather(dim, places).squeeze(dim)

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}(\n  {self._mixture_distribution},\n  {self._component_distribution})"
