"""Transforms whose arguments are vectors or matrices, and changes of shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...autograd import table as ops
from ...dtypes import finfo
from ...native import Size
from ...tensor import Tensor
from .. import constraints
from ..utils import tril_matrix_to_vec, vec_to_tril_matrix
from .transform import Transform, require_dims

__all__ = [
    "CorrCholeskyTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "ReshapeTransform",
    "SoftmaxTransform",
    "StickBreakingTransform",
]


class ReshapeTransform(Transform):
    """Values in another shape.

    Parameters
    ----------
    in_shape, out_shape : sequence of int
        The last dimensions of arguments and of values.
    cache_size : int, optional
        As of `Transform`.

    Raises
    ------
    ValueError
        The shapes have different numbers of elements.

    Examples
    --------
    >>> st.distributions.ReshapeTransform((4,), (2, 2))(st.zeros(3, 4)).shape
    Size([3, 2, 2])
    """

    bijective = True
    _equal_by = ("in_shape", "out_shape")

    def __init__(
        self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError(
                "in_shape, out_shape have different numbers of elements: "
                f"{tuple(self.in_shape)} and {tuple(self.out_shape)}"
            )

    @property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.ndim - len(self.in_shape)])

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return _replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return _replaced(shape, self.out_shape, self.in_shape)


def _replaced(shape: Sequence[int], old: Size, new: Size) -> Size:
    """A shape with other last dimensions."""
    require_dims(shape, len(old))
    start = len(shape) - len(old)
    if tuple(shape[start:]) != tuple(old):
        raise ValueError(f"Shape mismatch: expected {tuple(old)} but got {tuple(shape[start:])}")
    return Size((*shape[:start], *new))


class SoftmaxTransform(Transform):
    """Probabilities of unnormalised logarithms; the inverse is the logarithm.

    Parameters
    ----------
    cache_size : int, optional
        As of `Transform`.

    Notes
    -----
    It has no Jacobian, as a constant added to x does not change y: `StickBreakingTransform` has.

    Examples
    --------
    >>> st.distributions.SoftmaxTransform()(st.zeros(4))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    _equal_by = ()

    def _call(self, x: Tensor) -> Tensor:
        return ops.softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Sequence[int]) -> Size:
        require_dims(shape, 1)
        return Size(shape)

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """n + 1 probabilities of n numbers: each is the part that is broken from what is left of 1.

    Parameters
    ----------
    cache_size : int, optional
        As of `Transform`.

    Notes
    -----
    The part is `sigmoid(x[i] - log(n - i))`, so that the probabilities of zeros are equal.

    Examples
    --------
    >>> st.distributions.StickBreakingTransform()(st.zeros(3))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True
    _equal_by = ()

    def _call(self, x: Tensor) -> Tensor:
        part = ops.sigmoid(x - _log_number_left(x))
        left = (1 - part).cumprod(-1)
        return ops.pad(part, (0, 1), value=1.0) * ops.pad(left, (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = y[..., :-1]
        left = (1 - parts.cumsum(-1)).clamp(min=float(finfo(y.dtype).tiny))
        return parts.log() - left.log() + _log_number_left(parts)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # dy / dx = y * (1 - part), the matrix is triangular; log(1 - part) = logsigmoid(z) - z.
        z = x - _log_number_left(x)
        return (ops.logsigmoid(z) - z + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        require_dims(shape, 1)
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        require_dims(shape, 1)
        return Size((*shape[:-1], shape[-1] - 1))


def _log_number_left(x: Tensor) -> Tensor:
    """log n, log (n - 1), ..., log 1, as the last dimension of x has n elements."""
    return ops.arange(x.shape[-1], 0, -1, dtype=x.dtype, device=x.device).log()


class CorrCholeskyTransform(Transform):
    """The Cholesky factor of a correlation matrix of n * (n - 1) / 2 numbers, for n rows.

    Parameters
    ----------
    cache_size : int, optional
        As of `Transform`.

    Notes
    -----
    The numbers' tanh are partial correlations, those of a row one after another: the element of a
    row is the correlation times the length that those before it leave of 1 (Lewandowski, Kurowicka,
    Joe, 2009).

    Examples
    --------
    >>> L = st.distributions.CorrCholeskyTransform()(st.tensor([0.5, -1.0, 2.0]))
    >>> (L @ L.mT).diagonal()
    tensor([1., 1., 1.])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True
    _equal_by = ()

    def _call(self, x: Tensor) -> Tensor:
        self.forward_shape(x.shape)
        eps = float(finfo(x.dtype).eps)
        correlations = vec_to_tril_matrix(x.tanh().clamp(-1 + eps, 1 - eps), -1)
        left = (1 - correlations.square()).sqrt().cumprod(-1)
        ones = ops.eye(correlations.shape[-1], dtype=x.dtype, device=x.device)
        return (correlations + ones) * ops.pad(left[..., :-1], (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        left = ops.pad(_squares_left(y)[..., :-1], (1, 0), value=1.0)
        correlations = tril_matrix_to_vec(y, -1) / tril_matrix_to_vec(left, -1).sqrt()
        return correlations.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        of_rows = 0.5 * tril_matrix_to_vec(_squares_left(y), -2).log().sum(-1)
        of_tanh = 2 * (math.log(2) - x - ops.softplus(-2 * x)).sum(-1)
        return of_rows + of_tanh

    def forward_shape(self, shape: Sequence[int]) -> Size:
        require_dims(shape, 1)
        n = math.isqrt(2 * shape[-1]) + 1
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError(
                f"Input is not a flattened lower-diagonal number: {shape[-1]}, n * (n - 1) / 2 "
                "is needed"
            )
        return Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        _require_square(shape)
        n = shape[-1]
        return Size((*shape[:-2], n * (n - 1) // 2))


def _squares_left(y: Tensor) -> Tensor:
    """What the squares of a row leave of 1, after each element."""
    return 1 - y.square().cumsum(-1)


def _require_square(shape: Sequence[int]) -> None:
    require_dims(shape, 2)
    if shape[-2] != shape[-1]:
        raise ValueError(f"Input is not square: {tuple(shape)}")


class LowerCholeskyTransform(Transform):
    """A lower triangular matrix with a positive diagonal, of any square matrix.

    Parameters
    ----------
    cache_size : int, optional
        As of `Transform`.

    Examples
    --------
    >>> st.distributions.LowerCholeskyTransform()(st.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky
    _equal_by = ()

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + ops.diag_embed(x.diagonal(dim1=-2, dim2=-1).exp())

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + ops.diag_embed(y.diagonal(dim1=-2, dim2=-1).log())


class PositiveDefiniteTransform(Transform):
    """A positive definite matrix of any square matrix, by its Cholesky factor.

    Parameters
    ----------
    cache_size : int, optional
        As of `Transform`.

    Examples
    --------
    >>> st.distributions.PositiveDefiniteTransform()(st.tensor([[0.0, 9.0], [1.0, 0.0]]))
    tensor([[1., 1.],
            [1., 2.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite
    _equal_by = ()

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.transpose(-2, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform()._inverse(ops.linalg_cholesky(y))
