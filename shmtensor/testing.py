"""Helpers for tests, `torch.testing` by name: `assert_close` and `make_tensor`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import Any, NamedTuple

import numpy as np

from . import functions
from .autograd.dispatch.foreign_operands import refuse_foreign
from .cuda_arrays import move_array
from .device import CPU
from .dtypes import as_dtype, bfloat16, finfo
from .sparse import SparseTensor
from .tensor import Tensor
from .tensor.from_data import as_tensor

__all__ = ["assert_close", "make_tensor"]

# By dtype: (rtol, atol). Others are compared exactly.
TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
NUMBERS: dict[type, str] = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}

Message = str | Callable[[str], str] | None


class Options(NamedTuple):
    """The options of one call of `assert_close`."""

    allow_subclasses: bool
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool

    def tolerances(self, *names: str) -> tuple[float, float]:
        """rtol and atol: from the options, or the largest defaults of the dtypes."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        tolerances = [TOLERANCES.get(name, (0.0, 0.0)) for name in names]
        return max(rtol for rtol, _ in tolerances), max(atol for _, atol in tolerances)


class Mismatch(Exception):
    """Two values are not close. `path` is their position in the containers."""

    def __init__(self, text: str, path: tuple[Any, ...] = ()) -> None:
        super().__init__(text)
        self.path = path


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Message = None,
) -> None:
    """Raises AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere.

    Parameters
    ----------
    actual, expected : object
        Tensors or arrays of one shape, numbers, None, or sequences or mappings of such, nested to
        any depth. Two values that are not tensors must have one type.
    allow_subclasses : bool, optional
        Compare tensors of related classes; else only of the same class.
    rtol, atol : float, optional
        Both or neither; by default by dtype (the larger of the two): float16 1e-3 and 1e-5,
        bfloat16 1.6e-2 and 1e-5, float32 and complex64 1.3e-6 and 1e-5, float64 and complex128
        1e-7 and 1e-7, others 0.
    equal_nan : bool, optional
        NaN equals NaN.
    check_device, check_dtype, check_layout, check_stride : bool, optional
        Whether these must be equal.
    msg : str or callable, optional
        The error message, or a function of the default message.

    Raises
    ------
    AssertionError
        They are not close. It has the number of mismatched elements, and the greatest absolute and
        relative difference with their indices.
    ValueError
        Only one of rtol and atol is given.
    TypeError
        They cannot be compared.

    Examples
    --------
    >>> x = st.tensor([1.0, 2.0])
    >>> st.testing.assert_close(x, x + 1e-7)
    >>> st.testing.assert_close(x, x + 0.1, rtol=0, atol=0.2)
    >>> st.testing.assert_close({"a": x}, {"a": x + 1})
    Traceback (most recent call last):
    AssertionError: Tensor-likes are not close!
    """
    if (rtol is None) != (atol is None):
        raise ValueError(
            f"assert_close: give both rtol and atol, or neither: rtol={rtol}, atol={atol}"
        )
    options = Options(
        allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_layout,
        check_stride,
    )  # fmt: skip
    try:
        compare(actual, expected, options, ())
    except Mismatch as error:
        text = str(error)
        if error.path:
            where = "".join(f"[{item!r}]" for item in error.path)
            text += f"\n\nThe failure occurred for item {where}"
        raise AssertionError(msg(text) if callable(msg) else msg or text) from None


def compare(actual: Any, expected: Any, options: Options, path: tuple[Any, ...]) -> None:
    """Raises Mismatch unless the two are close; TypeError if they cannot be compared."""
    if actual is None or expected is None:
        if actual is not expected:
            raise Mismatch(f"None mismatch: {actual} is not {expected}", path)
    elif is_sequence(actual) and is_sequence(expected):
        n, m = len(actual), len(expected)
        if n != m:
            raise Mismatch(f"The length of the sequences mismatch: {n} != {m}", path)
        for i, (x, y) in enumerate(zip(actual, expected, strict=True)):
            compare(x, y, options, (*path, i))
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            missing, additional = set(expected) - set(actual), set(actual) - set(expected)
            raise Mismatch(
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(missing, key=repr)}\n"
                f"Additional keys in the actual mapping: {sorted(additional, key=repr)}",
                path,
            )
        for key in actual:
            compare(actual[key], expected[key], options, (*path, key))
    elif isinstance(actual, Number) and isinstance(expected, Number):
        compare_numbers(actual, expected, options, path)
    else:
        check_related(actual, expected, options.allow_subclasses, path)
        compare_tensors(tensor_of(actual), tensor_of(expected), options, path)


def check_related(actual: Any, expected: Any, subclasses: bool, path: tuple[Any, ...]) -> None:
    """Raises TypeError unless the two have one class, or one's class is a base of the other's."""
    cls, expected_cls = (
        Tensor if isinstance(v, SparseTensor) else type(v) for v in (actual, expected)
    )
    is_related = (
        issubclass(cls, expected_cls) or issubclass(expected_cls, cls)
        if subclasses
        else cls is expected_cls
    )
    if not is_related or is_text(actual):
        refuse_foreign("assert_close", (actual, expected))
        raise TypeError(
            f"assert_close: no way to compare {cls.__name__} and {expected_cls.__name__} (at "
            f"{list(path)}): {actual!r:.60}, {expected!r:.60}"
        )


def is_text(value: Any) -> bool:
    return isinstance(value, str | bytes)


def is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not is_text(value) and not isinstance(value, Tensor)


def tensor_of(value: Any) -> Any:
    """The value as a tensor (sparse or not).

    Raises:
        TypeError: it cannot be converted.
    """
    if isinstance(value, Tensor | SparseTensor):
        return value.detach()
    try:
        return as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"assert_close: no tensor can be made of {type(value)}: {error}") from None


def compare_numbers(actual: Any, expected: Any, options: Options, path: tuple[Any, ...]) -> None:
    """Compares two numbers; NumPy's are converted to Python's."""
    actual, expected = (v.item() if isinstance(v, np.generic) else v for v in (actual, expected))
    types = type(actual), type(expected)
    if options.check_dtype and types[0] is not types[1]:
        raise Mismatch(f"The (d)types do not match: {types[0]} != {types[1]}.", path)
    rtol, atol = options.tolerances(*(NUMBERS.get(cls, cls.__name__) for cls in types))
    if options.equal_nan and actual != actual and expected != expected:
        return
    gap, size = abs(actual - expected), abs(expected)
    if actual != expected and not (math.isfinite(size) and gap <= atol + rtol * size):
        raise Mismatch(describe_scalars(actual, expected, rtol, atol), path)


def describe_scalars(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    """Describes the difference of two numbers."""
    if isinstance(actual, bool) and isinstance(expected, bool):
        return f"Booleans mismatch: {actual} is not {expected}"
    gap, size = abs(actual - expected), abs(expected)
    return (
        f"Scalars are not {'close' if rtol or atol else 'equal'}!\n\n"
        f"Expected {expected} but got {actual}.\n"
        f"Absolute difference: {gap}{limit_text(atol, rtol, atol)}\n"
        f"Relative difference: {gap / size if size else math.inf}{limit_text(rtol, rtol, atol)}"
    )


def limit_text(limit: float, rtol: float, atol: float) -> str:
    """The text after a difference, if there is a tolerance."""
    return f" (up to {limit} allowed)" if rtol or atol else ""


def compare_tensors(actual: Any, expected: Any, options: Options, path: tuple[Any, ...]) -> None:
    """Compares two tensors: their attributes, then their elements."""
    attributes: list[tuple[str, bool, Callable[[Any], Any]]] = [
        ("shape", True, lambda x: x.shape),
        ("device", options.check_device, lambda x: x.device),
        ("layout", options.check_layout, lambda x: x.layout),
        ("dtype", options.check_dtype, lambda x: x.dtype),
        (
            "stride()",
            options.check_stride and not (actual.is_sparse or expected.is_sparse),
            lambda x: x.stride(),
        ),
    ]
    for name, is_checked, get in attributes:
        if is_checked and get(actual) != get(expected):
            values = f"{get(actual)} != {get(expected)}"
            raise Mismatch(f"The values for attribute '{name}' do not match: {values}.", path)
    rtol, atol = options.tolerances(actual.dtype.name, expected.dtype.name)
    x, y = (on_host((v.to_dense() if v.is_sparse else v).array) for v in (actual, expected))
    close = is_close(x, y, rtol, atol, options.equal_nan)
    if not close.all():
        raise Mismatch(describe_elements(x, y, close, rtol, atol), path)


def on_host(array: Any) -> Any:
    """The array, or a copy of one on a GPU: elements are compared on the host."""
    return move_array(array, CPU)


def is_close(x: Any, y: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    """Which elements are close; compared exactly, or in double precision."""
    with np.errstate(all="ignore"):
        close = x == y
        if equal_nan:
            close |= (x != x) & (y != y)
        if rtol or atol:
            x, y = as_double(x, y)
            gap, size = np.abs(x - y), np.abs(y)
            close |= np.isfinite(size) & (gap <= atol + rtol * size)
    return np.asarray(close)


def as_double(x: Any, y: Any) -> tuple[Any, Any]:
    """Both in double precision."""
    dtype = np.complex128 if "c" in x.dtype.kind + y.dtype.kind else np.float64
    return x.astype(dtype), y.astype(dtype)


def describe_elements(x: Any, y: Any, close: Any, rtol: float, atol: float) -> str:
    """Describes how many elements differ, and where most."""
    if not close.ndim:
        return describe_scalars(x.item(), y.item(), rtol, atol)
    if set(x.dtype.kind + y.dtype.kind) <= set("biu"):  # differences of int64 may overflow
        integers = ([int(v) for v in array.flat] for array in (x, y))
        gap = np.array([abs(a - b) for a, b in zip(*integers, strict=True)], object).reshape(
            x.shape
        )
    else:
        a, b = as_double(x, y)
        with np.errstate(all="ignore"):
            gap = np.abs(a - b)
    with np.errstate(all="ignore"):
        relative = gap.astype(np.float64) / np.abs(as_double(y, y)[0])
    n_mismatched = int(close.size - np.count_nonzero(close))
    lines = []
    for name, values, limit in (("absolute", gap, atol), ("relative", relative, rtol)):
        values = np.where(close, 0, values)
        position = np.unravel_index(int(np.argmax(values)), values.shape)
        index = tuple(int(i) for i in position)
        text = limit_text(limit, rtol, atol)
        lines.append(f"Greatest {name} difference: {values[position]} at index {index}{text}")
    share = f"{n_mismatched} / {close.size} ({n_mismatched / close.size:.1%})"
    head = f"Tensor-likes are not {'close' if rtol or atol else 'equal'}!"
    return "\n".join([head, "", f"Mismatched elements: {share}", *lines])


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any = None,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of random elements from [low, high), by the default generator.

    Parameters
    ----------
    *shape : int
        Its sizes, as separate arguments or as one sequence.
    dtype : dtype
        Of the tensor: bool, integer, floating or complex.
    device : device, optional
        Where it is; the CPU by default.
    low, high : float, optional
        By default -9 and 9 (for both parts of complex numbers), 0 and 10 for unsigned integers, -9
        and 10 for signed ones, 0 and 2 for bool.
    requires_grad : bool, optional
        Whether operations on it are recorded.
    noncontiguous : bool, optional
        The tensor uses every second element of a memory of twice the size.
    exclude_zero : bool, optional
        Zeros become 1 or the smallest positive normal number.
    memory_format : memory_format, optional
        The order of its dimensions in memory.

    Returns
    -------
    Tensor
        Of the given shape and dtype.

    Raises
    ------
    ValueError
        `low` is not below `high`, or `noncontiguous` is combined with a memory format.

    Examples
    --------
    >>> x = st.testing.make_tensor(2, 3, dtype=st.float32, low=0, high=1)
    >>> x.shape, bool((x >= 0).all() and (x < 1).all())
    (Size([2, 3]), True)
    >>> st.testing.make_tensor((2, 3), dtype=st.int64, noncontiguous=True).stride()
    (6, 2)
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else tuple(shape)
    dtype = as_dtype(dtype)
    kind = "f" if dtype == bfloat16 else dtype.kind
    default_low, default_high = {"b": (0, 2), "u": (0, 10), "i": (-9, 10)}.get(kind, (-9.0, 9.0))
    low, high = default_low if low is None else low, default_high if high is None else high
    if not low < high:
        raise ValueError(f"make_tensor: low must be below high: {low}, {high}")
    if noncontiguous and memory_format is not None:
        raise ValueError(f"make_tensor: noncontiguous excludes memory_format: {memory_format}")
    memory_shape = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous and sizes else sizes
    if kind in "biu":
        result = functions.randint(math.ceil(low), math.ceil(high), memory_shape).to(dtype)
    else:
        pairs = functions.rand(*memory_shape, 2, dtype=np.float64) if kind == "c" else None
        values = functions.rand(memory_shape, dtype=np.float64) if pairs is None else pairs
        values = values * (high - low) + low
        result = (values if pairs is None else functions.view_as_complex(values)).to(dtype)
    if noncontiguous and sizes:
        result = result[..., ::2]
    if exclude_zero:
        tiny = 1 if kind in "biu" else float(finfo(dtype).tiny)
        result.masked_fill_(result == 0, tiny)
    if memory_format is not None:
        result = result.contiguous(memory_format=memory_format)
    tensor: Tensor = result.to(device).requires_grad_(requires_grad)
    return tensor
