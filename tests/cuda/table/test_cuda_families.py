"""Transforms, masked reductions, histograms, quantiles on CUDA, beside the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import fft, masked
from tests.cuda.table.device_tensors import compare_calls

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(3, 4)).astype("f")
Y = RANDOM.normal(size=(3, 4)).astype("f")
V = RANDOM.normal(size=4).astype("f")
Z = (RANDOM.normal(size=(3, 4)) + 1j * RANDOM.normal(size=(3, 4))).astype(np.complex64)
LINE = RANDOM.normal(size=(2, 20)).astype("f")
MASK = RANDOM.random((3, 4)) < 0.6
POINTS = RANDOM.uniform(-1, 1, (20, 2)).astype("f")
Q = np.array([0.1, 0.5, 0.85], "f")
ZEROS = np.array([[1.0, 0.0, 2.0, 0.0], [0.5, -1.0, 0.0, 2.0], [1.0, 1.0, 1.0, 1.0]], "f")

# name: (function, arrays)
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "fft": (lambda x: fft.fft(x, 6, 0, "ortho"), (X,)),
    "ifft": (lambda x: fft.ifft(x), (Z,)),
    "rfft": (lambda x: fft.rfft(x, 5), (X,)),
    "irfft": (lambda x: fft.irfft(x, 5, norm="forward"), (Z,)),
    "hfft": (lambda x: fft.hfft(x), (Z,)),
    "ihfft": (lambda x: fft.ihfft(x), (X,)),
    "fftn": (lambda x: fft.fftn(x), (X,)),
    "ifft2": (lambda x: fft.ifft2(x, (2, 5)), (Z,)),
    "rfftn": (lambda x: fft.rfftn(x), (X,)),
    "irfft2": (lambda x: fft.irfft2(x), (Z,)),
    "hfftn": (lambda x: fft.hfftn(x), (Z,)),
    "ihfft2": (lambda x: fft.ihfft2(x), (X,)),
    "fftshift": (lambda x: fft.ifftshift(fft.fftshift(x, 1)), (X,)),
    "stft": (
        lambda x: st.stft(x, 8, window=st.hann_window(8, device=x.device), return_complex=True),
        (LINE,),
    ),
    "istft": (
        lambda x: st.istft(st.stft(x, 8, return_complex=True), 8, length=20),
        (LINE,),
    ),
    "segment_reduce": (
        lambda x: st.segment_reduce(x, "max", lengths=st.tensor([1, 0, 2], device=x.device)),
        (X,),
    ),
    "segment means": (
        lambda x: st.segment_reduce(x, "mean", offsets=st.tensor([0, 1, 3], device=x.device)),
        (X,),
    ),
    "gradient": (lambda x: st.gradient(x, spacing=0.5, edge_order=2), (X,)),
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
    "histogramdd": (
        lambda x: [*st.histogramdd(x.detach(), [2, 3])],
        (POINTS,),
    ),
    "histc": (lambda x: st.histc(x.detach(), 6, -1, 1), (LINE,)),
    "bincount": (
        lambda w: st.bincount(st.tensor([0, 2, 1, 2], device=w.device), w.detach(), 5),
        (V,),
    ),
    "quantile": (lambda x: st.quantile(x, 0.3, 1, True), (X,)),
    "quantile of all": (lambda x: st.quantile(x, 0.5, interpolation="nearest"), (X,)),
    "quantiles": (lambda x, q: st.quantile(x, q, 0), (X, Q)),
    "quantiles, midpoint": (lambda x, q: st.quantile(x, q, 1, interpolation="midpoint"), (X, Q)),
    "nanquantile": (lambda x: st.nanquantile(x, 0.4, 1, True), (X,)),
    "cov": (lambda x: (st.cov(x), st.corrcoef(x)), (X,)),
    "cov, weighted": (
        lambda x: st.cov(x, fweights=st.tensor([1, 2, 3, 1], device=x.device)),
        (X,),
    ),
    "combinations": (lambda v: st.combinations(v, 3, True), (V,)),
    "cross": (lambda x, y: st.cross(x[:, :3], y[:, :3], 1), (X, Y)),
    "renorm": (lambda x: st.renorm(x, 2, 0, 1.0), (X,)),
    "renorm of complex": (lambda x: st.renorm(x, 1, 1, 2.0), (Z,)),
    "prod with zeros": (lambda x: st.prod(x, 1), (ZEROS,)),
    "prod of all, with zeros": (lambda x: st.prod(x[0]), (ZEROS,)),
    "cumprod with zeros": (lambda x: st.cumprod(x, 1), (ZEROS,)),
    "logcumsumexp of complex": (lambda x: st.logcumsumexp(x, 1), (Z,)),
    "trapezoid": (lambda y, x: st.trapezoid(y, x), (X, np.sort(V))),
    "diff": (lambda x: st.diff(x, 2, 1), (X,)),
    "isin": (lambda x: (st.isin(x, 0.5), st.isin(x.int(), st.ones_like(x).int())), (X,)),
    "fill": (lambda x: st.fill(x, 2), (X,)),
    "constant_pad_nd": (lambda x: st.constant_pad_nd(x, (1, 2, -1, 1), 3.5), (X,)),
    "meshgrid": (lambda v: st.meshgrid(v, v[:2], indexing="xy"), (V,)),
    "float_power": (lambda x: st.float_power(x, 2), (X,)),
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
    "ldexp": (lambda x: st.ldexp(x, (x * 3).int()), (X,)),
    "frexp": (lambda x: tuple(st.frexp(x)), (X,)),
    "polar": (lambda x, y: st.polar(x.abs() + 1, y), (X, Y)),
    "view_as_real": (lambda x: st.view_as_real(x), (Z,)),
    "complex": (lambda x, y: st.complex(x, y), (X, Y)),
    "real and imag": (lambda x: (x.real, x.imag), (Z,)),
    "unique by rows": (lambda x: st.unique((x > 0).int(), return_counts=True, dim=0), (X,)),
    "mode": (lambda x: tuple(st.mode((x * 2).round(), 1)), (X,)),
    "median of nothing": (lambda x: st.median(x[:0]), (X,)),
    "polygamma": (lambda x: st.polygamma(2, x.abs() + 0.5), (X,)),
    "mvlgamma": (lambda x: st.mvlgamma(x.abs() + 2, 3), (X,)),
    "logit": (lambda x: st.logit(x.sigmoid(), 0.2), (X,)),
    "norm": (lambda x: (st.norm(x, 1), st.norm(x, 3, 1), st.norm(x, float("inf"), 0)), (X,)),
    "dist": (lambda x, y: st.dist(x, y, 3), (X, Y)),
    "var_mean": (lambda x: (*st.var_mean(x, 1), *st.std_mean(x)), (X,)),
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
