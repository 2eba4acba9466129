"""What tests of tensors need, `torch.testing` by name: `assert_close` and `make_tensor`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import Any, NamedTuple

import numpy as np

from . import functions
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
    """What one call of `assert_close` asks for."""

    allow_subclasses: bool
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool

    def tolerances(self, *names: str) -> tuple[float, float]:
        """rtol and atol: those given, or the widest of these dtypes' own."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        known = [TOLERANCES.get(name, (0.0, 0.0)) for name in names]
        return max(rtol for rtol, _ in known), max(atol for _, atol in known)


class Different(Exception):
    """Two things are not close. Its text says how, `path` where in what contains them."""

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

    Args:
        actual, expected: tensors or arrays of one shape, numbers, None, or sequences or mappings of
            such, however deep. Of two things, neither of which is a tensor, one type is expected.
        allow_subclasses: tensors of related classes are compared; else of one class alone.
        rtol, atol: both or neither; by default by dtype (the wider of the two): float16 1e-3 and
            1e-5, bfloat16 1.6e-2 and 1e-5, float32 and complex64 1.3e-6 and 1e-5, float64 and
            complex128 1e-7 and 1e-7, others 0.
        equal_nan: NaN is as NaN is.
        check_device, check_dtype, check_layout, check_stride: whether these have to agree.
        msg: what the error says; a function gets what it would have said.

    Raises:
        AssertionError: they are not close. It names how many elements differ, and the greatest
            absolute and relative difference with their places.
        ValueError: one of rtol and atol without the other. TypeError: they cannot be compared.
    """
    if (rtol is None) != (atol is None):
        raise ValueError(f"assert_close: rtol and atol belong together: rtol={rtol}, atol={atol}")
    options = Options(
        allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_layout,
        check_stride,
    )  # fmt: skip
    try:
        compare(actual, expected, options, ())
    except Different as error:
        text = str(error)
        if error.path:
            where = "".join(f"[{item!r}]" for item in error.path)
            text += f"\n\nThe failure occurred for item {where}"
        raise AssertionError(msg(text) if callable(msg) else msg or text) from None


def compare(actual: Any, expected: Any, options: Options, path: tuple[Any, ...]) -> None:
    """Raises Different unless the two are close; TypeError if they cannot be compared."""
    if actual is None or expected is None:
        if actual is not expected:
            raise Different(f"None mismatch: {actual} is not {expected}", path)
    elif is_sequence(actual) and is_sequence(expected):
        n, m = len(actual), len(expected)
        if n != m:
            raise Different(f"The length of the sequences mismatch: {n} != {m}", path)
        for i, (one, other) in enumerate(zip(actual, expected, strict=True)):
            compare(one, other, options, (*path, i))
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            missing, more = set(expected) - set(actual), set(actual) - set(expected)
            raise Different(
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(missing, key=repr)}\n"
                f"Additional keys in the actual mapping: {sorted(more, key=repr)}",
                path,
            )
        for key in actual:
            compare(actual[key], expected[key], options, (*path, key))
    elif isinstance(actual, Number) and isinstance(expected, Number):
        numbers_close(actual, expected, options, path)
    else:
        insist_on_related(actual, expected, options.allow_subclasses, path)
        tensors_close(tensor_of(actual), tensor_of(expected), options, path)


def insist_on_related(actual: Any, expected: Any, subclasses: bool, path: tuple[Any, ...]) -> None:
    """Raises TypeError unless the two are of one class, or one's class is the other's base."""
    one, other = (Tensor if isinstance(v, SparseTensor) else type(v) for v in (actual, expected))
    related = issubclass(one, other) or issubclass(other, one) if subclasses else one is other
    if not related or is_text(actual):
        raise TypeError(
            f"assert_close: no way to compare {one.__name__} and {other.__name__} (at "
            f"{list(path)}): {actual!r:.60}, {expected!r:.60}"
        )


def is_text(value: Any) -> bool:
    return isinstance(value, str | bytes)


def is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not is_text(value) and not isinstance(value, Tensor)


def tensor_of(value: Any) -> Any:
    """A tensor (sparse or not), or an array or another thing that one can be made of.

    Raises:
        TypeError: none can.
    """
    if isinstance(value, Tensor | SparseTensor):
        return value.detach()
    try:
        return as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"assert_close: no tensor can be made of {type(value)}: {error}") from None


def numbers_close(actual: Any, expected: Any, options: Options, path: tuple[Any, ...]) -> None:
    """Two numbers; NumPy's are what they are in Python."""
    actual, expected = (v.item() if isinstance(v, np.generic) else v for v in (actual, expected))
    kinds = type(actual), type(expected)
    if options.check_dtype and kinds[0] is not kinds[1]:
        raise Different(f"The (d)types do not match: {kinds[0]} != {kinds[1]}.", path)
    rtol, atol = options.tolerances(*(NUMBERS.get(kind, kind.__name__) for kind in kinds))
    if options.equal_nan and actual != actual and expected != expected:
        return
    gap, size = abs(actual - expected), abs(expected)
    if actual != expected and not (math.isfinite(size) and gap <= atol + rtol * size):
        raise Different(of_scalars(actual, expected, rtol, atol), path)


def of_scalars(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    """How far two numbers are apart."""
    if isinstance(actual, bool) and isinstance(expected, bool):
        return f"Booleans mismatch: {actual} is not {expected}"
    gap, size = abs(actual - expected), abs(expected)
    return (
        f"Scalars are not {'close' if rtol or atol else 'equal'}!\n\n"
        f"Expected {expected} but got {actual}.\n"
        f"Absolute difference: {gap}{allowed(atol, rtol, atol)}\n"
        f"Relative difference: {gap / size if size else math.inf}{allowed(rtol, rtol, atol)}"
    )


def allowed(limit: float, rtol: float, atol: float) -> str:
    """What follows a difference, where any is allowed."""
    return f" (up to {limit} allowed)" if rtol or atol else ""


def tensors_close(actual: Any, expected: Any, options: Options, path: tuple[Any, ...]) -> None:
    """Two tensors: their attributes, then their elements."""
    checked: list[tuple[str, bool, Callable[[Any], Any]]] = [
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
    for name, asked, of in checked:
        if asked and of(actual) != of(expected):
            found = f"{of(actual)} != {of(expected)}"
            raise Different(f"The values for attribute '{name}' do not match: {found}.", path)
    rtol, atol = options.tolerances(actual.dtype.name, expected.dtype.name)
    x, y = ((v.to_dense() if v.is_sparse else v).array for v in (actual, expected))
    close = is_close(x, y, rtol, atol, options.equal_nan)
    if not close.all():
        raise Different(described(x, y, close, rtol, atol), path)


def is_close(x: Any, y: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    """Which elements are close: compared as they are, or in double."""
    with np.errstate(all="ignore"):
        close = x == y
        if equal_nan:
            close |= (x != x) & (y != y)
        if rtol or atol:
            x, y = widened(x, y)
            gap, size = np.abs(x - y), np.abs(y)
            close |= np.isfinite(size) & (gap <= atol + rtol * size)
    return np.asarray(close)


def widened(x: Any, y: Any) -> tuple[Any, Any]:
    """Both in double."""
    dtype = np.complex128 if "c" in x.dtype.kind + y.dtype.kind else np.float64
    return x.astype(dtype), y.astype(dtype)


def described(x: Any, y: Any, close: Any, rtol: float, atol: float) -> str:
    """How many elements differ, and where most."""
    if not close.ndim:
        return of_scalars(x.item(), y.item(), rtol, atol)
    if set(x.dtype.kind + y.dtype.kind) <= set("biu"):  # differences of int64 do not fit in one
        whole = ([int(v) for v in each.flat] for each in (x, y))
        gap = np.array([abs(a - b) for a, b in zip(*whole, strict=True)], object).reshape(x.shape)
    else:
        a, b = widened(x, y)
        with np.errstate(all="ignore"):
            gap = np.abs(a - b)
    with np.errstate(all="ignore"):
        relative = gap.astype(np.float64) / np.abs(widened(y, y)[0])
    wrong = int(close.size - np.count_nonzero(close))
    lines = []
    for name, values, limit in (("absolute", gap, atol), ("relative", relative, rtol)):
        values = np.where(close, 0, values)
        place = np.unravel_index(int(np.argmax(values)), values.shape)
        at = tuple(int(i) for i in place)
        lines.append(
            f"Greatest {name} difference: {values[place]} at index {at}{allowed(limit, rtol, atol)}"
        )
    share = f"{wrong} / {close.size} ({wrong / close.size:.1%})"
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

    Args:
        shape: its sizes, one after the other or as one sequence.
        low, high: by default -9 and 9 (of complex numbers for both parts), of unsigned numbers 0
            and 10, of whole ones -9 and 10, of bool 0 and 2.
        noncontiguous: every second element of memory twice as long.
        exclude_zero: zeros become 1 or the smallest positive normal number.

    Raises:
        ValueError: low is not below high, or noncontiguous is asked for with a memory format.
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else tuple(shape)
    dtype = as_dtype(dtype)
    kind = "f" if dtype == bfloat16 else dtype.kind
    first, last = {"b": (0, 2), "u": (0, 10), "i": (-9, 10)}.get(kind, (-9.0, 9.0))
    low, high = first if low is None else low, last if high is None else high
    if not low < high:
        raise ValueError(f"make_tensor: low must be below high: {low}, {high}")
    if noncontiguous and memory_format is not None:
        raise ValueError(f"make_tensor: noncontiguous goes without memory_format: {memory_format}")
    room = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous and sizes else sizes
    if kind in "biu":
        found = functions.randint(math.ceil(low), math.ceil(high), room).to(dtype)
    else:
        wide = functions.rand(*room, 2, dtype=np.float64) if kind == "c" else None
        parts = functions.rand(room, dtype=np.float64) if wide is None else wide
        parts = parts * (high - low) + low
        found = (parts if wide is None else functions.view_as_complex(parts)).to(dtype)
    if noncontiguous and sizes:
        found = found[..., ::2]
    if exclude_zero:
        tiny = 1 if kind in "biu" else float(finfo(dtype).tiny)
        found.masked_fill_(found == 0, tiny)
    if memory_format is not None:
        found = found.contiguous(memory_format=memory_format)
    made: Tensor = found.to(device).requires_grad_(requires_grad)
    return made
