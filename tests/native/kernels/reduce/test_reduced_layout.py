"""Reductions of any layout equal those of a contiguous copy, bit by bit."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from shmtensor import native

RNG = np.random.default_rng(5)

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, dim: native.sum(x, dim, False),
    "sum, kept": lambda x, dim: native.sum(x, dim, True),
    "product": lambda x, dim: native.prod(x, dim, False),
    "count": lambda x, dim: native.count(x, dim, False),
    "extreme": lambda x, dim: native.minmax(x, dim, False, True),
    "place": lambda x, dim: native.argminmax(x, dim, True, False),
    "variance": lambda x, dim: native.var(x, dim, 1.0, False, False),
    "norm": lambda x, dim: native.norm(x, dim, False, 2),
}

# Rows of contiguous elements at a constant stride, and layouts that only look like it.
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "part": lambda x: x[:, :, :70],
    "part, from the middle": lambda x: x[:, 1:, 3:],
    "every second": lambda x: x[:, ::2],
    "every second, part": lambda x: x[::2, :, :64],
    "short": lambda x: x[:, :, :63],
    "gaps": lambda x: x[:, :, ::2],
    "backwards": lambda x: x[:, ::-1],
    "turned": lambda x: x[:, :, :100].transpose(2, 0, 1),
    "turned, inner": lambda x: x[:, :4].transpose(0, 2, 1),
    "turned, dense": lambda x: x.transpose(1, 0, 2),
    "turned, dense, last first": lambda x: x.transpose(2, 1, 0),
    "turned, dense, first last": lambda x: x.transpose(1, 2, 0),
    "one row": lambda x: x[:1, :1, :90],
    "thin": lambda x: x[:, :1, :90],
    "stretched": lambda x: np.broadcast_to(x[:1, :, :80], (6, 40, 80)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_layout_changes_no_bit(name: str, layout: str) -> None:
    reduce = REDUCTIONS[name]
    dims = [None, 0, 1, 2, (0, 1), (1, 2), (0, 2)]
    for dtype, dim in itertools.product(("f4", "f8", "i8", "i4"), dims):
        if name == "place" and isinstance(dim, tuple):
            continue
        x = (RNG.uniform(0.5, 1.5, (6, 40, 150)) * (1 if dtype[0] == "f" else 9)).astype(dtype)
        part = LAYOUTS[layout](x)
        got, want = reduce(part, dim), reduce(part.copy(), dim)
        assert got is None or got.flags.c_contiguous
        if layout in ("backwards", "gaps", "stretched") or layout.startswith("turned"):
            rough = {"rtol": 1e-5 if dtype == "f4" else 1e-12, "atol": 1e-12}  # another order
            if want is not None:
                np.testing.assert_allclose(got, want, strict=True, **rough)
        elif want is None:
            assert got is None
        else:
            np.testing.assert_array_equal(got, want, strict=True)


@pytest.mark.parametrize("name", ["sum", "product", "extreme", "variance"])
def test_rows_apart_are_not_copied(name: str) -> None:
    x = np.ones((2000, 1500), "f4")
    part = x[:, :1400]
    reduce = REDUCTIONS[name]
    for dim in (0, 1):
        reduce(part, dim)
        tracemalloc.start()
        try:
            reduce(part, dim)
            assert tracemalloc.get_traced_memory()[1] < part.nbytes / 4
            reduce(x[:, ::2], dim)  # gaps within rows need a copy, which is detected
            copied = tracemalloc.get_traced_memory()[1] > part.nbytes / 4
            assert copied == (name != "sum" or dim == 0)
        finally:
            tracemalloc.stop()
