"""Transforms made of others: one after another, side by side, with more dimensions in a value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

from ...autograd import table as ops
from ...native import Size
from ...tensor import Tensor
from .. import constraints
from ..utils import sum_rightmost
from .transform import Transform, require_dims

__all__ = [
    "CatTransform",
    "ComposeTransform",
    "IndependentTransform",
    "StackTransform",
    "identity_transform",
]


class ComposeTransform(Transform):
    """Transforms one after another, the first of the list first.

    Parameters
    ----------
    parts : list of Transform
        An empty one is the identity.
    cache_size : int, optional
        As of `Transform`, of the parts, too.

    Examples
    --------
    >>> from shmtensor.distributions import AffineTransform, ComposeTransform, ExpTransform
    >>> t = ComposeTransform([AffineTransform(0.0, 2.0), ExpTransform()])
    >>> t(st.tensor(1.0)), t.inv(st.tensor(1.0))
    (tensor(7.3891), tensor(0.))
    """

    _equal_by = ("parts",)

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [p.with_cache(cache_size) for p in parts] if cache_size else list(parts)

    @property
    def domain(self) -> Any:
        if not self.parts:
            return constraints.real
        # The values of each part have the dimensions that those after it take for one value.
        n = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            n = max(n - part.codomain.event_dim, 0) + part.domain.event_dim
        return _with_event_dim(self.parts[0].domain, n)

    @property
    def codomain(self) -> Any:
        if not self.parts:
            return constraints.real
        n = self.parts[0].domain.event_dim
        for part in self.parts:
            n = max(n - part.domain.event_dim, 0) + part.codomain.event_dim
        return _with_event_dim(self.parts[-1].codomain, n)

    @property
    def bijective(self) -> Any:
        return all(p.bijective for p in self.parts)

    @property
    def sign(self) -> Any:
        return reduce(lambda sign, part: sign * part.sign, self.parts, 1)

    @property
    def inv(self) -> Transform:
        return ComposeTransform([p.inv for p in reversed(self.parts)], self._cache_size)

    def with_cache(self, cache_size: int = 1) -> Any:
        if cache_size == self._cache_size:
            return self
        return ComposeTransform([p.with_cache(cache_size) for p in self.parts], cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return reduce(lambda value, part: part(value), self.parts, x)

    def _inverse(self, y: Tensor) -> Tensor:
        return reduce(lambda value, part: part._inv_call(value), reversed(self.parts), y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return ops.zeros_like(x)
        total: Any = 0
        n = self.domain.event_dim
        for i, part in enumerate(self.parts):
            is_last = i == len(self.parts) - 1
            value = y if is_last else part(x)
            term = part.log_abs_det_jacobian(x, value)
            total = total + sum_rightmost(term, n - part.domain.event_dim)
            n += part.codomain.event_dim - part.domain.event_dim
            x = value
        return total

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return reduce(lambda s, part: part.forward_shape(s), self.parts, Size(shape))

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return reduce(lambda s, part: part.inverse_shape(s), reversed(self.parts), Size(shape))

    def __repr__(self) -> str:
        parts = ",\n    ".join(map(repr, self.parts))
        return f"{type(self).__name__}(\n    {parts}\n)"


def _with_event_dim(constraint: Any, n: int) -> Any:
    """The set of values of n dimensions, all parts of which are in a set."""
    more = n - constraint.event_dim
    return constraints.independent(constraint, more) if more > 0 else constraint


identity_transform = ComposeTransform([])
identity_transform.__doc__ = """The transform that changes nothing.

Parameters
----------
x : Tensor
    Any values.

Returns
-------
Tensor
    The same.

Examples
--------
>>> st.distributions.identity_transform(st.tensor([1.0, 2.0]))
tensor([1., 2.])
"""


class IndependentTransform(Transform):
    """A transform that takes more dimensions for one value: the Jacobian is summed over them.

    Parameters
    ----------
    base_transform : Transform
        The transform of the parts.
    reinterpreted_batch_ndims : int
        How many dimensions more are one value.
    cache_size : int, optional
        As of `Transform`.

    Examples
    --------
    >>> from shmtensor.distributions import ExpTransform, IndependentTransform
    >>> x = st.tensor([1.0, 2.0])
    >>> t = IndependentTransform(ExpTransform(), 1)
    >>> t.log_abs_det_jacobian(x, t(x))
    tensor(3.)
    """

    _equal_by = ("base_transform", "reinterpreted_batch_ndims")

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> Any:
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def with_cache(self, cache_size: int = 1) -> Any:
        if cache_size == self._cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    def _call(self, x: Tensor) -> Tensor:
        require_dims(x.shape, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        require_dims(y.shape, self.codomain.event_dim)
        return self.base_transform._inv_call(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        each = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(each, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class _SideBySide(Transform):
    """Transforms of the pieces of a dimension."""

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise TypeError(f"All elements of tseq must be Transform instances: {list(tseq)!r}")
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> Any:
        return all(t.bijective for t in self.transforms)

    def _pieces(self, value: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def _join(self, pieces: Sequence[Tensor], dim: int) -> Tensor:
        raise NotImplementedError

    def _pairs(self, value: Tensor) -> Iterator[tuple[Transform, Tensor]]:
        if not -value.ndim <= self.dim < value.ndim:
            raise ValueError(
                f"{type(self).__name__}: no dimension {self.dim}: {tuple(value.shape)}"
            )
        return zip(self.transforms, self._pieces(value))

    def _call(self, x: Tensor) -> Tensor:
        return self._join([t(piece) for t, piece in self._pairs(x)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._join([t._inv_call(piece) for t, piece in self._pairs(y)], self.dim)


class CatTransform(_SideBySide):
    """Transforms of the pieces of a dimension, whose values are concatenated.

    Parameters
    ----------
    tseq : sequence of Transform
        One for each piece.
    dim : int, optional
        The dimension.
    lengths : sequence of int, optional
        The sizes of the pieces, by default 1 each.
    cache_size : int, optional
        As of `Transform`.

    Raises
    ------
    TypeError
        One is no transform.
    ValueError
        There are not as many lengths as transforms, or the dimension has another size than theirs.

    Examples
    --------
    >>> from shmtensor.distributions import CatTransform, ExpTransform, identity_transform
    >>> CatTransform([ExpTransform(), identity_transform], lengths=[1, 2])(st.ones(3))
    tensor([2.7183, 1.0000, 1.0000])
    """

    _equal_by = ("transforms", "dim", "lengths")

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            n = len(self.transforms)
            raise ValueError(f"CatTransform: {n} transforms have {len(self.lengths)} lengths")

    @property
    def length(self) -> int:
        """The size of the dimension."""
        return sum(self.lengths)

    @property
    def event_dim(self) -> int:
        """How many of the last dimensions are one value: the most of the transforms."""
        return max(t.event_dim for t in self.transforms)

    @property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    def with_cache(self, cache_size: int = 1) -> Any:
        if cache_size == self._cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _pieces(self, value: Tensor) -> Sequence[Tensor]:
        if value.shape[self.dim] != self.length:
            raise ValueError(
                f"CatTransform: dimension {self.dim} must have a size of {self.length}: "
                f"{tuple(value.shape)}"
            )
        return value.split(self.lengths, self.dim)

    def _join(self, pieces: Sequence[Tensor], dim: int) -> Tensor:
        return ops.cat(list(pieces), dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        n = self.event_dim
        terms = [
            sum_rightmost(t.log_abs_det_jacobian(a, b), n - t.event_dim)
            for (t, a), (_, b) in zip(self._pairs(x), self._pairs(y))
        ]
        dim = (self.dim if self.dim < 0 else self.dim - x.ndim) + n
        return self._join(terms, dim) if dim < 0 else reduce(ops.add, terms)


class StackTransform(_SideBySide):
    """Transforms of the places along a dimension, whose values are stacked.

    Parameters
    ----------
    tseq : sequence of Transform
        One for each place.
    dim : int, optional
        The dimension.
    cache_size : int, optional
        As of `Transform`.

    Raises
    ------
    TypeError
        One is no transform.
    ValueError
        The dimension has another size than there are transforms.

    Examples
    --------
    >>> from shmtensor.distributions import ExpTransform, StackTransform, identity_transform
    >>> StackTransform([identity_transform, ExpTransform()], dim=1)(st.ones(2, 2))
    tensor([[1.0000, 2.7183],
            [1.0000, 2.7183]])
    """

    _equal_by = ("transforms", "dim")

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    @property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

    def with_cache(self, cache_size: int = 1) -> Any:
        if cache_size == self._cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _pieces(self, value: Tensor) -> Sequence[Tensor]:
        if value.shape[self.dim] != len(self.transforms):
            raise ValueError(
                f"StackTransform: dimension {self.dim} must have a size of "
                f"{len(self.transforms)}: {tuple(value.shape)}"
            )
        return value.unbind(self.dim)

    def _join(self, pieces: Sequence[Tensor], dim: int) -> Tensor:
        return ops.stack(list(pieces), dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        pairs = zip(self._pairs(x), self._pairs(y))
        terms = [t.log_abs_det_jacobian(a, b) for (t, a), (_, b) in pairs]
        # Where the last dimension is stacked, all places are one value.
        is_in_event = self.dim + max(t.event_dim for t in self.transforms) == -1
        return reduce(ops.add, terms) if is_in_event else self._join(terms, self.dim)
