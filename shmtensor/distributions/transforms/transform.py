"""`Transform`: what all transforms have, and their inverses."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from ...native import Size
from ...tensor import Tensor

__all__ = ["Transform"]


class Transform:
    """A function from one set of values to another, with the logarithm of its Jacobian.

    Parameters
    ----------
    cache_size : int, optional
        1: the last argument and result are kept, so that the inverse of the last result (the same
        object) is the argument itself, without computing and rounding; 0: nothing is kept.

    Attributes
    ----------
    domain, codomain : Constraint
        The sets.
    bijective : bool
        Whether it has an inverse in the strict sense; without, `inv` returns one of the arguments.

    Raises
    ------
    ValueError
        `cache_size` is neither 0 nor 1.

    Notes
    -----
    A subclass defines `domain`, `codomain`, `_call`, `_inverse`, `log_abs_det_jacobian`, and `sign`
    (1 or -1) if it is monotonic.

    Examples
    --------
    >>> from shmtensor.distributions import constraints
    >>> class Double(st.distributions.Transform):
    ...     domain = codomain = constraints.real
    ...     bijective = True
    ...     sign = 1
    ...     def _call(self, x):
    ...         return 2 * x
    ...     def _inverse(self, y):
    ...         return y / 2
    ...     def log_abs_det_jacobian(self, x, y):
    ...         return st.full_like(x, 2.0).log()
    >>> Double()(st.tensor(3.0)), Double().inv(st.tensor(3.0))
    (tensor(6.), tensor(1.5000))
    """

    bijective: Any = False
    domain: Any
    codomain: Any
    # Transforms of one class are equal if these attributes are; None: only to themselves.
    _equal_by: tuple[str, ...] | None = None

    def __init__(self, cache_size: int = 0) -> None:
        self._set_cache(cache_size)

    def _set_cache(self, cache_size: int) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"cache_size must be 0 or 1: {cache_size!r}")
        self._cache_size = cache_size
        self._cached: tuple[Any, Any] = (None, None)

    def with_cache(self, cache_size: int = 1) -> Any:
        """The transform with this size of its cache; itself if it has it."""
        if cache_size == self._cache_size:
            return self
        new = copy.copy(self)
        new._set_cache(cache_size)
        return new

    @property
    def event_dim(self) -> int:
        """How many of the last dimensions are one value, if arguments and results have as many.

        Raises:
            ValueError: they have not.
        """
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError(
                "Please use either .domain.event_dim or .codomain.event_dim: they are "
                f"{self.domain.event_dim} and {self.codomain.event_dim}"
            )
        return int(self.domain.event_dim)

    @property
    def inv(self) -> Transform:
        """The inverse, whose `inv` is this transform."""
        return _InverseTransform(self)

    @property
    def sign(self) -> Any:
        """1 if it rises, -1 if it falls.

        Raises:
            NotImplementedError: it is not monotonic.
        """
        raise NotImplementedError(f"{type(self).__name__}.sign")

    def __eq__(self, other: object) -> bool:
        if self._equal_by is None or self is other:
            return self is other
        return type(self) is type(other) and all(
            _is_equal(getattr(self, name), getattr(other, name)) for name in self._equal_by
        )

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: Tensor) -> Tensor:
        """The values of arguments."""
        if self._cache_size == 0:
            return self._call(x)
        cached_x, cached_y = self._cached
        if x is cached_x:
            return cached_y
        y = self._call(x)
        self._cached = (x, y)
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        """The arguments of values."""
        if self._cache_size == 0:
            return self._inverse(y)
        cached_x, cached_y = self._cached
        if y is cached_y:
            return cached_x
        x = self._inverse(y)
        self._cached = (x, y)
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}._call")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}._inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy / dx| of arguments and their values: without the dimensions of one value."""
        raise NotImplementedError(f"{type(self).__name__}.log_abs_det_jacobian")

    def forward_shape(self, shape: Sequence[int]) -> Size:
        """The shape of the values of arguments of a shape."""
        return Size(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        """The shape of the arguments of values of a shape."""
        return Size(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    """The inverse of a transform, which has the cache."""

    _equal_by = ("_inv",)

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._inv = transform

    @property
    def domain(self) -> Any:
        return self._inv.codomain

    @property
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def bijective(self) -> Any:
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Any:
        return self._inv.with_cache(cache_size).inv

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"


def _is_equal(a: Any, b: Any) -> bool:
    """Whether two parameters, tensors too, are equal."""
    equal = a == b
    return bool(equal.all()) if isinstance(equal, Tensor) else bool(equal)


def require_dims(shape: Sequence[int], n: int) -> None:
    """Raises ValueError where a shape has less than n dimensions."""
    if len(shape) < n:
        raise ValueError(f"Too few dimensions on input: {tuple(shape)}, {n} are needed")
