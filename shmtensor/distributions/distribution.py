"""`Distribution`: what all distributions have."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ..autograd import no_grad
from ..native import Size
from ..tensor import Tensor
from . import constraints
from .utils import lazy_property

__all__ = ["Distribution"]


class Distribution:
    """A distribution, or a batch of independent ones.

    Parameters
    ----------
    batch_shape : sequence of int, optional
        The shape of the batch.
    event_shape : sequence of int, optional
        The shape of one value.
    validate_args : bool, optional
        Whether parameters and values are compared with their constraints, which costs time; None:
        as `set_default_validate_args` says, by default True.

    Raises
    ------
    ValueError
        A parameter does not satisfy its constraint.

    Examples
    --------
    A subclass has its parameters, their constraints, and the methods that it needs:

    >>> class Die(st.distributions.Distribution):
    ...     arg_constraints = {}
    ...     support = st.distributions.constraints.integer_interval(1, 6)
    ...     def sample(self, sample_shape=()):
    ...         return st.randint(1, 7, self._extended_shape(sample_shape))
    >>> Die((2,)).sample((3,)).shape
    Size([3, 2])
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Sets whether distributions validate their arguments by default.

        Raises:
            ValueError: not a bool.
        """
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: a bool is needed: {value!r}")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()

    def _constraints(self) -> dict[str, Any]:
        """`arg_constraints`; of a class without, which warns, none."""
        try:
            return self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self).__name__} does not define `arg_constraints`: set "
                "`arg_constraints = {}`, or validate_args=False, to silence this warning",
                stacklevel=4,
            )
            return {}

    def _validate_parameters(self) -> None:
        for name, constraint in self._constraints().items():
            is_lazy = isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(constraint) or (is_lazy and name not in vars(self)):
                continue
            value = getattr(self, name)
            if not constraints.holds(constraint, value):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The distribution with its parameters expanded to a batch shape. Copies: none."""
        raise NotImplementedError

    def _expand(
        self, cls: Any, batch_shape: Sequence[int], names: Sequence[str], _instance: Any
    ) -> Any:
        """`expand` of a class, of the parameters with these names, if they have been computed."""
        new = self._new(cls, _instance)
        shape = Size(batch_shape)
        for name in names:
            if name in vars(self):
                value = vars(self)[name]
                inner = value.shape[len(self._batch_shape) :]
                setattr(new, name, value.expand((*shape, *inner)))
        Distribution.__init__(new, shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _new(self, cls: Any, _instance: Any) -> Any:
        """An object without attributes for `expand` of a class, or that of a subclass."""
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:
            raise NotImplementedError(
                f"expand: {type(self).__name__} has a constructor of its own: define its expand"
            )
        return type(self).__new__(type(self))

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one value."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The parameters' names and constraints."""
        raise NotImplementedError(f"{type(self).__name__}.arg_constraints")

    @property
    def support(self) -> Any:
        """The constraint that the values satisfy."""
        raise NotImplementedError(f"{type(self).__name__}.support")

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError(f"{type(self).__name__}.mean")

    @property
    def mode(self) -> Tensor:
        """The most probable value."""
        raise NotImplementedError(f"{type(self).__name__}.mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError(f"{type(self).__name__}.variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Random values without history: (*sample_shape, *batch_shape, *event_shape)."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Random values through which gradients flow to the parameters.

        Raises:
            NotImplementedError: the distribution has none (`has_rsample`).
        """
        raise NotImplementedError(f"{type(self).__name__}.rsample: it has no such gradient: sample")

    def sample_n(self, n: int) -> Tensor:
        """`sample((n,))`, the old form; warns."""
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, at values."""
        raise NotImplementedError(f"{type(self).__name__}.log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to these."""
        raise NotImplementedError(f"{type(self).__name__}.cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The quantiles of probabilities."""
        raise NotImplementedError(f"{type(self).__name__}.icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution: (their number, *batch_shape, *event_shape).

        Args:
            expand: False: sizes of 1 in place of the batch's.
        """
        raise NotImplementedError(f"{type(self).__name__}.enumerate_support")

    def _support_of(self, numbers: Tensor, expand: bool) -> Tensor:
        """Numbers as the values of a batch."""
        n = len(self._batch_shape)
        values = numbers.reshape((-1, *(1,) * n))
        return values.expand((-1, *self._batch_shape)) if expand else values

    def entropy(self) -> Tensor:
        """The entropy, in nats: (*batch_shape)."""
        raise NotImplementedError(f"{type(self).__name__}.entropy")

    def perplexity(self) -> Tensor:
        """e to the power of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        """Checks values, if arguments are validated."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        start = value.ndim - len(self._event_shape)
        if tuple(value.shape[max(start, 0) :]) != tuple(self._event_shape):
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{value.shape} vs {self._event_shape}."
            )
        expected = self._extended_shape()
        for i, j in zip(reversed(value.shape), reversed(expected)):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{value.shape} vs {expected}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self).__name__} does not define `support`: define it, or set "
                "validate_args=False, to silence this warning",
                stacklevel=3,
            )
            return
        if not constraints.holds(support, value):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) "
                f"to be within the support ({support!r}) of the distribution {self!r}, but "
                f"found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        parameters = {n: vars(self)[n] for n in self.arg_constraints if n in vars(self)}
        texts = (f"{n}: {v if v.numel() == 1 else v.shape}" for n, v in parameters.items())
        return f"{type(self).__name__}({', '.join(texts)})"
