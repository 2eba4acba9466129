"""Sets that parameters and values of distributions lie in: `torch.distributions.constraints`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..autograd import table as ops
from ..dtypes import finfo
from ..tensor import Tensor

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A set of values that parameters or results of a distribution come from.

    Attributes
    ----------
    is_discrete : bool
        Whether it is countable.
    event_dim : int
        How many of the last dimensions are one value.

    Examples
    --------
    >>> class Even(st.distributions.constraints.Constraint):
    ...     is_discrete = True
    ...     def check(self, value):
    ...         return value % 2 == 0
    >>> Even().check(st.tensor([1, 2]))
    tensor([False,  True])
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor) -> Tensor:
        """Whether each value is in the set: a tensor of bools.

        Raises:
            NotImplementedError: the set is not known.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        name = type(self).__name__.lstrip("_")
        return f"{name}()"


class _Dependent(Constraint):
    """A set that depends on other parameters, which are not known here.

    Parameters
    ----------
    is_discrete : bool, optional
        Whether it is countable.
    event_dim : int, optional
        How many of the last dimensions are one value.

    Returns
    -------
    Constraint
        A call of `dependent` gives the same with other attributes.

    Examples
    --------
    >>> from shmtensor.distributions import constraints
    >>> constraints.dependent(event_dim=1).event_dim
    1
    >>> constraints.is_dependent(constraints.dependent)
    True
    """

    def __init__(self, *, is_discrete: bool | None = None, event_dim: int | None = None) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def _known(self, name: str) -> Any:
        value = getattr(self, f"_{name}")
        if value is None:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return value

    @property
    def is_discrete(self) -> Any:
        """Whether it is countable."""
        return self._known("is_discrete")

    @property
    def event_dim(self) -> Any:
        """How many of the last dimensions are one value."""
        return self._known("event_dim")

    def __call__(self, *, is_discrete: Any = None, event_dim: Any = None) -> _Dependent:
        """The same with other attributes."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is None else is_discrete,
            event_dim=self._event_dim if event_dim is None else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("constraint: cannot determine the validity of a dependent constraint")


class dependent_property(property, _Dependent):
    """A property whose value is a constraint, as `support`; also `dependent_property(event_dim=1)`.

    Parameters
    ----------
    fn : callable, optional
        The function of the property; None: for a decorator with arguments.
    is_discrete, event_dim : bool, int, optional
        As of the constraint.

    Examples
    --------
    >>> from shmtensor.distributions import constraints
    >>> class Below:
    ...     def __init__(self, high):
    ...         self.high = high
    ...     @constraints.dependent_property(event_dim=0)
    ...     def support(self):
    ...         return constraints.less_than(self.high)
    >>> Below(2.0).support
    LessThan(upper_bound=2.0)
    >>> constraints.is_dependent(Below.support)
    True
    """

    def __init__(
        self, fn: Any = None, *, is_discrete: bool | None = None, event_dim: int | None = None
    ) -> None:
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[[Any], Any]) -> dependent_property:  # type: ignore[override]
        """The property of a function, for a decorator with arguments."""
        return dependent_property(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: Any) -> bool:
    """Whether a set depends on other parameters.

    Parameters
    ----------
    constraint : Constraint
        Or a `dependent_property` of a class.

    Returns
    -------
    bool
        False of a set that is known.

    Examples
    --------
    >>> from shmtensor.distributions import constraints
    >>> constraints.is_dependent(constraints.dependent)
    True
    >>> constraints.is_dependent(constraints.positive)
    False
    """
    return isinstance(constraint, _Dependent)


class _IndependentConstraint(Constraint):
    """The values whose last dimensions are all in a set: one value of several parts.

    Parameters
    ----------
    base_constraint : Constraint
        That of the parts.
    reinterpreted_batch_ndims : int
        How many dimensions, beside those of the base, are one value.

    Examples
    --------
    >>> from shmtensor.distributions import constraints
    >>> set_ = constraints.independent(constraints.positive, 1)
    >>> set_.check(st.tensor([[1.0, 2.0], [1.0, -2.0]]))
    tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        result = self.base_constraint.check(value)
        n = self.reinterpreted_batch_ndims
        if result.ndim < n:
            raise ValueError(f"constraint: expected at least {n} dimensions: {result.ndim}")
        for _ in range(n):
            result = result.all(-1)
        return result

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


def holds(constraint: Constraint, value: Tensor) -> bool:
    """Whether all values are in a set, without finding which are not."""
    while isinstance(constraint, _IndependentConstraint) and value.ndim >= constraint.event_dim:
        constraint = constraint.base_constraint
    return bool(constraint.check(value).all())


class MixtureSameFamilyConstraint(Constraint):
    """The values of a mixture: in the set of its components, which depends on a component's number.

    Parameters
    ----------
    base_constraint : Constraint
        The support of the batch of components, the last dimension of which numbers them.

    Examples
    --------
    >>> from shmtensor.distributions import constraints
    >>> set_ = constraints.MixtureSameFamilyConstraint(constraints.less_than(st.tensor([1.0, 3.0])))
    >>> set_.check(st.tensor([0.0, 2.0]))  # less than 1 and than 3
    tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> Any:
        """Whether the components' set is countable."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:
        """How many of the last dimensions are one value."""
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        n = self.event_dim
        inside = self.base_constraint.check(value.unsqueeze(value.ndim - n))
        return inside.reshape((*inside.shape[: value.ndim - n], -1)).all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        is_boolean = (value == 0) | (value == 1)
        return is_boolean.all(-1) & (value.sum(-1) == 1)


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value  # NaN is not


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value.amin(-1) >= 0) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Bounded(Constraint):
    """A set with bounds, which its `repr` names."""

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"{type(self).__name__.lstrip('_')}({bounds})"


class _GreaterThan(_Bounded):
    """The numbers above a bound.

    Parameters
    ----------
    lower_bound : Tensor or float
        Not one of them.

    Examples
    --------
    >>> set_ = st.distributions.constraints.greater_than(1.0)
    >>> set_.check(st.tensor([1.0, 2.0]))
    tensor([False,  True])
    """

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound < value


class _GreaterThanEq(_GreaterThan):
    """The numbers from a bound on.

    Parameters
    ----------
    lower_bound : Tensor or float
        One of them.

    Examples
    --------
    >>> set_ = st.distributions.constraints.greater_than_eq(1.0)
    >>> set_.check(st.tensor([0.0, 1.0]))
    tensor([False,  True])
    """

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound <= value


class _LessThan(_Bounded):
    """The numbers below a bound.

    Parameters
    ----------
    upper_bound : Tensor or float
        Not one of them.

    Examples
    --------
    >>> set_ = st.distributions.constraints.less_than(1.0)
    >>> set_.check(st.tensor([0.0, 1.0]))
    tensor([ True, False])
    """

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(_Bounded):
    """The numbers from one bound to another, both included.

    Parameters
    ----------
    lower_bound, upper_bound : Tensor or float
        The smallest and the largest of them.

    Examples
    --------
    >>> set_ = st.distributions.constraints.interval(0.0, 1.0)
    >>> set_
    Interval(lower_bound=0.0, upper_bound=1.0)
    >>> set_.check(st.tensor([0.0, 1.0, 1.5]))
    tensor([ True,  True, False])
    """

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Interval):
    """The numbers from one bound on that are below another.

    Parameters
    ----------
    lower_bound, upper_bound : Tensor or float
        The first is one of them, the second is not.

    Examples
    --------
    >>> set_ = st.distributions.constraints.half_open_interval(0.0, 1.0)
    >>> set_.check(st.tensor([0.0, 1.0]))
    tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _IntegerInterval(_Interval):
    """The integers from one bound to another, both included.

    Parameters
    ----------
    lower_bound, upper_bound : Tensor or int
        The smallest and the largest of them.

    Examples
    --------
    >>> set_ = st.distributions.constraints.integer_interval(1, 6)
    >>> set_.check(st.tensor([0.0, 1.0, 1.5, 6.0]))
    tensor([False,  True, False,  True])
    """

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        inside = super().check(value)
        return inside & (value % 1 == 0) if value.is_floating_point() else inside


class _IntegerGreaterThan(_GreaterThanEq):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        inside = super().check(value)
        return inside & (value % 1 == 0) if value.is_floating_point() else inside


class _Multinomial(_Bounded):
    """Vectors of counts that have a given sum.

    Parameters
    ----------
    upper_bound : Tensor or int
        The sum.

    Examples
    --------
    >>> set_ = st.distributions.constraints.multinomial(3)
    >>> set_.check(st.tensor([[1.0, 2.0], [1.0, 1.0]]))
    tensor([ True, False])
    """

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        counts = (value >= 0) & (value % 1 == 0)
        return counts.all(-1) & (value.sum(-1) == self.upper_bound)


class _Matrix(Constraint):
    """A set of matrices."""

    event_dim = 2


class _LowerTriangular(_Matrix):
    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).all(-1).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value: Tensor) -> Tensor:
        # The norm of a row is a sum of as many rounded terms as the row has elements.
        tolerance = float(finfo(value.dtype).eps) * value.shape[-1] * 10
        has_unit_rows = (value.square().sum(-1).sqrt() - 1).abs() < tolerance
        return super().check(value) & has_unit_rows.all(-1)


class _Square(_Matrix):
    def check(self, value: Tensor) -> Tensor:
        rows, columns = value.shape[-2:]
        return ops.full(value.shape[:-2], rows == columns, dtype="bool", device=value.device)


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Tensor:
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return ops.isclose(value, value.mT, atol=1e-6).all(-1).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        is_symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return is_symmetric
        # Of a matrix that is not symmetric, or has a NaN, the eigenvalues do not matter.
        value = ops.where(is_symmetric[..., None, None], value, 0.0)
        return is_symmetric & (ops.linalg_eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        is_symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return is_symmetric
        factor = ops.linalg_cholesky_ex(value)
        # linalg_cholesky_ex reports success for a matrix with infinite elements.
        is_finite = factor.L.diagonal(dim1=-2, dim2=-1).isfinite().all(-1)
        return is_symmetric & (factor.info == 0) & is_finite


class _Cat(Constraint):
    """Pieces of a dimension, each of which is in a set of its own.

    Parameters
    ----------
    cseq : sequence of Constraint
        One for each piece.
    dim : int, optional
        The dimension.
    lengths : sequence of int, optional
        The sizes of the pieces, by default 1 each.

    Examples
    --------
    >>> from shmtensor.distributions import constraints
    >>> set_ = constraints.cat([constraints.positive, constraints.real], lengths=[2, 1])
    >>> set_.check(st.tensor([1.0, -1.0, -1.0]))
    tensor([ True, False,  True])
    """

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        self.cseq = list(cseq)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        self.dim = dim
        if len(self.lengths) != len(self.cseq):
            raise ValueError(
                f"constraints.cat: {len(self.cseq)} constraints have {len(self.lengths)} lengths"
            )

    @property
    def is_discrete(self) -> Any:
        """Whether a piece's set is countable."""
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> Any:
        """How many of the last dimensions are one value: the most of the pieces."""
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        pieces = value.split(self.lengths, self.dim)
        return ops.cat([c.check(v) for c, v in zip(self.cseq, pieces)], self.dim)


class _Stack(Constraint):
    """The places along a dimension, each of which is in a set of its own.

    Parameters
    ----------
    cseq : sequence of Constraint
        One for each place.
    dim : int, optional
        The dimension.

    Examples
    --------
    >>> from shmtensor.distributions import constraints
    >>> set_ = constraints.stack([constraints.positive, constraints.real])
    >>> set_.check(st.tensor([[1.0, -1.0], [1.0, -1.0]]))
    tensor([[ True, False],
            [ True,  True]])
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim

    @property
    def is_discrete(self) -> Any:
        """Whether the set of a place is countable."""
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> Any:
        """How many of the last dimensions are one value, with that of the stack."""
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor) -> Tensor:
        values = value.unbind(self.dim)
        if len(values) != len(self.cseq):
            raise ValueError(
                f"constraints.stack: {len(self.cseq)} constraints for a size of {len(values)}: "
                f"{tuple(value.shape)}, dim={self.dim}"
            )
        return ops.stack([c.check(v) for c, v in zip(self.cseq, values)], self.dim)


dependent = _Dependent()
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
interval = _Interval
unit_interval = _Interval(0.0, 1.0)
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
multinomial = _Multinomial
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
