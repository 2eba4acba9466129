"""New tensors on CUDA: by `device=`, by the default device, in the shape of other tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import fft

CALLS: dict[str, Callable[..., Any]] = {
    "zeros": lambda **kw: st.zeros(2, 3, **kw),
    "zeros of int64": lambda **kw: st.zeros((2, 3), dtype=st.int64, **kw),
    "ones": lambda **kw: st.ones(2, 3, **kw),
    "full": lambda **kw: st.full((2, 3), 1.5, **kw),
    "full of complex": lambda **kw: st.full((2,), 1 + 2j, **kw),
    "full of uint8": lambda **kw: st.full((2,), -9, dtype=st.uint8, **kw),
    "full of bool": lambda **kw: st.full((2,), True, **kw),
    "arange": lambda **kw: st.arange(7, **kw),
    "arange by steps": lambda **kw: st.arange(1, 0, -0.125, **kw),
    "arange of int32": lambda **kw: st.arange(0, -4.5, -2, dtype=st.int32, **kw),
    "range": lambda **kw: st.range(1, 4, 0.5, **kw),
    "linspace": lambda **kw: st.linspace(-1, 3, 7, **kw),
    "linspace of one": lambda **kw: st.linspace(-1, 3, 1, **kw),
    "linspace of int64": lambda **kw: st.linspace(0, 10, 4, dtype=st.int64, **kw),
    "linspace of complex": lambda **kw: st.linspace(0, 1j, 5, **kw),
    "logspace": lambda **kw: st.logspace(-2, 2, 9, **kw),
    "logspace to the base 2": lambda **kw: st.logspace(0, 5, 6, 2.0, **kw),
    "eye": lambda **kw: st.eye(3, 4, **kw),
    "hann_window": lambda **kw: st.hann_window(9, **kw),
    "hamming_window": lambda **kw: st.hamming_window(9, False, **kw),
    "blackman_window": lambda **kw: st.blackman_window(8, **kw),
    "bartlett_window": lambda **kw: st.bartlett_window(8, **kw),
    "kaiser_window": lambda **kw: st.kaiser_window(8, **kw),
    "kaiser_window of one": lambda **kw: st.kaiser_window(1, **kw),
    "fftfreq": lambda **kw: fft.fftfreq(6, 0.5, **kw),
    "rfftfreq": lambda **kw: fft.rfftfreq(7, **kw),
    "hann_window of none": lambda **kw: st.hann_window(0, **kw),
    "hann_window of float64": lambda **kw: st.hann_window(5, dtype=st.float64, **kw),
    "tril_indices": lambda **kw: st.tril_indices(3, 4, **kw),
    "tril_indices by offset": lambda **kw: st.tril_indices(5, 3, -2, dtype=st.int32, **kw),
    "tril_indices, whole rows": lambda **kw: st.tril_indices(4, 3, 1, **kw),
    "tril_indices of none": lambda **kw: st.tril_indices(0, 3, **kw),
    "triu_indices": lambda **kw: st.triu_indices(3, 4, 1, **kw),
    "triu_indices, tall": lambda **kw: st.triu_indices(6, 3, -1, **kw),
    "triu_indices, empty": lambda **kw: st.triu_indices(3, 3, 5, **kw),
}


def same(ours: Any, expected: Any, what: str) -> None:
    assert ours.device == st.device("cuda:0"), what
    assert (ours.dtype, ours.shape, ours.stride()) == (
        expected.dtype, expected.shape, expected.stride(),
    ), what  # fmt: skip
    np.testing.assert_allclose(ours.cpu().numpy(), expected.numpy(), 1e-6, 1e-6, err_msg=what)


@pytest.mark.parametrize("name", CALLS)
def test_created_on_a_device(cp: Any, name: str) -> None:
    expected = CALLS[name]()
    same(CALLS[name](device="cuda"), expected, name)
    with st.device("cuda"):
        same(CALLS[name](), expected, f"{name} by default")
        assert CALLS[name](device="cpu").device.type == "cpu"


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "full_like", "empty_like"])
def test_like_another_tensor(cp: Any, name: str) -> None:
    arguments = (2.0,) if name == "full_like" else ()
    images = st.ones(2, 3, 4, 5).contiguous(memory_format=st.channels_last)
    for like in (st.ones(2, 3), st.ones(2, 3).t(), images, st.ones(3, 1).expand(3, 4)):
        expected = getattr(st, name)(like, *arguments)
        on_device = like.to("cuda")
        if like is images:
            on_device = on_device.contiguous(memory_format=st.channels_last)
        cases = {
            "of the same device": getattr(st, name)(on_device, *arguments),
            "from the CPU": getattr(st, name)(like, *arguments, device="cuda"),
        }
        for what, ours in cases.items():
            assert ours.device == st.device("cuda:0"), what
            assert ours.stride() == expected.stride(), f"{name} of {like.stride()} {what}"
            if name != "empty_like":
                np.testing.assert_array_equal(ours.cpu().numpy(), expected.numpy())
        assert getattr(st, name)(on_device, *arguments, device="cpu").device.type == "cpu"


def test_new_tensors_are_on_the_tensors_device(cp: Any) -> None:
    x = st.ones(2, dtype=st.float64, device="cuda")
    for out in (x.new_zeros(2, 3), x.new_ones((2, 3)), x.new_empty(2), x.new_full((2,), 3)):
        assert out.device == x.device
        assert out.dtype == st.float64
    assert x.new_full((2,), 3).tolist() == [3.0, 3.0]
    assert x.new_zeros(2, device="cpu").device.type == "cpu"


def test_out_decides_the_device(cp: Any) -> None:
    out = st.empty(0, device="cuda")
    assert st.zeros(2, 3, out=out) is out
    assert out.tolist() == [[0.0] * 3] * 2
    assert st.eye(2, out=out).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert out.device.type == "cuda"


def test_memory_formats(cp: Any) -> None:
    x = st.ones(2, 3, 4, 5, device="cuda")
    ours = st.zeros_like(x, memory_format=st.channels_last)
    assert ours.stride() == (60, 1, 15, 3)
    assert st.zeros_like(ours, memory_format=st.contiguous_format).stride() == (60, 20, 5, 1)


def test_requires_grad(cp: Any) -> None:
    x = st.ones(3, device="cuda", requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    assert x.grad.device.type == "cuda"
