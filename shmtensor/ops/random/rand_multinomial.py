"""Random tensors, from `philox` streams."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import numpy as np

from ... import native
from ...cuda_arrays import device_of
from ...device import CPU, as_device, unspecified
from ...dtypes import as_dtype, get_default_dtype
from ..creation.device_forms import new_tensor, on_cuda
from ..creation.zeros_full_arange import (
    as_number,
    as_shape,
    copy_into_out,
    dtype_or_default,
    dtype_or_out,
)
from ..table.constants import zero_gradient
from ..table.op_table import ROWS, composite, op
from ..table.samples import reals
from ..table.tensor_like import is_contiguous
from . import philox
from .bounds import check_random_bounds, check_random_dtype, max_exact_integer
from .generators import generator_of
from .philox import default_generator


def claim(generator: Any, n: int, wide: bool = False, like: Any = None) -> tuple[int, int]:
    """Seed and offset for n numbers; a block has two wide ones (float64, large integers).

    Args:
        generator: None: the default one of the device.
        like: a tensor or an array on the device of the numbers; None: the CPU.

    Raises:
        RuntimeError: the generator is of another type of device.
    """
    if getattr(like, "is_meta", False):
        return 0, 0
    blocks = -(-n // 2) if wide else -(-n // 4)
    array = getattr(like, "array", like)
    if generator is None and (array is None or isinstance(array, np.ndarray)):
        return default_generator.claim(blocks)
    return generator_of(generator, device_of(array)).claim(blocks)


def claim_on_cuda(cupy: Any, generator: Any, n: int, wide: bool = False) -> tuple[int, int]:
    """`claim` for numbers on the current GPU."""
    device = as_device(cupy.cuda.runtime.getDevice())
    return generator_of(generator, device).claim(-(-n // 2) if wide else -(-n // 4))


def run_row_on_cuda(cupy: Any, name: str, *arguments: Any) -> Any:
    """The array of a row's forward for CUDA."""
    return ROWS[name].forward_on("cuda")(cupy, *arguments)


def numel(x: Any) -> int:
    """The number of elements of a tensor."""
    return math.prod(x.shape)


def new_random(fill: Any, shape: Any, dtype: Any, generator: Any, low: float, high: float) -> Any:
    """A new array of random numbers; complex ones have two random parts."""
    if dtype.kind == "c":
        part = np.dtype(np.float64 if dtype == np.complex128 else np.float32)
        return new_random(fill, (*shape, 2), part, generator, low, high).view(dtype)[..., 0]
    check_random_dtype("random", dtype)
    seed, offset = claim(generator, math.prod(shape), dtype == np.float64)
    if dtype.itemsize == 2:
        return philox.fill_half(fill, np.empty(shape, dtype), seed, offset, low, high)
    return fill(np.empty(shape, dtype), seed, offset, low, high)


@on_cuda(new_random, meta=lambda xp, fill, shape, dtype, *_: xp.empty(shape, dtype))
def new_random_on_cuda(
    cupy: Any, fill: Any, shape: Any, dtype: Any, generator: Any, low: float, high: float
) -> Any:
    """The numbers of `new_random` for the same seed and offset, made on the GPU."""
    if dtype.kind == "c":
        part = np.dtype(np.float64 if dtype == np.complex128 else np.float32)
        parts = new_random_on_cuda(cupy, fill, (*shape, 2), part, generator, low, high)
        return parts.view(dtype)[..., 0]
    check_random_dtype("random", dtype)
    stream = claim_on_cuda(cupy, generator, math.prod(shape), dtype == np.float64)
    name = "_uniform" if fill is native.uniform_ else "_normal"
    out = cupy.ndarray(shape, dtype)
    return run_row_on_cuda(cupy, name, out, *stream, low, high, out)


def new_random_default(fill: Any, size: Any) -> Any:
    """Numbers of the default dtype from the default generator; None if that is not possible."""
    dtype = get_default_dtype()
    out = native.empty(size, dtype, 0) if dtype.itemsize > 2 else None
    if out is not None:
        seed, offset = default_generator.claim(-(-out.array.nbytes // 16))
        fill(out.array, seed, offset, 0.0, 1.0)
    return out


@composite(method=False)
def rand(
    ops,
    *size,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """A new tensor of uniformly distributed random numbers from [0, 1).

    Parameters
    ----------
    *size : int
        The shape: `rand(2, 3)`, or one sequence: `rand((2, 3))`.
    generator : Generator, optional
        The source of random numbers; by default that of the device.
    dtype : dtype, optional
        Of the result; the default dtype (float32 unless set) if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of the shape `size`.

    Raises
    ------
    RuntimeError
        A size is negative.
    NotImplementedError
        The dtype is not floating point or complex.

    See Also
    --------
    randn, randint, manual_seed, rand_like

    Notes
    -----
    The numbers depend only on the seed and on how many were drawn before, not on the number of
    threads. docs/design/rows.md describes the generator (Philox).

    Examples
    --------
    >>> x = st.rand(2, 3)
    >>> x.shape, bool(((x >= 0) & (x < 1)).all())
    (Size([2, 3]), True)
    """
    if generator is out is dtype is layout is device is None and not (requires_grad or pin_memory):
        result = new_random_default(native.uniform_, size)
        if result is not None:
            return result
    shape, dtype = as_shape("rand", size), dtype_or_default(dtype_or_out("rand", out, dtype))
    arguments = native.uniform_, shape, dtype, generator, 0.0, 1.0
    return copy_into_out(
        out,
        new_tensor(new_random, *arguments, device=device, requires_grad=requires_grad, like=out),
    )


@composite(method=False)
def randn(
    ops,
    *size,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """A new tensor of normally distributed random numbers, of mean 0 and variance 1.

    Parameters
    ----------
    *size : int
        The shape: `randn(2, 3)`, or one sequence: `randn((2, 3))`.
    generator : Generator, optional
        The source of random numbers; by default that of the device.
    dtype : dtype, optional
        Of the result; the default dtype (float32 unless set) if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of the shape `size`. Complex numbers have variance 1/2 in each part.

    Raises
    ------
    RuntimeError
        A size is negative.
    NotImplementedError
        The dtype is not floating point or complex.

    See Also
    --------
    normal, rand, randn_like, manual_seed

    Examples
    --------
    >>> st.randn(2, 3).shape
    Size([2, 3])
    >>> generator = st.Generator().manual_seed(5)
    >>> x = st.randn(4, generator=generator)
    >>> st.equal(x, st.randn(4, generator=generator.manual_seed(5)))
    True
    """
    if generator is out is dtype is layout is device is None and not (requires_grad or pin_memory):
        result = new_random_default(native.normal_, size)
        if result is not None:
            return result
    shape, dtype = as_shape("randn", size), dtype_or_default(dtype_or_out("randn", out, dtype))
    std = math.sqrt(0.5) if dtype.kind == "c" else 1.0
    arguments = native.normal_, shape, dtype, generator, 0.0, std
    return copy_into_out(
        out,
        new_tensor(new_random, *arguments, device=device, requires_grad=requires_grad, like=out),
    )


def in_layout_like(ops: Any, numbers: Any, like: Any, memory_format: Any) -> Any:
    """New numbers in the layout of `empty_like`. Copies: one, unless it is contiguous."""
    if memory_format is None and is_contiguous(getattr(like, "array", like)):
        return numbers
    array = getattr(numbers, "array", numbers)
    on_device = {} if array is numbers else {"device": device_of(array)}
    out = ops.empty_like(like, dtype=numbers.dtype, memory_format=memory_format, **on_device)
    target = getattr(out, "array", out)
    if is_contiguous(target):
        return numbers
    with nullcontext() if isinstance(target, np.ndarray) else target.device:
        target[...] = array
    return out.requires_grad_() if getattr(numbers, "requires_grad", False) else out


def new_random_like(
    random: Any, like: Any, dtype: Any, generator: Any, device: Any, requires_grad: bool
) -> Any:
    """New numbers of the shape and dtype of a tensor; with default arguments if possible."""
    dtype = like.dtype if dtype is None else dtype
    if device is None:
        device = CPU if isinstance(like.array, np.ndarray) else device_of(like.array)
    if (
        device is CPU
        and unspecified.value is None
        and like.ndim
        and dtype == get_default_dtype()
        and generator is None
        and not requires_grad
    ):
        return random(*like.shape)
    return random(
        tuple(like.shape),
        generator=generator,
        dtype=dtype,
        device=device,
        requires_grad=requires_grad,
    )


@composite(method=False)
def rand_like(
    ops,
    input,
    *,
    generator=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    memory_format=None,
):
    """Uniformly distributed random numbers from [0, 1), in the shape and dtype of a tensor.

    Parameters
    ----------
    input : Tensor
        Whose shape, dtype, device and layout are taken.
    generator : Generator, optional
        The source of random numbers; by default that of the device.
    dtype : dtype, optional
        By default that of `input`.
    device : Device or str, optional
        By default that of `input`.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.
    memory_format : memory_format, optional
        The order of the dimensions in memory; by default that of `input`.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    See Also
    --------
    rand

    Examples
    --------
    >>> st.rand_like(st.zeros(2, 3)).shape
    Size([2, 3])
    """
    out = new_random_like(ops.rand, input, dtype, generator, device, requires_grad)
    return in_layout_like(ops, out, input, memory_format)


@composite(method=False)
def randn_like(
    ops,
    input,
    *,
    generator=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    memory_format=None,
):
    """Normally distributed random numbers of mean 0 and variance 1, in the shape and dtype of a
    tensor.

    Parameters
    ----------
    input : Tensor
        Whose shape, dtype, device and layout are taken.
    generator : Generator, optional
        The source of random numbers; by default that of the device.
    dtype : dtype, optional
        By default that of `input`.
    device : Device or str, optional
        By default that of `input`.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.
    memory_format : memory_format, optional
        The order of the dimensions in memory; by default that of `input`.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    See Also
    --------
    randn

    Examples
    --------
    >>> st.randn_like(st.zeros(2, 3)).shape
    Size([2, 3])
    """
    out = new_random_like(ops.randn, input, dtype, generator, device, requires_grad)
    return in_layout_like(ops, out, input, memory_format)


def random_integers(shape: Any, low: int, high: int, dtype: Any, generator: Any) -> Any:
    """Integers from [low, high).

    Raises:
        RuntimeError: there is none, or the dtype cannot hold them.
    """
    check_random_bounds("randint", low, high, dtype)
    n, span = math.prod(shape), high - low
    wide = span >= 2**32
    seed, offset = claim(generator, n, wide)
    raw = native.randint(n, seed, offset, low, span % 2**64)
    return raw.astype(dtype, copy=False).reshape(shape)


@on_cuda(random_integers, meta=lambda xp, shape, low, high, dtype, *_: xp.empty(shape, dtype))
def random_integers_on_cuda(
    cupy: Any, shape: Any, low: int, high: int, dtype: Any, generator: Any
) -> Any:
    """The integers of `random_integers` for the same seed and offset, made on the GPU."""
    check_random_bounds("randint", low, high, dtype)
    span = high - low
    stream = claim_on_cuda(cupy, generator, math.prod(shape), span >= 2**32)
    return run_row_on_cuda(cupy, "_random", cupy.empty(shape, dtype), *stream, low, span % 2**64)


def range_of(name: str, low: Any, high: Any) -> tuple[Any, Any]:
    """(low, high) of random integers: `low` may be missing, as may be the name of `high`."""
    if high is None:
        low, high = None, low
    if high is None:
        raise TypeError(f"{name}: high is needed: the integers are below it")
    return 0 if low is None else as_number(low), as_number(high)


@composite(method=False)
def randint(
    ops,
    low=None,
    high=None,
    size=None,
    *,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
):
    """A new tensor of random integers from a range.

    Parameters
    ----------
    low : int, optional
        The smallest integer; may be left out: `randint(high, size)`. 0 by default.
    high : int
        The end of the range; it is not one of the integers.
    size : sequence of int
        The shape.
    generator : Generator, optional
        The source of random numbers; by default that of the device.
    dtype : dtype, optional
        By default int64; a floating-point one holds whole numbers.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of the shape `size`.

    Raises
    ------
    RuntimeError
        The range is empty, or the dtype cannot hold it.
    TypeError
        `size` is missing.

    See Also
    --------
    randperm, rand, randint_like

    Examples
    --------
    >>> x = st.randint(3, 6, (2, 4))
    >>> x.shape, x.dtype, bool(((x >= 3) & (x < 6)).all())
    (Size([2, 4]), shmtensor.int64, True)
    >>> st.randint(10, (3,)).shape
    Size([3])
    """
    if size is None:
        low, high, size = (0, low, high) if not isinstance(high, int) else (low, high, None)
    low, high = range_of("randint", low, high)
    if size is None:
        raise TypeError(f"randint: size is needed: randint({low}, {high})")
    dtype = dtype_or_out("randint", out, dtype)
    dtype = np.dtype(np.int64) if dtype is None else as_dtype(dtype)
    shape = as_shape("randint", (size,))
    return copy_into_out(
        out,
        new_tensor(
            random_integers,
            shape,
            low,
            high,
            dtype,
            generator,
            device=device,
            requires_grad=requires_grad,
            like=out,
        ),
    )


@composite(method=False)
def randint_like(
    ops,
    input,
    low=None,
    high=None,
    *,
    generator=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    memory_format=None,
):
    """Random integers from a range, in the shape and dtype of a tensor.

    Parameters
    ----------
    input : Tensor
        Whose shape, dtype, device and layout are taken.
    low : int, optional
        The smallest integer; may be left out: `randint_like(x, high)`. 0 by default.
    high : int
        The end of the range; it is not one of the integers.
    generator : Generator, optional
        The source of random numbers; by default that of the device.
    dtype : dtype, optional
        By default that of `input`.
    device : Device or str, optional
        By default that of `input`.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.
    memory_format : memory_format, optional
        The order of the dimensions in memory; by default that of `input`.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    RuntimeError
        The range is empty, or the dtype cannot hold it.

    See Also
    --------
    randint

    Examples
    --------
    >>> st.randint_like(st.zeros(3), 1).dtype
    shmtensor.float32
    """
    low, high = range_of("randint_like", low, high)
    dtype = input.dtype if dtype is None else as_dtype(dtype)
    shape = tuple(input.shape)
    out = new_tensor(
        random_integers,
        shape,
        low,
        high,
        dtype,
        generator,
        device=device,
        requires_grad=requires_grad,
        like=input,
    )
    return in_layout_like(ops, out, input, memory_format)


@composite(method=False)
def randperm(
    ops,
    n,
    *,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """The integers 0 to n - 1 in random order.

    Parameters
    ----------
    n : int
        How many.
    generator : Generator, optional
        The source of random numbers; by default that of the device.
    dtype : dtype, optional
        By default int64.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(n,)`.

    Raises
    ------
    RuntimeError
        n is negative, or the dtype cannot hold n - 1.

    See Also
    --------
    randint, multinomial

    Examples
    --------
    >>> x = st.arange(10, 15)
    >>> shuffled = x[st.randperm(5)]
    >>> st.sort(shuffled).values
    tensor([10, 11, 12, 13, 14])
    """
    if n < 0:
        raise RuntimeError(f"randperm: n must not be negative: {n}")
    dtype = dtype_or_out("randperm", out, dtype)
    dtype = np.dtype(np.int64) if dtype is None else as_dtype(dtype)
    check_random_dtype("randperm", dtype, "iuf")
    if n - 1 > max_exact_integer(dtype):
        raise RuntimeError(f"randperm: n is too large for {dtype}: {n}")
    return copy_into_out(
        out,
        new_tensor(
            random_permutation,
            n,
            dtype,
            generator,
            device=device,
            requires_grad=requires_grad,
            like=out,
        ),
    )


def random_permutation(n: int, dtype: Any, generator: Any) -> Any:
    """0 to n - 1 in random order, as `philox.permutation`."""
    seed, offset = claim(generator, n, n > 2**20)
    return native.randperm(n, seed, offset).astype(dtype, copy=False)


@on_cuda(random_permutation, meta=lambda xp, n, dtype, *_: xp.empty(n, dtype))
def random_permutation_on_cuda(cupy: Any, n: int, dtype: Any, generator: Any) -> Any:
    """The permutation of `random_permutation`, made on the host: each swap needs the last."""
    stream = claim_on_cuda(cupy, generator, n, n > 2**20)
    return cupy.asarray(native.randperm(n, *stream).astype(dtype, copy=False))


# ---- by probabilities


def bernoulli_kernel(x: Any, seed: int, offset: int) -> Any:
    """The forward with native uniform numbers; None for wrong probabilities."""
    if x.size and not (x.min() >= 0 and x.max() <= 1):
        return None
    u = native.uniform_(np.empty(x.shape), seed, offset, 0.0, 1.0)
    return parallel_less(u, x).astype(x.dtype)


@op(native=bernoulli_kernel, samples=[(reals((3, 4), 0.0, 1.0), 3, 0)], layout="contiguous")
def _bernoulli(xp, x, /, seed, offset):
    """1 with probability x, else 0."""
    if x.size and not (x.min() >= 0 and x.max() <= 1):
        raise RuntimeError(f"bernoulli: probabilities must lie in [0, 1]: {x.min()} to {x.max()}")
    u = philox.uniform(seed, offset, x.size, xp.dtype(xp.float64)).reshape(x.shape)
    return (u < x).astype(x.dtype)


parallel_less = native.parallel(np.less)


_bernoulli.pullback(x=zero_gradient)


@composite
def bernoulli(ops, input, p=None, *, generator=None):
    """Ones with given probabilities, else zeros.

    Parameters
    ----------
    input : Tensor
        The probability of each element, of a floating-point dtype.
    p : float, optional
        One probability for all, in place of the elements.
    generator : Generator, optional
        The source of random numbers; by default that of the device.

    Returns
    -------
    Tensor
        0 or 1, of the shape and dtype of `input`.

    Raises
    ------
    RuntimeError
        A probability is outside [0, 1], or the dtype is not floating point.

    See Also
    --------
    binomial, rand

    Notes
    -----
    The gradient is 0.

    Examples
    --------
    >>> st.bernoulli(st.tensor([0., 1., 1.]))
    tensor([0., 1., 1.])
    >>> st.bernoulli(st.zeros(2, 3), p=0.5).shape
    Size([2, 3])
    """
    if p is not None:
        input = ops.full_like(input, p)
    if input.dtype.kind != "f":
        raise RuntimeError(f"bernoulli: probabilities must be floating point: {input.dtype.name}")
    return ops._bernoulli(input, *claim(generator, numel(input), True, input))


@composite(method=False)
def normal(
    ops,
    mean=0.0,
    std=1.0,
    size=None,
    *,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
):
    """Normally distributed random numbers with given means and standard deviations.

    Parameters
    ----------
    mean : float or Tensor, optional
        One number, or that of each element.
    std : float or Tensor, optional
        One number, or that of each element; broadcast against `mean`.
    size : sequence of int, optional
        The shape, if both are numbers.
    generator : Generator, optional
        The source of random numbers; by default that of the device.
    dtype : dtype, optional
        If both are numbers; by default the default dtype.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of the shape `size`, or of the broadcast shape.

    Raises
    ------
    RuntimeError
        A deviation is negative.
    TypeError
        Both are numbers and `size` is missing.

    See Also
    --------
    randn

    Examples
    --------
    >>> st.normal(st.tensor([1., 2.]), st.zeros(2))
    tensor([1., 2.])
    >>> st.normal(0., 1., size=(2, 3)).shape
    Size([2, 3])
    """
    if not hasattr(std, "shape") and std < 0:
        raise RuntimeError(f"normal: std must not be negative: {std}")
    if size is not None:
        dtype = dtype_or_out("normal", out, dtype)
        if device is None and out is not None:
            device = device_of(out.array)
        z = ops.randn(size, generator=generator, dtype=dtype, device=device)
        result = ops.add(ops.mul(z, std), mean)
        return copy_into_out(out, result.requires_grad_(True) if requires_grad else result)
    tensors = [v for v in (mean, std) if hasattr(v, "shape")]
    if not tensors:
        raise TypeError(f"normal: a size is needed beside numbers: mean={mean}, std={std}")
    shape = np.broadcast_shapes(*(tuple(v.shape) for v in tensors))
    dtype = tensors[0].dtype
    if out is not None:
        check_random_dtype("normal", out.dtype)
    if hasattr(std, "shape") and math.prod(std.shape) and std.min() < 0:
        raise RuntimeError(f"normal: std must not be negative: {std.min()}")
    device = device_of(getattr(tensors[0], "array", tensors[0]))
    z = ops.randn(shape, generator=generator, dtype=dtype, device=device)
    return copy_into_out(out, ops.add(ops.mul(z, std), mean))


def multinomial_kernel(x: Any, num_samples: int, replacement: bool, seed: int, offset: int) -> Any:
    """The native kernels; None for wrong weights."""
    rows = x.reshape(-1, x.shape[-1])
    shape = (len(rows), num_samples if replacement else rows.shape[1])
    u = native.uniform_(np.empty(shape), seed, offset, 0.0, 1.0)
    indices = None
    if replacement:
        indices = native.multinomial(rows, u)
    elif native.multinomial_without_replacement(rows, u, num_samples):
        _, indices = native.topk(u, num_samples, 1, False) or (None, None)
    return None if indices is None else indices.reshape(*x.shape[:-1], num_samples)


@op(
    native=multinomial_kernel,
    samples=[
        (reals((3, 5), 0.1, 1.0), 2, False, 3, 0),
        (reals((3, 5), 0.1, 1.0), 7, True, 3, 0),
        (reals((5,), 0.1, 1.0), 7, True, 3, 0),
    ],
)
def _multinomial(xp, x, /, num_samples, replacement, seed, offset):
    """Indices sampled with the weights of each row: the position of a uniform number among the
    cumulative sums, or the smallest exponential numbers over their weights.
    """
    rows = x.reshape(-1, x.shape[-1]).astype(xp.float64)
    if not (xp.isfinite(rows).all() and (rows >= 0).all() and (rows.sum(1) > 0).all()):
        raise RuntimeError("multinomial: weights must be finite, not negative, and not all 0")
    if replacement:
        u = philox.uniform(seed, offset, len(rows) * num_samples, xp.dtype(xp.float64))
        ends = xp.cumsum(rows, 1)
        v = xp.minimum(u.reshape(len(rows), -1) * ends[:, -1:], xp.nextafter(ends[:, -1:], 0))
        out = xp.stack([xp.searchsorted(e, w, "right") for e, w in zip(ends, v, strict=True)])
    else:
        if ((rows > 0).sum(1) < num_samples).any():
            raise RuntimeError(f"multinomial: fewer weights above 0 than samples: {num_samples}")
        u = philox.uniform(seed, offset, rows.size, xp.dtype(xp.float64)).reshape(rows.shape)
        with np.errstate(all="ignore"):
            times = xp.where(rows > 0, -xp.log(1 - u) / rows, math.inf)
        out = xp.argsort(times, 1, kind="stable")[:, :num_samples]
    return out.reshape(*x.shape[:-1], num_samples).astype(xp.int64)


@composite(exact_out=True)
def multinomial(ops, input, num_samples, replacement=False, *, generator=None):
    """Indices drawn at random with given weights, for each row.

    Parameters
    ----------
    input : Tensor
        Weights of shape `(n,)` or `(rows, n)`: finite, not negative; they need not add up to 1.
    num_samples : int
        How many indices are drawn for each row.
    replacement : bool, optional
        Whether an index may be drawn several times.
    generator : Generator, optional
        The source of random numbers; by default that of the device.

    Returns
    -------
    Tensor
        int64, of shape `(num_samples,)` or `(rows, num_samples)`.

    Raises
    ------
    RuntimeError
        A weight is negative or not finite, all of a row are 0, or without replacement there are
        fewer weights above 0 than samples.

    See Also
    --------
    randperm, bernoulli

    Examples
    --------
    >>> st.multinomial(st.tensor([0., 1., 0.]), 3, replacement=True)
    tensor([1, 1, 1])
    >>> st.sort(st.multinomial(st.tensor([1., 2., 0., 1.]), 3)).values
    tensor([0, 1, 3])
    """
    n = input.shape[-1] if input.ndim else 0
    if input.ndim not in (1, 2) or input.dtype.kind != "f":
        raise RuntimeError(
            f"multinomial: rows of weights are needed: {tuple(input.shape)} {input.dtype.name}"
        )
    if num_samples < 1 or (num_samples > n and not replacement):
        raise RuntimeError(f"multinomial: cannot draw {num_samples} of {n} without replacement")
    replacement = replacement or num_samples == 1  # the same, with one number for each row
    rows = numel(input) // n if n else 0
    stream = claim(generator, rows * (num_samples if replacement else n), True, input)
    return ops._multinomial(input, num_samples, replacement, *stream)
