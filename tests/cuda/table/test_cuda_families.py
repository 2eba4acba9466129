"""Calls on CUDA that the op table has no case for, and masked reductions, beside the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import masked
from tests.cuda.table.device_tensors import compare_calls

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(3, 4)).astype("f")
Y = RANDOM.normal(size=(3, 4)).astype("f")
Z = (RANDOM.normal(size=(3, 4)) + 1j * RANDOM.normal(size=(3, 4))).astype(np.complex64)
LINE = RANDOM.normal(size=(2, 20)).astype("f")
MASK = RANDOM.random((3, 4)) < 0.6
POINTS = RANDOM.uniform(-1, 1, (20, 2)).astype("f")
Q = np.array([0.1, 0.5, 0.85], "f")
ZEROS = np.array([[1.0, 0.0, 2.0, 0.0], [0.5, -1.0, 0.0, 2.0], [1.0, 1.0, 1.0, 1.0]], "f")

# name: (function, arrays)
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "segment means": (
        lambda x: st.segment_reduce(x, "mean", offsets=st.tensor([0, 1, 3], device=x.device)),
        (X,),
    ),
    "gradient, uneven": (
        lambda x: st.gradient(x, spacing=[st.tensor([0.0, 1.0, 1.5, 3.0], device=x.device)], dim=1),
        (X,),
    ),
    "histogram": (lambda x: tuple(st.histogram(x.detach(), 5)), (LINE,)),
    "histogram, weighted": (
        lambda x, w: tuple(
            st.histogram(x.detach(), 4, range=(-1, 1), weight=w.detach(), density=True)
        ),
        (LINE, LINE * LINE),
    ),
    "histogram by edges": (
        lambda x: tuple(st.histogram(x.detach(), st.tensor([-1.0, 0.0, 2.0], device=x.device))),
        (LINE,),
    ),
    "histogramdd": (lambda x: [*st.histogramdd(x.detach(), [2, 3])], (POINTS,)),
    "quantile of all": (lambda x: st.quantile(x, 0.5, interpolation="nearest"), (X,)),
    "quantiles, midpoint": (lambda x, q: st.quantile(x, q, 1, interpolation="midpoint"), (X, Q)),
    "cov, weighted": (lambda x: st.cov(x, fweights=st.tensor([1, 2, 3, 1], device=x.device)), (X,)),
    "renorm of complex": (lambda x: st.renorm(x, 1, 1, 2.0), (Z,)),
    "prod with zeros": (lambda x: st.prod(x, 1), (ZEROS,)),
    "prod of all, with zeros": (lambda x: st.prod(x[0]), (ZEROS,)),
    "cumprod with zeros": (lambda x: st.cumprod(x, 1), (ZEROS,)),
    "logcumsumexp of complex": (lambda x: st.logcumsumexp(x, 1), (Z,)),
    "powers of integers": (
        lambda x: ((x * 3).int() ** 3, 2 ** (x.abs() * 3).int(), (x * 3).int() ** (x > 0).int()),
        (X,),
    ),
    "div": (
        lambda x, y: (
            st.div(x, y.abs() + 1, rounding_mode="floor"),
            st.div((x * 9).int(), (y.abs() + 1).int(), rounding_mode="trunc"),
        ),
        (X, Y),
    ),
    "rank of a matrix": (lambda x: st.linalg.matrix_rank(x), (X,)),
    "median of nothing": (lambda x: st.median(x[:0]), (X,)),
}
MASKED = ("sum", "prod", "mean", "amax", "amin", "var", "std", "logsumexp")
ALONG = ("cumsum", "cumprod", "median", "softmax", "log_softmax", "softmin")


@pytest.mark.parametrize("name", CASES)
def test_family_on_cuda_is_the_cpus(cp: Any, name: str) -> None:
    function, arrays = CASES[name]
    compare_calls(function, arrays, name, 1, 2e-4)


@pytest.mark.parametrize("name", [*MASKED, *ALONG])
def test_masked_on_cuda_is_the_cpus(cp: Any, name: str) -> None:
    function = getattr(masked, name)
    compare_calls(
        lambda x: function(x, 1, mask=st.tensor(MASK).to(x.device)), (X,), f"masked.{name}", 1
    )
