"""Special functions on CuPy's arrays at the ends of their domains, against the CPU's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shmtensor import cupy_runtime
from shmtensor.autograd.dispatch.op_function import declare, table
from shmtensor.ops import ROWS
from tests.cuda.standin.install import ON_GPU

UNARY = """erf erfc erfinv lgamma digamma i0 i1 special_i0e special_i1e special_ndtr
    special_log_ndtr special_ndtri special_erfcx special_bessel_j0 special_bessel_j1
    special_bessel_y0 special_bessel_y1 special_modified_bessel_k0 special_modified_bessel_k1
    special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1
    special_spherical_bessel_j0 special_airy_ai""".split()  # noqa: SIM905
SIZES = [0.0, 1e-20, 1e-5, 0.3, 0.5, 0.97, 1.0, 1.7, 2.0, 4.5, 7.9, 8.1, 12.3, 25.5, 31.0, 90.0]
SIZES += [300.5, 699.0, np.inf, np.nan]
EDGES = np.array([*SIZES, *(-x for x in SIZES)])

OSCILLATING = ("special_bessel_j0", "special_bessel_j1", "special_bessel_y0", "special_bessel_y1")
POLES = ("lgamma", "digamma")  # at whole numbers below 0


@pytest.mark.parametrize("name", UNARY)
def test_ends_of_the_domain(cp: Any, name: str) -> None:
    declare()
    cupy_runtime.initialize()
    for dtype, close in (("float64", 1e-10), ("float32", 2e-5)):
        x = EDGES.astype(dtype)
        if name in POLES:
            x = x[(x >= 0) | (x != np.floor(x))]
        with np.errstate(all="ignore"):
            expected = getattr(table.arrays, name)(x)
        ours = ROWS[name].device_forwards["cuda"](cp, cp.asarray(x))
        assert ours.dtype == expected.dtype
        tiny = 100 * float(np.finfo(dtype).tiny)
        if ON_GPU and name in OSCILLATING:
            # CUDA's are right to an error of their amplitude, which is at most 1 from 1 on, not of
            # the value: that is small near a zero.
            tiny = close / 20
        np.testing.assert_allclose(ours.get(), expected, close, tiny, err_msg=f"{name} {dtype}")


@pytest.mark.parametrize("name", ["special_zeta", "special_gammainc", "special_gammaincc"])
def test_ends_of_two_domains(cp: Any, name: str) -> None:
    declare()
    cupy_runtime.initialize()
    ends = np.array([0.0, 0.5, 1.0, 1.5, 3.0, 20.0, np.inf, np.nan, -0.5, -2.0])
    x, y = (v.reshape(-1) for v in np.meshgrid(ends, ends))
    if name == "special_zeta":  # of infinity the CPU's is NaN, CuPy's the limit, as PyTorch's
        x, y = x[x != np.inf], y[x != np.inf]
    with np.errstate(all="ignore"):
        expected = getattr(table.arrays, name)(x, y)
    ours = ROWS[name].device_forwards["cuda"](cp, cp.asarray(x), cp.asarray(y)).get()
    np.testing.assert_allclose(ours, expected, 1e-10, 1e-300, err_msg=f"{name}({x}, {y})")
