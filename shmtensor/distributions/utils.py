"""Parameters of distributions: broadcasting, probabilities, logits (torch.distributions.utils)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from numbers import Number
from typing import Any

from ..autograd import enable_grad
from ..autograd import table as ops
from ..dtypes import finfo, get_default_dtype
from ..tensor import Tensor
from ..tensor.from_data import tensor

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

EULER = 0.5772156649015329  # Euler's constant


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors and numbers broadcast to their common shape, as tensors.

    Parameters
    ----------
    *values : Tensor or float
        Numbers get dtype and device of the first tensor, without one the default dtype.

    Returns
    -------
    tuple of Tensor
        One of each, of one shape.

    Raises
    ------
    ValueError
        One is neither a tensor nor a number.

    Notes
    -----
    Copies: none of tensors.

    Examples
    --------
    >>> st.distributions.utils.broadcast_all(st.tensor([1.0, 2.0]), 3)
    (tensor([1., 2.]), tensor([3., 3.]))
    """
    for v in values:
        if not isinstance(v, (Tensor, Number)):
            raise ValueError(
                "broadcast_all: Input arguments must all be instances of Number, Tensor or objects "
                f"implementing __torch_function__: {type(v).__name__}"
            )
    if all(isinstance(v, Tensor) and v.shape == values[0].shape for v in values):
        return values
    first = next((v for v in values if isinstance(v, Tensor)), None)
    options: dict[str, Any] = {"dtype": get_default_dtype()}
    if first is not None:
        options = {"dtype": first.dtype, "device": first.device}
    tensors = [v if isinstance(v, Tensor) else tensor(v, **options) for v in values]
    return tuple(ops.broadcast_tensors(*tensors))


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities that are at least eps and at most 1 - eps, so that their logits are finite.

    Parameters
    ----------
    probs : Tensor
        Floating; eps is that of its dtype.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Notes
    -----
    Copies: one.

    Examples
    --------
    >>> p = st.distributions.utils.clamp_probs(st.tensor([0.0, 0.5, 1.0]))
    >>> bool(p[0] > 0), p[1].item(), bool(p[2] < 1)
    (True, 0.5, True)
    """
    eps = float(finfo(probs.dtype).eps)
    return probs.clamp(eps, 1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """The probabilities of log odds, or of unnormalised logarithms along the last dimension.

    Parameters
    ----------
    logits : Tensor
        Floating; `(..., n)` unless `is_binary`.
    is_binary : bool, optional
        Log odds of each element by itself, instead of logarithms of n probabilities.

    Returns
    -------
    Tensor
        Of the same shape.

    See Also
    --------
    probs_to_logits

    Examples
    --------
    >>> st.distributions.utils.logits_to_probs(st.zeros(4))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    >>> st.distributions.utils.logits_to_probs(st.zeros(2), is_binary=True)
    tensor([0.5000, 0.5000])
    """
    return ops.sigmoid(logits) if is_binary else ops.softmax(logits, -1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The log odds of probabilities, or their logarithms; finite for 0 and 1, too.

    Parameters
    ----------
    probs : Tensor
        Floating, from 0 to 1.
    is_binary : bool, optional
        Log odds instead of logarithms.

    Returns
    -------
    Tensor
        Of the same shape.

    See Also
    --------
    clamp_probs, logits_to_probs

    Examples
    --------
    >>> st.distributions.utils.probs_to_logits(st.tensor([0.25, 0.5]))
    tensor([-1.3863, -0.6931])
    >>> st.distributions.utils.probs_to_logits(st.tensor([0.0, 1.0]), True).isfinite()
    tensor([True, True])
    """
    p = clamp_probs(probs)
    return p.log() - (-p).log1p() if is_binary else p.log()


def sum_rightmost(value: Tensor, n: int) -> Tensor:
    """The sum over the last n dimensions."""
    return value.flatten(-n).sum(-1) if n > 0 else value


def log_of(value: Any) -> Any:
    """The logarithm of a tensor or a number."""
    return value.log() if isinstance(value, Tensor) else math.log(value)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements on and below a diagonal of matrices, row by row, as vectors.

    Parameters
    ----------
    mat : Tensor
        `(..., n, n)`.
    diag : int, optional
        The diagonal, at most 0: -1 is that below the main diagonal.

    Returns
    -------
    Tensor
        `(..., number of these elements)`.

    Raises
    ------
    ValueError
        There is no such diagonal.

    See Also
    --------
    vec_to_tril_matrix

    Notes
    -----
    Copies: one.

    Examples
    --------
    >>> st.distributions.utils.tril_matrix_to_vec(st.tensor([[1, 0], [2, 3]]))
    tensor([1, 2, 3])
    """
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = ops.tril_indices(n, n, diag, device=mat.device)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Matrices with the elements of vectors on and below a diagonal, row by row, and zeros above.

    Parameters
    ----------
    vec : Tensor
        `(..., n)`.
    diag : int, optional
        The diagonal, at most 0: -1 is that below the main diagonal.

    Returns
    -------
    Tensor
        `(..., m, m)`.

    Raises
    ------
    ValueError
        n is not the number of such elements of a square matrix, or the diagonal is above the main
        one.

    See Also
    --------
    tril_matrix_to_vec

    Notes
    -----
    Copies: one.

    Examples
    --------
    >>> st.distributions.utils.vec_to_tril_matrix(st.tensor([1, 2, 3]))
    tensor([[1, 0],
            [2, 3]])
    """
    if diag > 0:
        raise ValueError(f"vec_to_tril_matrix: diag is at most 0: {diag}")
    length = vec.shape[-1]
    rows_of = (math.isqrt(1 + 8 * length) - 1) // 2  # rows that have elements
    if rows_of * (rows_of + 1) // 2 != length:
        raise ValueError(
            f"The size of last dimension is {length} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix."
        )
    n = rows_of - diag
    rows, columns = ops.tril_indices(n, n, diag, device=vec.device)
    flat = vec.new_zeros((*vec.shape[:-1], n * n))
    places = (rows * n + columns).expand(vec.shape)
    return flat.scatter(-1, places, vec).unflatten(-1, (n, n))


class lazy_property:
    """A property that is computed once, with gradients, when it is first read.

    Parameters
    ----------
    wrapped : callable
        The function of the property; its result becomes an attribute of the object.

    Examples
    --------
    >>> class Circle:
    ...     r = 2
    ...     @st.distributions.utils.lazy_property
    ...     def squared(self):
    ...         print("computing")
    ...         return self.r**2
    >>> circle = Circle()
    >>> circle.squared + circle.squared
    computing
    8
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value
