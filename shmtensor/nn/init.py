"""Initial values of parameters. Each function writes in place and returns its tensor.

Sources: Glorot, Bengio 2010 (xavier); He et al. 2015 (kaiming); Saxe et al. 2013 (orthogonal).
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from .. import linalg
from ..autograd import no_grad
from ..tensor import Tensor
from ..tensor.from_data import as_tensor

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]

_is_skipped: ContextVar[bool] = ContextVar("_is_skipped", default=False)


@contextmanager
def skip_initialization() -> Iterator[None]:
    """In this block the functions of this file do nothing: for `utils.skip_init`."""
    token = _is_skipped.set(True)
    try:
        yield
    finally:
        _is_skipped.reset(token)


_UNIT_GAINS = (
    "linear",
    "sigmoid",
    *(f"{kind}{n}d" for kind in ("conv", "conv_transpose") for n in (1, 2, 3)),
)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which weights are scaled up to make good for a nonlinearity.

    Parameters
    ----------
    nonlinearity : str
        "linear", "conv1d" and the other convolutions, "sigmoid", "tanh", "relu", "leaky_relu" or
        "selu".
    param : float, optional
        The slope of "leaky_relu"; 0.01 by default.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        The nonlinearity is unknown, or the slope is not a number.

    Examples
    --------
    >>> nn.init.calculate_gain("tanh")
    1.6666666666666667
    >>> nn.init.calculate_gain("leaky_relu", 1.0)
    1.0
    """
    if nonlinearity in _UNIT_GAINS:
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is None:
            param = 0.01
        if isinstance(param, bool) or not isinstance(param, (int, float)):
            raise ValueError(f"calculate_gain: negative_slope is not a number: {param!r}")
        return math.sqrt(2.0 / (1 + param**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"calculate_gain: unsupported nonlinearity: {nonlinearity!r}")


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fills a tensor with numbers drawn uniformly from [a, b).

    Parameters
    ----------
    tensor : Tensor
        Of any shape.
    a, b : float, optional
        The limits.
    generator : Generator, optional
        The source; the default one if None.

    Returns
    -------
    Tensor
        The tensor itself.

    Examples
    --------
    >>> w = nn.init.uniform_(st.empty(100), -1.0, 1.0)
    >>> bool((w.abs() <= 1).all())
    True
    """
    if _is_skipped.get():
        return tensor
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fills a tensor with normally distributed numbers.

    Parameters
    ----------
    tensor : Tensor
        Of any shape.
    mean, std : float, optional
        Of the distribution.
    generator : Generator, optional
        The source; the default one if None.

    Returns
    -------
    Tensor
        The tensor itself.

    Examples
    --------
    >>> w = st.empty(2, 3)
    >>> nn.init.normal_(w, std=0.02) is w
    True
    """
    if _is_skipped.get():
        return tensor
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fills a tensor with one value.

    Parameters
    ----------
    tensor : Tensor
        Of any shape.
    val : float
        The value.

    Returns
    -------
    Tensor
        The tensor itself.

    Examples
    --------
    >>> nn.init.constant_(st.empty(2), 0.5)
    tensor([0.5000, 0.5000])
    """
    if _is_skipped.get():
        return tensor
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fills a tensor with ones.

    Parameters
    ----------
    tensor : Tensor
        Of any shape.

    Returns
    -------
    Tensor
        The tensor itself.

    Examples
    --------
    >>> nn.init.ones_(st.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fills a tensor with zeros.

    Parameters
    ----------
    tensor : Tensor
        Of any shape.

    Returns
    -------
    Tensor
        The tensor itself.

    Examples
    --------
    >>> nn.init.zeros_(nn.Linear(3, 2).bias).detach()
    tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Fills a matrix with the identity: 1 on the diagonal, 0 elsewhere.

    Parameters
    ----------
    tensor : Tensor
        `(n, m)`.

    Returns
    -------
    Tensor
        The tensor itself.

    Raises
    ------
    ValueError
        The tensor has not 2 dimensions.

    Examples
    --------
    >>> nn.init.eye_(st.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    if tensor.dim() != 2:
        raise ValueError(f"eye_: only tensors with 2 dimensions: got {tuple(tensor.shape)}")
    return _copy_values(tensor, np.eye(tensor.shape[0], tensor.shape[1]))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fills the weights of a convolution so that it returns its input.

    Parameters
    ----------
    tensor : Tensor
        `(out, in / groups, *kernel)`, with 3, 4 or 5 dimensions.
    groups : int, optional
        Of the convolution.

    Returns
    -------
    Tensor
        The tensor itself.

    Raises
    ------
    ValueError
        The tensor has other dimensions, or out is not a multiple of groups.

    Examples
    --------
    >>> weight = nn.init.dirac_(st.empty(2, 2, 3))
    >>> F.conv1d(st.tensor([[[1., 2.], [3., 4.]]]), weight, padding=1)
    tensor([[[1., 2.],
             [3., 4.]]])
    """
    n = tensor.dim()
    if n not in (3, 4, 5):
        raise ValueError(f"dirac_: only tensors with 3, 4 or 5 dimensions: got {n}")
    sizes = tuple(tensor.shape)
    if sizes[0] % groups:
        raise ValueError(f"dirac_: channels must be divisible by groups: {sizes[0]} by {groups}")
    values = np.zeros(sizes)
    per_group = sizes[0] // groups
    centre = tuple(k // 2 for k in sizes[2:])
    for group in range(groups):
        for d in range(min(per_group, sizes[1])):
            values[(group * per_group + d, d, *centre)] = 1
    return _copy_values(tensor, values)


def _copy_values(tensor: Tensor, values: Any) -> Tensor:
    if _is_skipped.get():
        return tensor
    with no_grad():
        return tensor.copy_(as_tensor(values.astype(tensor.dtype)))


def _fans(tensor: Tensor) -> tuple[int, int]:
    """The numbers of inputs and outputs that a weight connects."""
    if tensor.dim() < 2:
        raise ValueError(
            f"init: fan in and fan out need at least 2 dimensions: got shape {tuple(tensor.shape)}"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


_calculate_fan_in_and_fan_out = _fans  # the name that model code calls


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """The number of inputs or of outputs, by "fan_in" or "fan_out"."""
    if mode.lower() not in ("fan_in", "fan_out"):
        raise ValueError(f"init: mode must be 'fan_in' or 'fan_out': got {mode!r}")
    return _fans(tensor)[mode.lower() == "fan_out"]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fills a tensor uniformly within +-gain * sqrt(6 / (fan in + fan out)) (Glorot and Bengio
    2010).

    Parameters
    ----------
    tensor : Tensor
        Of 2 dimensions or more: `(out, in, *kernel)`.
    gain : float, optional
        As `calculate_gain` gives it.
    generator : Generator, optional
        The source; the default one if None.

    Returns
    -------
    Tensor
        The tensor itself.

    Examples
    --------
    >>> w = nn.init.xavier_uniform_(st.empty(2, 4))
    >>> bool((w.abs() <= 1).all())
    True
    """
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fills a tensor normally, with std gain * sqrt(2 / (fan in + fan out)) (Glorot and Bengio
    2010).

    Parameters
    ----------
    tensor : Tensor
        Of 2 dimensions or more: `(out, in, *kernel)`.
    gain : float, optional
        As `calculate_gain` gives it.
    generator : Generator, optional
        The source; the default one if None.

    Returns
    -------
    Tensor
        The tensor itself.

    Examples
    --------
    >>> nn.init.xavier_normal_(st.empty(2, 4), gain=nn.init.calculate_gain("relu")).shape
    Size([2, 4])
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))), generator)


def _std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _is_empty(tensor: Tensor) -> bool:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fills a tensor uniformly within +-gain * sqrt(3 / fan) (He et al. 2015).

    Parameters
    ----------
    tensor : Tensor
        Of 2 dimensions or more: `(out, in, *kernel)`.
    a : float, optional
        The slope of "leaky_relu".
    mode : str, optional
        "fan_in" keeps the variance forwards, "fan_out" backwards.
    nonlinearity : str, optional
        What follows the layer, as of `calculate_gain`.
    generator : Generator, optional
        The source; the default one if None.

    Returns
    -------
    Tensor
        The tensor itself.

    Examples
    --------
    >>> w = nn.init.kaiming_uniform_(st.empty(2, 6), nonlinearity="relu")
    >>> bool((w.abs() <= 1).all())
    True
    """
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fills a tensor normally, with std gain / sqrt(fan) (He et al. 2015).

    Parameters
    ----------
    tensor : Tensor
        Of 2 dimensions or more: `(out, in, *kernel)`.
    a : float, optional
        The slope of "leaky_relu".
    mode : str, optional
        "fan_in" keeps the variance forwards, "fan_out" backwards.
    nonlinearity : str, optional
        What follows the layer, as of `calculate_gain`.
    generator : Generator, optional
        The source; the default one if None.

    Returns
    -------
    Tensor
        The tensor itself.

    Examples
    --------
    >>> layer = nn.Conv2d(3, 8, 3)
    >>> nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu").shape
    Size([8, 3, 3, 3])
    """
    if _is_empty(tensor):
        return tensor
    return normal_(tensor, 0.0, _std(tensor, a, mode, nonlinearity), generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Fills a tensor with normally distributed numbers between two limits.

    Parameters
    ----------
    tensor : Tensor
        Of any shape.
    mean, std : float, optional
        Of the distribution without limits.
    a, b : float, optional
        The limits.
    generator : Generator, optional
        The source; the default one if None.

    Returns
    -------
    Tensor
        The tensor itself.

    Examples
    --------
    >>> w = nn.init.trunc_normal_(st.empty(100), std=2.0, a=-1.0, b=1.0)
    >>> bool((w.abs() <= 1).all())
    True
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "trunc_normal_: mean is more than 2 std from [a, b]: the distribution of values may "
            f"be incorrect: mean {mean}, std {std}, [{a}, {b}]",
            stacklevel=2,
        )
    if _is_skipped.get():
        return tensor
    # Uniform between the values of the normal distribution function at a and b, then its inverse:
    # F(x) = (1 + erf((x - mean) / (std sqrt 2))) / 2.
    low, high = (math.erf((x - mean) / (std * math.sqrt(2.0))) for x in (a, b))
    with no_grad():
        tensor.uniform_(low, high, generator=generator)
        return tensor.erfinv_().mul_(std * math.sqrt(2.0)).add_(mean).clamp_(a, b)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fills a matrix with orthonormal rows, or columns if these are fewer (Saxe et al. 2013).

    Parameters
    ----------
    tensor : Tensor
        Of 2 dimensions or more; those after the first count as one.
    gain : float, optional
        A factor.
    generator : Generator, optional
        The source; the default one if None.

    Returns
    -------
    Tensor
        The tensor itself.

    Raises
    ------
    ValueError
        The tensor has fewer than 2 dimensions.

    Examples
    --------
    >>> w = nn.init.orthogonal_(st.empty(3, 5))
    >>> st.allclose(w @ w.T, st.eye(3), atol=1e-5)
    True
    """
    if tensor.dim() < 2:
        raise ValueError(
            f"orthogonal_: at least 2 dimensions are needed: got {tuple(tensor.shape)}"
        )
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    cols = tensor.numel() // rows
    with no_grad():
        matrix = tensor.detach().clone().normal_(0, 1, generator=generator).reshape(rows, cols)
        q, r = linalg.qr(matrix.mT if rows < cols else matrix)
        q = q * r.diagonal().sign()  # so that the distribution is uniform
        values = (q.mT if rows < cols else q).reshape(tensor.shape)
        return tensor if _is_skipped.get() else tensor.copy_(values * gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fills a matrix normally, with zeros in a fraction of each column (Martens 2010).

    Parameters
    ----------
    tensor : Tensor
        `(n, m)`.
    sparsity : float
        The fraction of each column that is 0.
    std : float, optional
        Of the other elements.
    generator : Generator, optional
        The source; the default one if None.

    Returns
    -------
    Tensor
        The tensor itself.

    Raises
    ------
    ValueError
        The tensor has not 2 dimensions.

    Examples
    --------
    >>> w = nn.init.sparse_(st.empty(4, 3), sparsity=0.5)
    >>> (w == 0).sum(0)
    tensor([2, 2, 2])
    """
    if tensor.dim() != 2:
        raise ValueError(f"sparse_: only tensors with 2 dimensions: got {tuple(tensor.shape)}")
    rows, _ = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        order = tensor.detach().clone().uniform_(0, 1, generator=generator).argsort(0)
        tensor.normal_(0, std, generator=generator)
        return tensor.copy_(tensor.masked_fill(order < zeros, 0.0))


def _deprecated_alias(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function under its older name, without the underscore; it warns."""
    newer = function.__name__
    name = newer[:-1]

    @functools.wraps(function)
    def deprecated(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{name}` is now deprecated in favor of `nn.init.{newer}`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    deprecated.__name__ = deprecated.__qualname__ = name
    sections = (function.__doc__ or "").partition("\n\n")[2]
    deprecated.__doc__ = f"Deprecated: `{newer}`, which is the same.\n\n{sections}"
    return deprecated


uniform = _deprecated_alias(uniform_)
normal = _deprecated_alias(normal_)
constant = _deprecated_alias(constant_)
eye = _deprecated_alias(eye_)
dirac = _deprecated_alias(dirac_)
xavier_uniform = _deprecated_alias(xavier_uniform_)
xavier_normal = _deprecated_alias(xavier_normal_)
kaiming_uniform = _deprecated_alias(kaiming_uniform_)
kaiming_normal = _deprecated_alias(kaiming_normal_)
orthogonal = _deprecated_alias(orthogonal_)
sparse = _deprecated_alias(sparse_)
