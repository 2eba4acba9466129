"""`TransformedDistribution`: the values of another distribution, transformed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd import no_grad
from ..autograd import table as ops
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of f(x), where x has another distribution.

    Parameters
    ----------
    base_distribution : Distribution
        That of x.
    transforms : Transform or list of Transform
        f, or functions one after another.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        There is something else among the transforms, or x has fewer dimensions than they need.

    Notes
    -----
    The density is that of x divided by the Jacobian. `cdf` and `icdf` need monotonic transforms.

    Examples
    --------
    >>> from shmtensor.distributions import AffineTransform, Normal, TransformedDistribution
    >>> p = TransformedDistribution(Normal(0.0, 1.0), AffineTransform(1.0, 2.0))
    >>> p.log_prob(st.tensor(1.0)), Normal(1.0, 2.0).log_prob(st.tensor(1.0))
    (tensor(-1.6121), tensor(-1.6121))
    """

    arg_constraints = {}  # noqa: RUF012

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        parts = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(parts, (list, tuple)):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms!r}")
        if not all(isinstance(t, Transform) for t in parts):
            raise ValueError(f"transforms must be a Transform or a list of Transforms: {parts!r}")
        self.transforms = list(parts)
        transform = ComposeTransform(self.transforms)
        n_base, n_domain = len(base_distribution.event_shape), transform.domain.event_dim
        shape = base_distribution._extended_shape()
        if len(shape) < n_domain:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {n_domain}, but got "
                f"{shape}."
            )
        # Parameters of the transforms may broadcast the batch.
        out_shape = transform.forward_shape(shape)
        wider = transform.inverse_shape(out_shape)
        if wider != shape:
            base_distribution = base_distribution.expand(wider[: len(wider) - n_base])
        if n_domain > n_base:
            base_distribution = Independent(base_distribution, n_domain - n_base)
        self.base_dist = base_distribution
        start = len(out_shape) - transform.codomain.event_dim - max(n_base - n_domain, 0)
        super().__init__(out_shape[:start], out_shape[start:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expand_base(TransformedDistribution, batch_shape, _instance)

    def _expand_base(self, cls: Any, batch_shape: Sequence[int], _instance: Any) -> Any:
        """`expand` of a class whose parameters are those of the base distribution."""
        new = self._new(cls, _instance)
        shape = ComposeTransform(self.transforms).inverse_shape((*batch_shape, *self._event_shape))
        base = self.base_dist
        new.base_dist = base.expand(shape[: len(shape) - len(base.event_shape)])
        new.transforms = self.transforms
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether the base distribution has `rsample`."""
        return self.base_dist.has_rsample

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """The codomain of the last transform."""
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self._event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    def _transformed(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._transformed(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        log_jacobian: Any = 0
        n = len(self._event_shape)
        y = value
        for transform in reversed(self.transforms):
            x = transform._inv_call(y)
            n += transform.domain.event_dim - transform.codomain.event_dim
            term = transform.log_abs_det_jacobian(x, y)
            log_jacobian = log_jacobian + sum_rightmost(term, n - transform.domain.event_dim)
            y = x
        log_prob = self.base_dist.log_prob(y)
        return sum_rightmost(log_prob, n - len(self.base_dist.event_shape)) - log_jacobian

    def _mirrored(self, probability: Tensor) -> Tensor:
        """1 - the probability where the transforms fall."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, Tensor):
            return ops.where(sign < 0, 1 - probability, probability)
        return 1 - probability if sign < 0 else probability

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform._inv_call(value)
        if self.base_dist._validate_args:
            self.base_dist._validate_sample(value)
        return self._mirrored(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._transformed(self.base_dist.icdf(self._mirrored(value)))
