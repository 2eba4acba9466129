"""Creation functions on a GPU: the CPU's values, dtypes and strides; `device=`, models, and the
default device.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import cupy_runtime, nn

F16, C64 = st.float16, st.complex64

# (device=...) -> a tensor with values
VALUES: dict[str, Callable[..., Any]] = {
    "zeros": lambda **o: st.zeros(2, 3, **o),
    "zeros of a dtype": lambda **o: st.zeros((2, 3), dtype=st.int16, **o),
    "ones": lambda **o: st.ones(4, **o),
    "ones complex": lambda **o: st.ones(4, dtype=C64, **o),
    "full": lambda **o: st.full((2,), 7, **o),
    "full wraps around": lambda **o: st.full((2,), -1, dtype=st.uint8, **o),
    "full bool": lambda **o: st.full((2,), True, **o),
    "arange": lambda **o: st.arange(7, **o),
    "arange with a step": lambda **o: st.arange(5, -5, -3, **o),
    "arange of floats": lambda **o: st.arange(0, 1, 0.1, **o),
    "arange in float16": lambda **o: st.arange(1, 9, dtype=F16, **o),
    "range": lambda **o: st.range(1, 4, **o),
    "linspace": lambda **o: st.linspace(-1, 1, 7, **o),
    "linspace of integers": lambda **o: st.linspace(0, 9, 4, dtype=st.int64, **o),
    "linspace of one": lambda **o: st.linspace(3, 9, 1, **o),
    "linspace complex": lambda **o: st.linspace(0, 1j, 3, **o),
    "logspace": lambda **o: st.logspace(0, 3, 4, **o),
    "logspace base 2": lambda **o: st.logspace(0, 3, 4, 2.0, dtype=st.float64, **o),
    "eye": lambda **o: st.eye(3, **o),
    "eye wide": lambda **o: st.eye(2, 4, dtype=st.int32, **o),
    "tensor": lambda **o: st.tensor([[1, 2], [3, 4]], **o),
    "tensor of floats": lambda **o: st.tensor([1.5, 2], **o),
    "tensor of an array": lambda **o: st.tensor(np.arange(3.0), **o),
    "tensor in a dtype": lambda **o: st.tensor([1, 2], dtype=F16, **o),
    "as_tensor": lambda **o: st.as_tensor([1, 2], **o),
    "asarray": lambda **o: st.asarray(np.arange(3), **o),
    "scalar_tensor": lambda **o: st.scalar_tensor(3, **o),
    "empty": lambda **o: st.empty(0, 3, **o),
    "tril_indices": lambda **o: st.tril_indices(3, 3, **o),
    "triu_indices": lambda **o: st.triu_indices(3, 4, 1, **o),
    "tril_indices by offset": lambda **o: st.tril_indices(5, 3, -2, dtype=st.int32, **o),
    "tril_indices, whole rows": lambda **o: st.tril_indices(4, 3, 1, **o),
    "tril_indices of none": lambda **o: st.tril_indices(0, 3, **o),
    "triu_indices, tall": lambda **o: st.triu_indices(6, 3, -1, **o),
    "triu_indices, empty": lambda **o: st.triu_indices(3, 3, 5, **o),
    "hann_window": lambda **o: st.hann_window(8, **o),
    "hann_window of none": lambda **o: st.hann_window(0, **o),
    "hann_window of float64": lambda **o: st.hann_window(5, dtype=st.float64, **o),
    "hamming_window": lambda **o: st.hamming_window(9, False, **o),
    "bartlett_window": lambda **o: st.bartlett_window(8, **o),
    "kaiser_window": lambda **o: st.kaiser_window(8, **o),
    "kaiser_window of one": lambda **o: st.kaiser_window(1, **o),
    "blackman_window": lambda **o: st.blackman_window(8, **o),
    "windows.gaussian": lambda **o: st.signal.windows.gaussian(8, std=2.0, **o),
    "windows.nuttall": lambda **o: st.signal.windows.nuttall(8, **o),
    "fftfreq": lambda **o: st.fft.fftfreq(6, **o),
    "rfftfreq": lambda **o: st.fft.rfftfreq(6, **o),
    "randperm": lambda **o: st.randperm(9, generator=seeded(o), **o),
    "rand": lambda **o: st.rand(9, generator=seeded(o), **o),
    "rand in float16": lambda **o: st.rand(9, generator=seeded(o), dtype=F16, **o),
    "rand complex": lambda **o: st.rand(9, generator=seeded(o), dtype=C64, **o),
    "randint": lambda **o: st.randint(-5, 5, (9,), generator=seeded(o), **o),
    "randint of a large range": lambda **o: st.randint(2**40, (9,), generator=seeded(o), **o),
    "randn": lambda **o: st.randn(9, generator=seeded(o), **o),
    "normal": lambda **o: st.normal(1.0, 2.0, (9,), generator=seeded(o), **o),
}


def seeded(options: dict[str, Any]) -> Any:
    return st.Generator(options.get("device", st.get_default_device())).manual_seed(7)


@pytest.mark.parametrize("name", VALUES)
def test_values_are_the_cpus(cuda: ModuleType, cp: Any, name: str) -> None:
    expected, result = VALUES[name](), VALUES[name](device="cuda")
    assert isinstance(result.array, cp.ndarray)
    assert result.device == st.device("cuda:0")
    assert result.dtype is expected.dtype
    assert result.shape == expected.shape
    assert result.stride() == expected.stride()
    close = {"rtol": 2e-3 if result.dtype is F16 else 2e-6, "atol": 1e-6}
    np.testing.assert_allclose(result.cpu().numpy(), expected.numpy(), **close)


def test_gradients_are_asked_for(cuda: ModuleType) -> None:
    x = st.ones(3, device="cuda", requires_grad=True)
    assert x.requires_grad
    assert x.is_leaf
    y = st.tensor([1.0], device="cuda", requires_grad=True)
    (x * y).sum().backward()
    assert x.grad.tolist() == [1, 1, 1]


LIKE: dict[str, Callable[..., Any]] = {
    "zeros_like": st.zeros_like,
    "ones_like": st.ones_like,
    "full_like": lambda x, **o: st.full_like(x, 3, **o),
    "empty_like": st.empty_like,
    "rand_like": st.rand_like,
    "randn_like": st.randn_like,
    "randint_like": lambda x, **o: st.randint_like(x, 5, **o),
}


@pytest.mark.parametrize("name", LIKE)
def test_likes_follow_their_model(two: ModuleType, name: str) -> None:
    call, x = LIKE[name], st.zeros(2, 3, 4, 5, device="cuda:1")
    last, expanded = x.to(memory_format=st.channels_last), x[:, :1].expand(2, 3, 4, 5)
    for model in (x, x.transpose(1, 3), x[:, :, ::2], last, expanded):
        host = call(model.cpu())
        out = call(model)
        assert (out.device, out.stride(), out.shape) == (x.device, host.stride(), host.shape)
    assert st.zeros_like(x, memory_format=st.channels_last).stride() == (60, 1, 15, 3)
    assert call(x, device="cpu").device == st.device("cpu")
    assert call(x.cpu(), device="cuda:1").device == x.device
    assert call(x, dtype=st.float64).dtype is st.float64
    with st.device("cuda:0"):
        assert call(x).device == x.device
        assert call(st.zeros(2, device="cpu")).device == st.device("cpu")


def test_new_follows_its_tensor(two: ModuleType) -> None:
    x = st.zeros(2, dtype=st.float64, device="cuda:1")
    calls: list[Callable[..., Any]] = [
        lambda **o: x.new_zeros(3, **o),
        lambda **o: x.new_ones((3,), **o),
        lambda **o: x.new_full((3,), 2, **o),
        lambda **o: x.new_empty(3, **o),
        lambda **o: x.new_tensor([1, 2], **o),
        lambda **o: x.new_empty_strided((3,), (1,), **o),
    ]
    for call in calls:
        assert (call().device, call().dtype) == (x.device, st.float64)
        assert call(device="cpu").device == st.device("cpu")
        assert call(device="cuda:0").device == st.device("cuda:0")
    assert x.new(3).device == x.device


def test_out_decides_the_device(two: ModuleType) -> None:
    out = st.empty(3, device="cuda:1")
    assert st.ones(3, out=out) is out
    assert out.tolist() == [1, 1, 1]
    st.arange(3, out=out, dtype=st.float32)
    assert out.tolist() == [0, 1, 2]
    st.rand(3, out=out)
    st.manual_seed(3)
    st.normal(0.0, 1.0, (3,), out=out)
    assert out.device == st.device("cuda:1")


def test_data_on_a_gpu(two: ModuleType, cp: Any) -> None:
    x = st.arange(3, device="cuda:1")
    copy = st.tensor(x)
    assert copy.device == x.device
    assert copy.data_ptr() != x.data_ptr()
    assert st.tensor(x, device="cpu", dtype=st.float32).tolist() == [0, 1, 2]
    assert st.tensor(x, device="cuda:0").device == st.device("cuda:0")
    assert st.tensor(x, dtype=st.float64).dtype is st.float64
    assert st.as_tensor(x) is x
    assert st.as_tensor(x, device="cuda:1") is x
    assert st.as_tensor(x, device="cpu").tolist() == [0, 1, 2]
    assert st.as_tensor(x, dtype=st.float32).dtype is st.float32
    assert st.asarray(x, copy=True).data_ptr() != x.data_ptr()
    with pytest.raises(ValueError, match="can't alias tensor on cuda:1 on cpu"):
        st.asarray(x, device="cpu", copy=False)
    assert st.tensor([x[1], x[2] * 2]).tolist() == [1, 4]  # waits for the GPU, as PyTorch does
    theirs = cp.arange(3.0)
    ours = st.as_tensor(theirs)
    assert ours.data_ptr() == theirs.data.ptr
    assert st.asarray(theirs).data_ptr() == theirs.data.ptr
    assert st.tensor(theirs).data_ptr() != theirs.data.ptr
    assert st.from_numpy(np.ones(2)).device == st.device("cpu")


def test_bfloat16_is_refused_where_cupy_does_not_take_it(
    cuda: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cupy_runtime.state, "has_bfloat16", False)
    assert not cuda.is_bf16_supported()
    calls: list[Callable[[], Any]] = [
        lambda: st.zeros(2, dtype=st.bfloat16, device="cuda"),
        lambda: st.tensor([1.0], dtype=st.bfloat16, device="cuda"),
        lambda: st.ones(2, device="cuda").new_zeros(2, dtype=st.bfloat16),
        lambda: st.ones(2, dtype=st.bfloat16).cuda(),
        lambda: st.ones(2, device="cuda").to(st.bfloat16),
        lambda: st.ones(2, device="cuda").bfloat16(),
        lambda: nn.Linear(2, 2, device="cuda").to(st.bfloat16),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"bfloat16 tensors cannot be on cuda:0.*before"):
            call()
    with pytest.raises(RuntimeError, match="does not support bfloat16"):
        st.autocast("cuda", st.bfloat16)


def test_only_an_import_of_cupy_has_our_bfloat16_as_ml_dtypes(cuda: ModuleType) -> None:
    assert cupy_runtime.import_cupy() is sys.modules["cupy"]
    assert "ml_dtypes" not in sys.modules
    with cupy_runtime.our_bfloat16():
        assert sys.modules["ml_dtypes"].bfloat16 is st.bfloat16.type
    assert "ml_dtypes" not in sys.modules


def test_random_numbers_of_bfloat16_are_the_cpus(cuda: ModuleType) -> None:
    for function in (st.rand, st.randn):
        st.manual_seed(3)
        expected = function(1000, dtype=st.bfloat16)
        st.cuda.manual_seed(3)
        ours = function(1000, dtype=st.bfloat16, device="cuda")
        assert ours.dtype is st.bfloat16
        assert (ours.cpu() - expected).abs().max() <= (0 if function is st.rand else 2**-7)
    x = st.empty(4096, dtype=st.bfloat16, device="cuda").uniform_(-1, 2)
    assert -1 <= x.min().item() <= x.max().item() < 2


def test_the_default_tensor_type(cuda: ModuleType) -> None:
    try:
        st.set_default_tensor_type("torch.cuda.DoubleTensor")
        x = st.ones(2)
        assert (x.dtype, x.device) == (st.float64, st.device("cuda:0"))
    finally:
        st.set_default_tensor_type(st.FloatTensor)
    x = st.ones(2)
    assert (x.dtype, x.device) == (st.float32, st.device("cpu"))


def test_the_default_device(two: ModuleType) -> None:
    with st.device("cuda:1") as device:
        assert device == st.get_default_device() == st.device("cuda:1")
        for call in VALUES.values():
            assert call().device == device
    assert st.zeros(1).device == st.get_default_device() == st.device("cpu")


@pytest.fixture
def cpu_by_default() -> Any:
    yield
    st.set_default_device(None)


def test_default_devices_nest_and_belong_to_a_thread(two: ModuleType, cpu_by_default: None) -> None:
    st.set_default_device("cuda")
    assert st.get_default_device() == st.device("cuda:0")
    x = st.zeros(2)
    assert x.is_cuda
    with st.device("cuda:1"), two.device(0):
        assert st.rand(2).get_device() == 1
        with st.device("cpu"):
            assert not st.arange(2).is_cuda
            assert not st.as_tensor(x).is_cuda
        assert nn.Linear(2, 2).weight.get_device() == 1
    devices: list[Any] = []
    thread = threading.Thread(target=lambda: devices.append(st.zeros(1).device))
    thread.start()
    thread.join()
    assert devices == [st.device("cpu")]
    assert st.ones(1, device="cpu").device == st.device("cpu")
    assert st.tensor([1]).is_cuda
    st.set_default_device("cpu")
    assert not st.ones(1).is_cuda


def test_modules_are_made_on_a_device(cuda: ModuleType) -> None:
    model = nn.Sequential(nn.Linear(3, 4, device="cuda"), nn.ReLU(), nn.Linear(4, 1, device="cuda"))
    assert all(p.is_cuda for p in model.parameters())
    assert model(st.rand(5, 3, device="cuda")).shape == (5, 1)
