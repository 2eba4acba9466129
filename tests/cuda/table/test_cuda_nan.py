"""NaN, infinities and signed zeros on CUDA: the CPU's order, positions and results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from tests.cuda.table.device_tensors import compare_calls

NAN, INF = np.nan, np.inf
X = np.array(
    [[1.0, NAN, -2.0, 5.0, NAN], [3.0, 3.0, INF, -INF, 0.0], [-0.0, 0.0, 2.0, -1.0, 2.0]], "f"
)
Y = np.array(
    [[1.0, 2.0, NAN, 4.0, NAN], [-INF, 3.0, INF, INF, -0.0], [0.0, -0.0, 1.0, 7.0, 2.0]], "f"
)
ORDERED = np.array([-INF, -1.0, 0.0, 2.0, INF, NAN], "f")

ONE: dict[str, Callable[[Any], Any]] = {
    "amax": lambda x: st.amax(x, 1),
    "amin": lambda x: st.amin(x, 1),
    "max": lambda x: tuple(st.max(x, 1)),
    "min": lambda x: tuple(st.min(x, 0)),
    "argmax": lambda x: (st.argmax(x, 1), st.argmax(x)),
    "argmin": lambda x: (st.argmin(x, 1), st.argmin(x)),
    "sort": lambda x: tuple(st.sort(x, 1)),
    "sort, descending": lambda x: tuple(st.sort(x, 1, True)),
    "argsort": lambda x: st.argsort(x, 0),
    "topk": lambda x: tuple(st.topk(x, 3, 1)),
    "topk, smallest": lambda x: tuple(st.topk(x, 3, 1, False)),
    "kthvalue": lambda x: tuple(st.kthvalue(x, 2, 1)),
    "median": lambda x: (*st.median(x, 1), st.median(x)),
    "nanmedian": lambda x: (*st.nanmedian(x, 1), st.nanmedian(x)),
    "mode": lambda x: tuple(st.mode(x[1:], 1)),
    "cummax": lambda x: tuple(st.cummax(x, 1)),
    "cummin": lambda x: tuple(st.cummin(x, 1)),
    "logcumsumexp": lambda x: st.logcumsumexp(x, 1),
    "logsumexp": lambda x: st.logsumexp(x, 1),
    "cumsum": lambda x: st.cumsum(x, 1),
    "nansum": lambda x: st.nansum(x, 1),
    "nanmean": lambda x: st.nanmean(x[::2], 1),
    "quantile": lambda x: st.quantile(x, 0.5, 1),
    "quantiles": lambda x: st.quantile(x[2], st.tensor([0.1, 0.9], device=x.device)),
    "nanquantile": lambda x: st.nanquantile(x[::2], 0.5, 1),
    "any": lambda x: (st.any(x, 1), st.all(x, 1)),
    "count_nonzero": lambda x: st.count_nonzero(x, 1),
    "sign": lambda x: st.sign(x),
    "sgn": lambda x: st.sgn(x),
    "clamp": lambda x: st.clamp(x, -1, 1),
    "nan_to_num": lambda x: st.nan_to_num(x, 7.0),
    "round": lambda x: st.round(x),
    "signbit": lambda x: st.signbit(x),
    "isposinf": lambda x: (st.isposinf(x), st.isneginf(x)),
    "relu": lambda x: st.relu(x),
    "unique": lambda x: st.unique(x[1:]),
    "unique_consecutive": lambda x: st.unique_consecutive(x[1], return_counts=True),
    "hash_tensor": lambda x: st.hash_tensor(x, 1),
    "var": lambda x: st.var(x[2], 0),
    "angle": lambda x: st.angle(x),
    "sqrt": lambda x: x**0.5,
    "rsqrt": lambda x: x**-0.5,
    "roots of strided": lambda x: (x[:, ::2] ** 0.5, x.T**-0.5),
    "x ** 0": lambda x: x**0,
    "half": lambda x: (x.half() ** 0.5, x.half() ** -0.5),
}
TWO: dict[str, Callable[[Any, Any], Any]] = {
    "maximum": st.maximum,
    "minimum": st.minimum,
    "fmax": st.fmax,
    "fmin": st.fmin,
    "eq": st.eq,
    "lt": st.lt,
    "isclose": lambda x, y: st.isclose(x, y, equal_nan=True),
    "remainder": st.remainder,
    "fmod": st.fmod,
    "floor_divide": st.floor_divide,
    "atan2": st.atan2,
    "copysign": st.copysign,
    "nextafter": st.nextafter,
    "logaddexp": st.logaddexp,
    "logaddexp2": st.logaddexp2,
    "hypot": st.hypot,
    "xlogy": st.xlogy,
    "heaviside": st.heaviside,
    "pow": st.pow,
    "lerp": lambda x, y: st.lerp(x, y, 0.25),
    "isin": st.isin,
}
# The names of what PyTorch, and NumPy on the CPU, define for finite numbers only.
WITHOUT_INFINITIES = ("floor_divide", "remainder", "fmod")


@pytest.mark.parametrize("name", ONE)
def test_one_operand(cp: Any, name: str) -> None:
    compare_calls(ONE[name], (X,), name, 0)


@pytest.mark.parametrize("name", TWO)
def test_two_operands(cp: Any, name: str) -> None:
    x, y = (X, Y) if name not in WITHOUT_INFINITIES else (np.nan_to_num(X, posinf=9), Y[:1, :2])
    if name in WITHOUT_INFINITIES:
        x, y = x[:, :2], np.array([2.0, -1.5], "f")
    compare_calls(TWO[name], (x, y), name, 0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_sinc(cp: Any, dtype: str) -> None:
    x = np.array([NAN, INF, -INF, 0.0, -0.0, 0.5, 1.0, -1.25], dtype)
    close = 1e-3 if dtype == "float16" else 1e-6
    compare_calls(lambda x: (st.sinc(x), st.sinc(x[::2])), (x,), "sinc", 0, close)
    compare_calls(st.sinc, (x.astype("complex64")[3:],), "complex", close=1e-6)


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(cp: Any, right: bool) -> None:
    compare_calls(lambda s, x: st.searchsorted(s, x, right=right), (ORDERED, X), "searchsorted", 0)
    half = (ORDERED.astype("float16"), X.astype("float16"))
    compare_calls(lambda s, x: st.bucketize(x, s, right=right), half, "bucketize", 0)
