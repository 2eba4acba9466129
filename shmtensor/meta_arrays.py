"""Arrays of the device "meta": a shape, a dtype and strides, without memory.

A MetaArray holds a NumPy array over one element whose shape and strides claim more. NumPy makes
views of it without reading it, so views, strides and memory formats are right. Nothing reads its
elements: the array never leaves this file but for views.

What computes values runs on stand-ins instead: Note [Stand-ins].
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from . import native
from .device import META
from .errors import explained


def no_data(what: str) -> Exception:
    """The error of an operation that needs values."""
    return explained(NotImplementedError(f"{what}: meta tensors have no data"))


class Position(NamedTuple):
    """Where an array is in its memory.

    Attributes:
        mem: the MetaArray that has all of the memory.
        ptr: the first element's distance from its start, in bytes.
    """

    mem: Any
    ptr: int


class MetaArray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array without data, with NumPy's names. Operators and NumPy's functions give MetaArrays.

    Attributes:
        claim: the NumPy array with its shape, dtype and strides, over memory of one element.
        base: the MetaArray of which it is a view, or None.
    """

    __slots__ = ("__weakref__", "base", "claim")

    device = META

    def __init__(self, claim: Any, base: MetaArray | None = None) -> None:
        self.claim, self.base = claim, base

    shape = property(lambda self: self.claim.shape)
    strides = property(lambda self: self.claim.strides)
    dtype = property(lambda self: self.claim.dtype)
    ndim = property(lambda self: self.claim.ndim)
    size = property(lambda self: self.claim.size)
    itemsize = property(lambda self: self.claim.itemsize)
    nbytes = property(lambda self: self.claim.nbytes)
    flags = property(lambda self: self.claim.flags)

    def view_of(self, claim: Any) -> MetaArray:
        """A view with the layout of a view of `claim`."""
        return MetaArray(claim, self if self.base is None else self.base)

    @property
    def data(self) -> Position:
        memory = self if self.base is None else self.base
        return Position(memory, self.claim.ctypes.data - memory.claim.ctypes.data)

    ptr = 0  # of the first element in its memory, which has no address

    def transpose(self, *axes: Any) -> MetaArray:
        return self.view_of(self.claim.transpose(*axes))

    def swapaxes(self, a: int, b: int) -> MetaArray:
        return self.view_of(self.claim.swapaxes(a, b))

    T = property(transpose)

    def reshape(self, *shape: Any) -> MetaArray:
        sizes = completed(shape[0] if len(shape) == 1 else shape, self.size)
        view = native.reshape_view(self.claim, sizes)
        return new(sizes, self.dtype) if view is None else self.view_of(view)

    def ravel(self) -> MetaArray:
        return self.reshape(-1)

    def _set_shape_and_strides(self, shape: Any, strides: Any, *_: Any) -> None:
        """Another layout from the first element on, as CuPy's method."""
        self.claim = np.lib.stride_tricks.as_strided(self.claim, shape, strides)

    def view(self, dtype: Any) -> MetaArray:
        return self.view_of(self.claim.view(dtype))

    def copy(self, order: str = "K") -> MetaArray:
        return new(self.shape, self.dtype, self.claim if order == "K" else None)

    def astype(self, dtype: Any, copy: bool = True, **_: Any) -> MetaArray:
        return self if not copy and dtype == self.dtype else new(self.shape, dtype, self.claim)

    def __len__(self) -> int:
        return len(self.claim)

    def __getitem__(self, index: Any) -> MetaArray:
        parts = index if isinstance(index, tuple) else (index,)
        if not any(isinstance(p, (list, np.ndarray, MetaArray)) for p in parts):
            return self.view_of(self.claim[(*parts, ...) if Ellipsis not in parts else parts])
        return new(indexed_shape(self.claim, parts), self.dtype)

    def __setitem__(self, index: Any, value: Any) -> None:
        self[index].assign(value)

    def assign(self, source: Any) -> MetaArray:
        """Checks that a source can be written to all elements; there is nothing to write.

        Raises:
            ValueError: its shape cannot be broadcast to that of the array.
        """
        shape = np.shape(source) if not hasattr(source, "shape") else source.shape
        np.broadcast_to(np.broadcast_to(0, shape), self.shape)
        return self

    def fill(self, value: Any) -> None:
        """Fills it: there is nothing to write."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return run_on_stand_ins(getattr(ufunc, method), *inputs, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return run_on_stand_ins(function, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        method = getattr(np.ndarray, name, None) if not name.startswith("__") else None
        if name in ("item", "tolist", "tobytes", "nonzero"):
            raise no_data(name)
        if method is None:
            raise AttributeError(f"MetaArray: there is no attribute {name!r}")
        if not callable(method):  # real, imag
            return run_on_stand_ins(lambda x: getattr(x, name), self)
        return functools.partial(run_on_stand_ins, method, self)

    def refuse(self, *_: Any, **__: Any) -> Any:
        raise explained(NotImplementedError("to: Cannot copy out of meta tensor; no data!"))

    def refuse_number(self) -> Any:
        raise no_data("number")

    __array__ = __iter__ = refuse
    __bool__ = __int__ = __float__ = __complex__ = __index__ = refuse_number

    def refuse_dlpack(self, *_: Any, **__: Any) -> Any:
        raise BufferError("__dlpack__: meta tensors have no data")

    __dlpack__ = __dlpack_device__ = refuse_dlpack

    def __repr__(self) -> str:
        return f"MetaArray({self.shape}, {self.dtype})"


def claim_of(shape: tuple[int, ...], dtype: Any) -> Any:
    """A NumPy array that must not be read: its memory is one element."""
    steps = [np.dtype(dtype).itemsize]
    for n in reversed(shape[1:]):
        steps.append(steps[-1] * max(n, 1))
    strides = tuple(reversed(steps)) if shape else ()
    return np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, strides)


def new(shape: Any, dtype: Any, like: Any = None) -> MetaArray:
    """A new array.

    Args:
        like: a NumPy array of as many dimensions, whose order in memory it takes.
    """
    sizes = (int(shape),) if not hasattr(shape, "__len__") else tuple(map(int, shape))
    if any(n < 0 for n in sizes):
        raise RuntimeError(f"meta: a size is negative: {sizes}")
    if math.prod(sizes) >= 2**63 // np.dtype(dtype).itemsize:
        raise RuntimeError(f"meta: there are too many elements for one tensor: {sizes}")
    if like is None or len(sizes) < 2 or like.flags.c_contiguous:
        return MetaArray(claim_of(sizes, dtype))
    order = order_of(like)
    claim = claim_of(tuple(sizes[d] for d in order), dtype)
    return MetaArray(claim.transpose(np.argsort(order)))


def like(array: Any) -> MetaArray:
    """An array with the shape, dtype and strides of another one, if they leave no gaps."""
    return array if isinstance(array, MetaArray) else new(array.shape, array.dtype, array)


def order_of(array: Any) -> list[int]:
    """The dimensions from the outermost to the innermost in memory; in order if it is expanded."""
    if 0 in array.strides:
        return list(range(array.ndim))
    return sorted(range(array.ndim), key=lambda d: -abs(array.strides[d]))


def completed(shape: Any, size: int) -> tuple[int, ...]:
    """A shape with a number in place of -1."""
    sizes = (shape,) if not hasattr(shape, "__len__") else tuple(shape)
    rest = math.prod(n for n in sizes if n != -1)
    if sizes.count(-1) == 1 and rest and size % rest == 0:
        sizes = tuple(size // rest if n == -1 else n for n in sizes)
    if math.prod(sizes) != size or min(sizes, default=0) < 0:
        raise ValueError(f"cannot reshape array of size {size} into shape {sizes}")
    return sizes


def indexed_shape(x: Any, parts: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape of `x[parts]` with arrays among the parts, by NumPy's rules.

    Raises:
        NotImplementedError: a part is a mask.
    """
    arrays: list[Any] = []
    for part in parts:
        part = np.asarray(part) if isinstance(part, list) else part
        is_mask = isinstance(part, np.ndarray) and part.dtype == bool
        arrays += part.nonzero() if is_mask else [part]
    if any(getattr(getattr(p, "dtype", None), "kind", "") == "b" for p in arrays):
        raise no_data("indexing: the number of elements that a mask selects depends on its values")
    at = arrays.index(...) if any(p is ... for p in arrays) else len(arrays)
    n_indexed = sum(p is not None and p is not ... for p in arrays)
    rest = [slice(None)] * (x.ndim - n_indexed)
    arrays[at : at + 1] = rest
    is_array = [hasattr(p, "dtype") or hasattr(p, "__index__") for p in arrays]
    basic = x[tuple(slice(None) if is_a else p for is_a, p in zip(is_array, arrays))].shape
    kept = [n for is_a, n in zip(is_array, basic) if not is_a]
    first, last = is_array.index(True), len(is_array) - is_array[::-1].index(True)
    start = first if all(is_array[first:last]) else 0
    common = np.broadcast_shapes(*(getattr(p, "shape", ()) for p, a in zip(arrays, is_array) if a))
    return (*kept[:start], *common, *kept[start:])


# ---- Note [Stand-ins]
#
# Most functions of arrays give results whose sizes are sizes of their operands, or constants. Such
# a function runs twice on small arrays with values: each size above 1 of the operands has a small
# prime in its place, another one in the second run. A size of a result that is a stand-in in both
# runs is the size for which it stands; one that is the same number in both is a constant. Any other
# is computed from sizes, and refused; rows of the op table where that matters have a form of their
# own (ops/meta.py). The stand-ins are in the order of the sizes. No sum, product, half, multiple or
# constant distance of stand-ins is another one in both runs.

STAND_INS = (
    (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47),
    (5, 11, 17, 29, 37, 43, 47, 53, 67, 73, 83, 97, 101, 109),
)


class StandIns:
    """The sizes of one run in place of those of the operands.

    Raises:
        NotImplementedError: the operands have too many different sizes.
    """

    def __init__(self, sizes: list[int], stand_ins: tuple[int, ...]) -> None:
        if len(sizes) > len(stand_ins):
            raise no_data(f"operands with more than {len(stand_ins)} different sizes")
        self.small = {0: 0, 1: 1} | dict(zip(sizes, stand_ins))

    def replace(self, value: Any, fill: float) -> Any:
        """A value with small NumPy arrays in place of MetaArrays."""
        if isinstance(value, MetaArray):
            return stand_in(value.claim, self.small, fill)
        if isinstance(value, (list, tuple)):
            replaced = [self.replace(v, fill) for v in value]
            return replaced if isinstance(value, list) else tuple(replaced)
        return value


def stand_in(claim: Any, small: dict[int, int], integers: float) -> Any:
    """A small array with values that most functions take: floats in (0, 1), positive definite
    matrices, valid indices. The dimensions have the order of `claim` in memory.
    """
    order = order_of(claim)
    array = np.empty([small[claim.shape[d]] for d in order], claim.dtype)
    array = array.transpose(np.argsort(order)) if order else array
    if claim.dtype.kind in "iub":
        array[...] = integers
    elif claim.ndim < 2:
        array[...] = 0.5
    else:
        array[...] = (1 + np.eye(*array.shape[-2:])) / 4
    return array


def meta_arrays_in(values: Any, found: list[MetaArray]) -> list[MetaArray]:
    for value in values:
        if isinstance(value, MetaArray):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            meta_arrays_in(value, found)
    return found


def run_on_stand_ins(
    function: Callable[..., Any], *args: Any, name: str = "", integers: float = 1, **kwargs: Any
) -> Any:
    """The result of a function of arrays, as MetaArrays: Note [Stand-ins].

    Args:
        name: its name in errors.
        integers: the value of integers.

    Raises:
        NotImplementedError: a size of the result is not one of the operands', nor a constant.
    """
    operands = meta_arrays_in([*args, *kwargs.values()], [])
    sizes = sorted({n for x in operands for n in x.shape if n > 1})
    runs = [StandIns(sizes, stand_ins) for stand_ins in STAND_INS]
    results = []
    with np.errstate(all="ignore"):
        for run in runs:
            small = {key: run.replace(value, integers) for key, value in kwargs.items()}
            results.append(function(*run.replace(args, integers), **small))
    large = {(a, runs[1].small[n]): n for n, a in runs[0].small.items()}
    return enlarged(name or getattr(function, "__name__", ""), large, *results)


def enlarged(name: str, large: dict[tuple[int, int], int], first: Any, second: Any) -> Any:
    """MetaArrays of the sizes that those of two runs stand for."""
    if isinstance(first, (list, tuple)):
        items = [enlarged(name, large, *pair) for pair in zip(first, second, strict=True)]
        return items if isinstance(first, list) else tuple(items)
    if not isinstance(first, (np.ndarray, np.generic)):
        return first
    shape = []
    for pair in zip(first.shape, second.shape, strict=True):
        n = large.get(pair, pair[0] if pair[0] == pair[1] else None)
        if n is None:
            raise no_data(f"{name}: the shape of its result is not known without computing it")
        shape.append(n)
    return new(shape, first.dtype, np.asarray(first))


# ---- the array module


class Module:
    """The functions of NumPy, on MetaArrays."""

    __version__ = np.__version__
    runtime = SimpleNamespace(getDevice=lambda: None, deviceSynchronize=lambda: None)
    cuda = SimpleNamespace(Device=nullcontext, runtime=runtime)
    ndarray = empty = zeros = ones = staticmethod(
        lambda shape, dtype=np.float64, order="C": new(shape, dtype)
    )

    def full(self, shape: Any, value: Any, dtype: Any = None) -> MetaArray:
        return new(shape, np.asarray(value).dtype if dtype is None else dtype)

    def eye(self, n: int, m: int | None = None, k: int = 0, dtype: Any = np.float64) -> MetaArray:
        return new((n, n if m is None else m), dtype)

    def arange(self, start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> MetaArray:
        first, end = (0, start) if stop is None else (start, stop)
        n = max(0, math.ceil((end - first) / step))
        return new(n, np.asarray([first, end, step], dtype).dtype)

    def asarray(self, array: Any, dtype: Any = None) -> MetaArray:
        result = like(array if hasattr(array, "shape") else np.asarray(array))
        return result if dtype is None else result.astype(dtype, copy=False)

    def array(
        self, array: Any, dtype: Any = None, copy: bool = True, order: str = "K"
    ) -> MetaArray:
        return self.asarray(array, dtype).copy(order)

    def ascontiguousarray(self, array: MetaArray) -> MetaArray:
        return array if array.flags.c_contiguous else array.copy("C")

    def broadcast_to(self, array: MetaArray, shape: Any) -> MetaArray:
        return array.view_of(np.broadcast_to(array.claim, shape))

    def moveaxis(self, array: MetaArray, source: Any, destination: Any) -> MetaArray:
        return array.view_of(np.moveaxis(array.claim, source, destination))

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if isinstance(found, type) or not callable(found):
            return found
        return functools.partial(run_on_stand_ins, found)


xp = Module()
