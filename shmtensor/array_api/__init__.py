"""shmtensor as a namespace of the Python array API standard, 2023.12: `x.__array_namespace__()`.

A function with PyTorch's meaning is PyTorch's function, under the standard's name; the others are
written here. The standard's extensions (linalg, fft) are missing. All functions are differentiable,
except those of sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import functions
from ..dtypes import finfo as finfo
from ..dtypes import iinfo as iinfo
from ..tensor.torch_constants import e as e
from ..tensor.torch_constants import inf as inf
from ..tensor.torch_constants import nan as nan
from ..tensor.torch_constants import newaxis as newaxis
from ..tensor.torch_constants import pi as pi
from . import creation, dtypes, info, reductions, reshape_index, sort_unique

__array_api_version__ = "2023.12"
__array_namespace_info__ = info.__array_namespace_info__

# The standard's names and PyTorch's.
PYTORCH_NAMES = {
    "acos": "acos", "acosh": "acosh", "add": "add", "asin": "asin", "asinh": "asinh",
    "atan": "atan", "atan2": "atan2", "atanh": "atanh", "bitwise_and": "bitwise_and",
    "bitwise_invert": "bitwise_not", "bitwise_left_shift": "bitwise_left_shift",
    "bitwise_or": "bitwise_or", "bitwise_right_shift": "bitwise_right_shift",
    "bitwise_xor": "bitwise_xor", "ceil": "ceil", "conj": "conj", "copysign": "copysign",
    "cos": "cos", "cosh": "cosh", "divide": "div", "equal": "eq", "exp": "exp", "expm1": "expm1",
    "floor": "floor", "floor_divide": "floor_divide", "greater": "gt", "greater_equal": "ge",
    "hypot": "hypot", "imag": "imag", "isfinite": "isfinite", "isinf": "isinf", "isnan": "isnan",
    "less": "lt", "less_equal": "le", "log": "log", "log10": "log10", "log1p": "log1p",
    "log2": "log2", "logaddexp": "logaddexp", "logical_and": "logical_and",
    "logical_not": "logical_not", "logical_or": "logical_or", "logical_xor": "logical_xor",
    "matmul": "matmul", "maximum": "maximum", "minimum": "minimum", "multiply": "mul",
    "negative": "neg", "nextafter": "nextafter", "not_equal": "ne", "positive": "positive",
    "pow": "pow", "real": "real", "reciprocal": "reciprocal", "remainder": "remainder",
    "round": "round", "sign": "sgn", "signbit": "signbit", "sin": "sin", "sinh": "sinh",
    "sqrt": "sqrt", "square": "square", "subtract": "sub", "tan": "tan", "tanh": "tanh",
    "trunc": "trunc", "abs": "abs", "tile": "tile",
}  # fmt: skip
BINARY = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
copysign divide equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and
logical_or logical_xor matmul maximum minimum multiply nextafter not_equal pow remainder
subtract""".split()  # noqa: SIM905
PRIVATE = {"sizes", "Axis"}
MODULES = (creation, dtypes, reshape_index, reductions, sort_unique)

names = {name: getattr(functions, pytorch_name) for name, pytorch_name in PYTORCH_NAMES.items()}
names |= {name: dtypes.same_category(names[name]) for name in BINARY}
names |= {n: getattr(module, n) for module in MODULES for n in module.__all__ if n not in PRIVATE}
names |= info.DTYPES
globals().update(names)

if TYPE_CHECKING:
    from ._names import *  # noqa: F403


__all__ = [
    *names, "e", "finfo", "iinfo", "inf", "nan", "newaxis", "pi"
]  # fmt: skip
