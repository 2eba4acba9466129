"""The dtypes of arrays by PyTorch's names, the default dtype, and PyTorch's promotion rules.

These are NumPy's objects, which arrays have. Tensors hold arrays of these canonical instances only,
so that the test for equal dtypes of arrays is `is`. Users see the objects in `dtype_objects.py`:
`Tensor.dtype`, `shmtensor.float32`; the test for a tensor's dtype and one of these is `==`. NumPy
has no bfloat16: the core registers one (docs/design/bfloat16.md).
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from . import native

Dtype = np.dtype[Any]

CLASSES = (native.dtype, np.dtype)  # what `to` takes for a dtype by its class

bool: Dtype = np.dtype("bool")
uint8: Dtype = np.dtype("uint8")
uint16: Dtype = np.dtype("uint16")
uint32: Dtype = np.dtype("uint32")
uint64: Dtype = np.dtype("uint64")
int8: Dtype = np.dtype("int8")
int16: Dtype = np.dtype("int16")
int32: Dtype = np.dtype("int32")
int64: Dtype = np.dtype("int64")
float16: Dtype = np.dtype("float16")
bfloat16: Dtype = native.bfloat16_dtype
float32: Dtype = np.dtype("float32")
float64: Dtype = np.dtype("float64")
complex64: Dtype = np.dtype("complex64")
complex128: Dtype = np.dtype("complex128")
half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
cfloat, cdouble = complex64, complex128

ALL = (
    bool, uint8, uint16, uint32, uint64, int8, int16, int32, int64,
    float16, bfloat16, float32, float64, complex64, complex128,
)  # fmt: skip

# Stored in 16 bits and computed with in float32.
HALVES = (float16, bfloat16)

# bool < integers < floats < complex: an operand of a lower category never widens one of a higher.
CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}

# Python's number classes and names that people write for a dtype.
SPELLINGS: dict[Any, Dtype] = {
    builtins.bool: bool,
    builtins.int: int64,
    builtins.float: float64,
    builtins.complex: complex128,
    **{native.dtype(d): d for d in ALL},  # ours, which compares faster than NumPy's
    **{d.type: d for d in ALL},
    "bfloat16": bfloat16,
}

# PyTorch's old names of tensors by dtype; the first ten are classes (legacy_types.py).
TENSOR_TYPES: dict[str, Dtype] = {
    "FloatTensor": float32,
    "DoubleTensor": float64,
    "HalfTensor": float16,
    "BFloat16Tensor": bfloat16,
    "LongTensor": int64,
    "IntTensor": int32,
    "ShortTensor": int16,
    "CharTensor": int8,
    "ByteTensor": uint8,
    "BoolTensor": bool,
    "ComplexFloatTensor": complex64,
    "ComplexDoubleTensor": complex128,
    "UInt16Tensor": uint16,
    "UInt32Tensor": uint32,
    "UInt64Tensor": uint64,
}
NAMES_OF_TYPES = {d: name for name, d in TENSOR_TYPES.items()}

# Whose dtypes, types and constants are printed: `shmtensor.float32`; "torch" under as_torch.
library = "shmtensor"

PROMOTIONS: dict[tuple[Dtype, Dtype], Dtype] = {}

default = float32


def get_default_dtype() -> Dtype:
    """The dtype of new floating tensors: float32 unless set."""
    return default


def set_default_dtype(d: Any) -> None:
    """Sets the dtype of new tensors of floating-point numbers, in all threads.

    Parameters
    ----------
    d : dtype
        A floating-point dtype.

    Raises
    ------
    TypeError
        It is something else.

    See Also
    --------
    get_default_dtype

    Notes
    -----
    Python floats become it in `tensor` and in `full`, and integers in functions such as `exp`.

    Examples
    --------
    >>> st.set_default_dtype(st.float64)
    >>> st.tensor([1.5]).dtype
    shmtensor.float64
    >>> st.set_default_dtype(st.float32)
    """
    global default
    new_default = as_dtype(d)
    if new_default.kind != "f":
        raise TypeError(
            f"set_default_dtype: only floating-point types are supported: {new_default}"
        )
    default = new_default
    native.forget_promotions()


def default_complex() -> Dtype:
    """The complex dtype whose parts have the default dtype."""
    return complex128 if default is float64 else complex64


def as_dtype(spelling: Any) -> Dtype:
    """The canonical dtype for any spelling: a dtype, a NumPy scalar class, a Python class, a name.

    Raises:
        TypeError: no tensor can have it.
    """
    try:
        result = SPELLINGS.get(spelling)
        if result is None:
            if hasattr(type(spelling), "__array__"):
                raise TypeError  # for a tensor NumPy warns or raises another error, by its version
            other = np.dtype(spelling)
            result = bfloat16 if is_bfloat16(other) else SPELLINGS[other]
    except (TypeError, KeyError):
        raise TypeError(
            f"dtype: not a dtype that tensors can have: {spelling!r}, they can have "
            f"{', '.join(str(d) for d in ALL)}"
        ) from None
    return result


def of_tensor_type(spelling: Any) -> Dtype:
    """The dtype of an old name (`FloatTensor`, "shmtensor.LongTensor"), or as `as_dtype`.

    Raises:
        TypeError: no tensor can have it.
        ValueError: there is no such name.
    """
    name = spelling if isinstance(spelling, str) else getattr(spelling, "__name__", "")
    if not name.endswith("Tensor"):
        return as_dtype(spelling)
    result = TENSOR_TYPES.get(name.rpartition(".")[2])
    if result is None:
        raise ValueError(f"invalid type: {name!r}, one of {', '.join(TENSOR_TYPES)} is needed")
    return result


def of_number(cls: type) -> Dtype:
    """The dtype of a Python number of this class: the default dtype for `float`. (As a dtype,
    `float` means float64, and `complex` complex128.)
    """
    if cls is builtins.float:
        return default
    return default_complex() if cls is builtins.complex else as_dtype(cls)


def is_bfloat16(d: Dtype) -> builtins.bool:
    """Whether a dtype is bfloat16: ours, a copy of ours, or another library's (ml_dtypes)."""
    return d.itemsize == 2 and d.isbuiltin == 2 and d.name == "bfloat16"


def category(d: Dtype) -> builtins.int:
    """0 for bool, 1 integers, 2 floats, 3 complex."""
    return CATEGORY[d.kind]


def promote_types(type1: Any, type2: Any) -> Dtype:
    """The smallest dtype that holds both as PyTorch sees it: int64 with float32 is float32."""
    a, b = as_dtype(type1), as_dtype(type2)
    result = PROMOTIONS.get((a, b))
    if result is None:
        result = PROMOTIONS[a, b] = promote(a, b)
    return result


def promote(a: Dtype, b: Dtype) -> Dtype:
    if a is b:
        return a
    if bfloat16 in (a, b):
        return promote_bfloat16(a if b is bfloat16 else b)
    low, high = sorted((a, b), key=category)
    if category(low) < category(high):
        # The precision of the float counts: float64 with complex64 is complex128.
        if low.kind == "f":
            return as_dtype(np.result_type(low, high))
        return high
    common = np.result_type(a, b)
    if category(common) != category(a):  # uint64 with a signed integer: NumPy gives a float
        raise RuntimeError(f"promotion: no integer dtype holds both: {a} and {b}, cast one of them")
    return as_dtype(common)


def promote_bfloat16(other: Dtype) -> Dtype:
    """bfloat16 with another dtype; float16 and bfloat16 give float32, which holds both."""
    if category(other) < category(bfloat16):
        return bfloat16
    return float32 if other is float16 else other


def can_cast(from_: Any, to: Any) -> builtins.bool:
    """Whether a result of one dtype may be written into a tensor of another.

    Parameters
    ----------
    from_ : dtype
        The dtype of the result.
    to : dtype
        The dtype of the tensor.

    Returns
    -------
    bool
        False if the kind of number would be lower: complex, floating point, integer, bool.

    See Also
    --------
    promote_types

    Examples
    --------
    >>> st.can_cast(st.int64, st.float16), st.can_cast(st.float32, st.int64)
    (True, False)
    """
    return category(as_dtype(from_)) <= category(as_dtype(to))


class Bfloat16:
    """Limits of bfloat16, by NumPy's names: 8 bits exponent, 8 bits precision (7 stored)."""

    bits = 16
    eps = 2.0**-7
    max = (2 - 2.0**-7) * 2.0**127
    min = -max
    tiny = 2.0**-126
    resolution = 0.01


class finfo:
    """The limits of a floating-point dtype.

    Parameters
    ----------
    type : dtype, optional
        The dtype, of complex numbers that of their parts; the default dtype if it is None.

    Raises
    ------
    TypeError
        It is an integer dtype.

    See Also
    --------
    iinfo

    Notes
    -----
    Attributes: `bits`, `eps` (the distance from 1 to the next number), `max`, `min`, `tiny` and
    `smallest_normal` (the smallest normal number), `resolution`, `dtype` (its name).

    Examples
    --------
    >>> st.finfo(st.float16).max
    65504.0
    >>> st.finfo(st.float32).eps == 2 ** -23
    True
    """

    def __init__(self, type: Any = None) -> None:
        d = default if type is None else as_dtype(type)
        if d.kind not in "fc":
            raise TypeError(f"finfo: a floating-point dtype is needed, use iinfo: {d}")
        info: Any = Bfloat16 if d is bfloat16 else np.finfo(d)
        self.bits = builtins.int(info.bits)
        self.eps = builtins.float(info.eps)
        self.max = builtins.float(info.max)
        self.min = builtins.float(info.min)
        self.tiny = self.smallest_normal = builtins.float(info.tiny)
        self.resolution = builtins.float(info.resolution)
        self.dtype = str(d)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )


class iinfo:
    """The limits of an integer dtype.

    Parameters
    ----------
    type : dtype
        The dtype.

    Raises
    ------
    TypeError
        It is not an integer dtype.

    See Also
    --------
    finfo

    Notes
    -----
    Attributes: `bits`, `max`, `min`, `dtype` (its name).

    Examples
    --------
    >>> st.iinfo(st.int8).min, st.iinfo(st.int8).max
    (-128, 127)
    """

    def __init__(self, type: Any) -> None:
        d = as_dtype(type)
        if d.kind not in "iu":
            raise TypeError(f"iinfo: an integer dtype is needed, use finfo: {d}")
        info = np.iinfo(d)
        self.bits = builtins.int(info.bits)
        self.max = builtins.int(info.max)
        self.min = builtins.int(info.min)
        self.dtype = str(d)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
