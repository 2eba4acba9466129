"""shmtensor.fft, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import fft
from shmtensor.autograd import gradcheck

RANDOM = np.random.default_rng(3)
REAL = RANDOM.standard_normal((3, 4, 5))
COMPLEX = REAL + 1j * RANDOM.standard_normal((3, 4, 5))
ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
SEVERAL = ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"]
OF_REAL = ("rfft", "ihfft")
NORMS = ["backward", "ortho", "forward"]


def sample(name: str) -> Any:
    return REAL if name.rstrip("n2") in OF_REAL else COMPLEX


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ONE)
def test_one_dimension_is_numpys(name: str, norm: str) -> None:
    for n, dim in ((None, -1), (3, 1), (7, 0)):
        ours = getattr(fft, name)(st.tensor(sample(name)), n, dim, norm)
        theirs = getattr(np.fft, name)(sample(name), n, dim, norm)
        assert ours.shape == theirs.shape
        assert np.allclose(ours.numpy(), theirs)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", SEVERAL)
def test_several_dimensions_are_numpys(name: str, norm: str) -> None:
    x = st.tensor(sample(name))
    dims = (-2, -1) if name.endswith("2") else None
    for s, dim in ((None, dims), ((3, 6), (0, 2)), ((3, 6), (2, 1))):
        ours = getattr(fft, name)(x, s, dim, norm)
        theirs = getattr(np.fft, name)(sample(name), s, range(3) if dim is None else dim, norm)
        assert np.allclose(ours.numpy(), theirs)


def test_hermitian_transforms_are_inverses() -> None:
    for name, inverse in (("hfftn", "ihfftn"), ("hfft2", "ihfft2")):
        x = st.tensor(REAL)
        half = getattr(fft, inverse)(x)
        restored = getattr(fft, name)(half, x.shape if name == "hfftn" else x.shape[1:])
        assert np.allclose(restored.numpy(), REAL)
    assert fft.ihfftn(st.tensor(REAL)).shape == (3, 4, 3)


def test_frames_and_back() -> None:
    x = st.tensor(RANDOM.standard_normal((2, 40)), requires_grad=True)
    window = st.hann_window(8, dtype=st.float64)
    frames = st.stft(x, 8, 2, window=window, return_complex=True)
    padded = np.pad(x.detach().numpy(), ((0, 0), (4, 4)), "reflect")
    rows = np.lib.stride_tricks.sliding_window_view(padded, 8, 1)[:, ::2]
    assert np.allclose(frames.detach().numpy(), np.fft.rfft(rows * window.numpy()).swapaxes(1, 2))
    assert np.allclose(st.istft(frames, 8, 2, window=window).detach().numpy(), x.detach().numpy())
    assert st.istft(frames, 8, 2, window=window, length=50).shape == (2, 50)
    assert x[0].stft(8, return_complex=False).shape == (5, 21, 2)
    assert gradcheck(lambda v: st.view_as_real(v.stft(6, 3, 4, return_complex=True)), (x,))
    spectrum = frames.detach()[:1, :, :6].contiguous().requires_grad_()
    assert gradcheck(lambda v: v.istft(8, 2, window=window), (spectrum,))
    with pytest.raises(RuntimeError, match="return_complex"):
        st.stft(x, 8)
    with pytest.raises(RuntimeError, match="leave gaps"):
        st.istft(frames, 8, 8, window=window, center=False)
    with pytest.raises(RuntimeError, match="win_length"):
        st.stft(x, 8, window=window[:3], return_complex=True)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segments(reduce: str) -> None:
    x = st.tensor(RANDOM.standard_normal((6, 2)), requires_grad=True)
    result = st.segment_reduce(x, reduce, lengths=st.tensor([1, 3, 2]))
    at = st.segment_reduce(x, reduce, offsets=st.tensor([0, 1, 4, 6]))
    function = getattr(np, reduce)
    parts = [function(p, 0) for p in np.split(x.detach().numpy(), [1, 4])]
    assert np.allclose(result.detach().numpy(), parts)
    assert at.equal(result)
    assert gradcheck(lambda v: st.segment_reduce(v, reduce, lengths=[2, 4]), (x,))
    inner = st.segment_reduce(x.T, reduce, lengths=st.tensor([[4, 2], [1, 5]]), axis=1)
    assert inner.shape == (2, 2)
    empty = st.segment_reduce(x, reduce, lengths=[0, 6], initial=2.0)
    assert empty[0].tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="sum to the size"):
        st.segment_reduce(x, reduce, lengths=[1, 2])


def test_shifts_and_frequencies() -> None:
    x = st.tensor(REAL)
    assert np.array_equal(fft.fftshift(x).numpy(), np.fft.fftshift(REAL))
    assert np.array_equal(fft.ifftshift(x, 1).numpy(), np.fft.ifftshift(REAL, 1))
    assert np.allclose(fft.fftfreq(5, 0.5).numpy(), np.fft.fftfreq(5, 0.5))
    assert np.allclose(fft.rfftfreq(6, dtype=st.float64).numpy(), np.fft.rfftfreq(6))
    assert fft.fftfreq(4, requires_grad=True).requires_grad


def test_dtypes_and_wrong_use() -> None:
    assert fft.fft(st.arange(4)).dtype == st.complex64
    assert fft.rfft(st.ones(4, dtype=st.float64)).dtype == st.complex128
    assert fft.irfft(st.ones(4, dtype=st.complex64)).dtype == st.float32
    x = st.ones(2, 3)
    with pytest.raises(RuntimeError, match="invalid number of data points"):
        fft.fft(x, 0)
    with pytest.raises(RuntimeError, match="unique"):
        fft.fftn(x, dim=(0, 0))
    with pytest.raises(RuntimeError, match="real input"):
        fft.rfft(x * 1j)
    with pytest.raises(IndexError, match="out of range"):
        fft.fft(x, dim=2)
    with pytest.raises(RuntimeError, match="normalization mode"):
        fft.fft(x, norm="best")
    with pytest.raises(AttributeError, match="no attribute"):
        fft.nothing  # noqa: B018
