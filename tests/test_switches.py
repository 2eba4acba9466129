"""accelerator, backends, overrides and __config__, as scripts use them."""

from __future__ import annotations

import importlib
from importlib.util import find_spec

import pytest

import shmtensor as st
from shmtensor import cupy_runtime


def test_no_accelerator_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy_runtime.state, "devices", 0)  # also where there is a GPU
    assert not st.accelerator.is_available()
    assert st.accelerator.device_count() == 0
    assert st.accelerator.current_accelerator() is None
    st.accelerator.synchronize()
    st.accelerator.set_device_index(-1)
    for ask in (
        st.accelerator.current_device_index,
        lambda: st.accelerator.set_device_index(0),
        lambda: st.accelerator.synchronize("cuda"),
    ):
        with pytest.raises(RuntimeError, match="no accelerator"):
            ask()


def test_backends_store_settings() -> None:
    assert st.backends.cpu.is_available()
    assert st.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "NEON", "DEFAULT")
    assert st.backends.cuda.is_built() == (find_spec("cupy") is not None)
    assert not st.backends.mkl.is_available()
    assert not st.backends.mps.is_available()
    assert not st.backends.openmp.is_available()
    before = st.backends.cudnn.benchmark
    st.backends.cudnn.benchmark = True
    assert st.backends.cudnn.benchmark
    st.backends.cudnn.benchmark = before


def test_other_switches_take_any_value() -> None:
    backends = st.backends
    for place in (backends.mkl, backends.cudnn, backends.cuda.matmul, backends.mps):
        with pytest.raises(AttributeError, match="has no 'fp32_precision'"):
            place.fp32_precision  # noqa: B018
        for value in ("ieee", 3):
            place.fp32_precision = value
            assert place.fp32_precision == value
        del place.fp32_precision
    assert not hasattr(backends.cuda, "enable_other_sdp")
    for wrong in ((), (True, False)):
        with pytest.raises(TypeError, match="enable_flash_sdp: one value is needed"):
            backends.cuda.enable_flash_sdp(*wrong)
    backends.mha.set_fastpath_enabled(value=0)
    assert backends.mha.get_fastpath_enabled() is False
    backends.mha.set_fastpath_enabled(True)


def test_tf32_and_precision_are_one_switch() -> None:
    products = st.backends.cuda.matmul
    before = st.get_float32_matmul_precision()
    try:
        st.set_float32_matmul_precision("medium")
        assert products.allow_tf32
        products.allow_tf32 = False
        assert st.get_float32_matmul_precision() == "highest"
        products.allow_tf32 = True
        assert st.get_float32_matmul_precision() == "high"
        with pytest.raises(TypeError, match=r"matmul.allow_tf32: a bool is needed: 1"):
            products.allow_tf32 = 1  # type: ignore[assignment]
    finally:
        st.set_float32_matmul_precision(before)


def test_switches_of_attention() -> None:
    cuda = st.backends.cuda
    names = ("flash", "mem_efficient", "math", "cudnn")

    def values() -> list[bool]:
        return [getattr(cuda, f"{name}_sdp_enabled")() for name in names]

    assert values() == [True] * 4
    with cuda.sdp_kernel(enable_flash=False, enable_cudnn=False):
        assert values() == [False, True, True, False]
    for name in names:
        getattr(cuda, f"enable_{name}_sdp")(False)
    assert values() == [False] * 4
    for name in names:
        getattr(cuda, f"enable_{name}_sdp")(True)


def test_cudnn_has_pytorch_s_switches() -> None:
    switches = st.backends.cudnn
    assert switches.enabled
    assert switches.allow_tf32
    assert not switches.benchmark
    assert not switches.deterministic
    assert switches.benchmark_limit == 10
    with switches.flags(benchmark=True, benchmark_limit=0, deterministic=True, allow_tf32=False):
        assert not switches.enabled  # PyTorch's default of flags()
        assert switches.benchmark
        assert switches.deterministic
        assert not switches.allow_tf32
        assert switches.benchmark_limit == 0
        assert switches.set_flags(_enabled=True) == (False, True, 0, True, False)
        assert switches.enabled
    assert switches.set_flags() == (True, False, 10, False, True)
    for name in ("enabled", "benchmark", "deterministic", "allow_tf32"):
        with pytest.raises(TypeError, match=rf"cudnn.{name}: a bool is needed: 1"):
            setattr(switches, name, 1)
    for wrong in (-1, True, 1.5):
        with pytest.raises(ValueError, match="benchmark_limit: an int from 0 is needed"):
            switches.benchmark_limit = wrong
    assert not switches.is_acceptable(st.ones(1))


def test_a_wrong_value_changes_no_switch_of_cudnn() -> None:
    switches = st.backends.cudnn
    before = switches.set_flags()
    for wrong in ({"benchmark": 1}, {"benchmark_limit": -1}, {"allow_tf32": "no"}):
        with pytest.raises((TypeError, ValueError), match="is needed"), switches.flags(**wrong):
            raise AssertionError("the block runs")
        assert switches.set_flags() == before
        with pytest.raises((TypeError, ValueError), match="is needed"):
            switches.set_flags(_enabled=False, **{f"_{k}": v for k, v in wrong.items()})
        assert switches.set_flags() == before


def test_overrides_know_tensors() -> None:
    class Marked(st.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            return "mine"

    x = st.ones(2)
    assert st.overrides.is_tensor_like(x)
    assert not st.overrides.is_tensor_like([1])
    tensor = x.as_subclass(Marked)
    assert st.overrides.has_torch_function((x, tensor))
    assert not st.overrides.has_torch_function((x,))
    assert st.overrides.handle_torch_function(st.add, (tensor,), tensor, x) == "mine"


def test_config_names_versions() -> None:
    config = importlib.import_module("shmtensor.__config__")
    assert f"shmtensor {st.__version__}" in config.show()
    assert "threads" in config.parallel_info()
