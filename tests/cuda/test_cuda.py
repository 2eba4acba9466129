"""st.cuda and st.accelerator without a GPU: queries answer, functions that need one raise."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as st
from shmtensor import accelerator, cuda, cupy_runtime, nn

ANSWERS: dict[str, Any] = {
    "device_count": 0,
    "get_arch_list": [],
    "get_gencode_flags": "",
    "is_current_stream_capturing": False,
    "get_rng_state_all": [],
    "get_allocator_backend": "native",
    "host_memory_stats": {},
    "host_memory_stats_as_nested_dict": {},
    "is_available": False,
    "is_bf16_supported": False,
    "is_initialized": False,
    "is_tf32_supported": False,
    "max_memory_allocated": 0,
    "max_memory_reserved": 0,
    "memory_allocated": 0,
    "memory_reserved": 0,
    "memory_snapshot": [],
    "memory_stats": {},
    "memory_stats_as_nested_dict": {},
}
DO_NOTHING: dict[str, tuple[Any, ...]] = {
    "empty_cache": (),
    "manual_seed": (0,),
    "manual_seed_all": (0,),
    "check_error": (0,),
    "reset_accumulated_host_memory_stats": (),
    "reset_accumulated_memory_stats": (),
    "reset_peak_host_memory_stats": (),
    "reset_max_memory_allocated": (0,),
    "reset_max_memory_cached": (0,),
    "reset_peak_memory_stats": ("cuda:1",),
    "seed": (),
    "seed_all": (),
    "set_device": (-1,),
    "set_rng_state": (st.random.get_rng_state(),),
    "set_rng_state_all": ([],),
    "set_stream": (None,),
}
NEED: dict[str, tuple[Any, ...]] = {
    "Event": (),
    "ExternalStream": (1,),
    "Stream": (),
    "caching_allocator_alloc": (512,),
    "caching_allocator_delete": (0,),
    "caching_allocator_enable": (),
    "can_device_access_peer": (0, 1),
    "clock_rate": (),
    "cudart": (),
    "current_blas_handle": (),
    "current_solver_handle": (),
    "device_memory_used": (),
    "get_sync_debug_mode": (),
    "list_gpu_processes": (),
    "memory_usage": (),
    "power_draw": (),
    "set_sync_debug_mode": (0,),
    "temperature": (),
    "utilization": (),
    "current_device": (),
    "current_stream": (),
    "default_stream": (),
    "get_device_capability": (),
    "get_device_name": (0,),
    "get_device_properties": ("cuda",),
    "get_per_process_memory_fraction": (),
    "get_rng_state": (),
    "get_stream_from_external": (1,),
    "init": (),
    "initial_seed": (),
    "ipc_collect": (),
    "mem_get_info": (),
    "set_device": ("cuda:0",),
    "set_per_process_memory_fraction": (0.5,),
    "synchronize": (),
}
ACCELERATOR_NEEDS: dict[str, tuple[Any, ...]] = {
    "current_device_index": (),
    "current_stream": (),
    "empty_cache": (),
    "empty_host_cache": (),
    "get_device_capability": (),
    "get_memory_info": (),
    "max_memory_allocated": (),
    "max_memory_reserved": (),
    "memory_allocated": (),
    "memory_reserved": (),
    "memory_stats": (),
    "reset_accumulated_memory_stats": (),
    "reset_peak_memory_stats": (),
    "set_device_index": (0,),
    "set_stream": (None,),
    "synchronize": ("cuda",),
}


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As without CuPy, also where it is installed."""
    for name, value in (
        ("devices", 0),
        ("reason", "CuPy is not installed"),
        ("initialized", False),
        ("ready", False),
    ):
        monkeypatch.setattr(cupy_runtime.state, name, value)


def test_queries_return_values_without_a_gpu() -> None:
    assert {name: getattr(cuda, name)() for name in ANSWERS} == ANSWERS
    assert "0 bytes" in cuda.memory_summary()
    assert cuda.default_generators == ()
    assert st.version.cuda is None
    with pytest.warns(FutureWarning, match="use memory_reserved"):
        assert cuda.memory_cached() == 0
    with pytest.warns(FutureWarning, match="use max_memory_reserved"):
        assert cuda.max_memory_cached() == 0


def test_seeding_emptying_and_resetting_do_nothing() -> None:
    state = st.random.get_rng_state()
    for name, arguments in DO_NOTHING.items():
        assert getattr(cuda, name)(*arguments) is None, name
    assert st.equal(st.random.get_rng_state(), state)
    with cuda.device(-1), cuda.device(None), cuda.device_of(st.ones(1)), cuda.stream(None):
        assert isinstance(cuda.stream(None), cuda.StreamContext)


@pytest.mark.parametrize("error", [RuntimeError, AssertionError])
def test_functions_that_need_a_gpu_raise_both_of_pytorchs_classes(error: type[Exception]) -> None:
    for name, arguments in NEED.items():
        with pytest.raises(error, match=rf"cuda\.{name}: there is no CUDA device"):
            getattr(cuda, name)(*arguments)
    with pytest.raises(error, match=r"cuda\.device: there is no CUDA device"), cuda.device(0):
        pass
    assert issubclass(cuda.OutOfMemoryError, RuntimeError)


def test_a_device_other_than_a_gpu_is_an_error() -> None:
    for use in (cuda.device, cuda.set_device, cuda.mem_get_info, cuda.reset_peak_memory_stats):
        with pytest.raises(ValueError, match="expected a cuda device: cpu"):
            use("cpu")


def test_an_accelerator_is_missing() -> None:
    for name, arguments in ACCELERATOR_NEEDS.items():
        with pytest.raises(RuntimeError, match=f"{name}: there is no accelerator"):
            getattr(accelerator, name)(*arguments)
    with pytest.raises(RuntimeError, match="no accelerator"), accelerator.device_index(0):
        pass
    with accelerator.device_index(None):
        assert accelerator.current_accelerator(check_available=True) is None
    with pytest.raises(ValueError, match="expected a number or a device with one: None"):
        accelerator.set_device_index(None)
    with pytest.warns(FutureWarning, match="use set_device_index"):
        accelerator.set_device_idx(-1)
    with (
        pytest.warns(FutureWarning, match="use current_device_index"),
        pytest.raises(RuntimeError, match="no accelerator"),
    ):
        accelerator.current_device_idx()


def test_ranges_for_profilers_do_nothing() -> None:
    assert [cuda.nvtx.range_push("a"), cuda.nvtx.range_push("b")] == [0, 1]
    assert [cuda.nvtx.range_pop(), cuda.nvtx.range_pop()] == [1, 0]
    with cuda.nvtx.range("step {}", 3):
        cuda.nvtx.mark("inside")
    assert cuda.nvtx.range_end(cuda.nvtx.range_start("c")) is None


def test_modules_for_a_gpu_are_there() -> None:
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("nccl.version", cuda.nccl.version),
        ("cudart", cuda.profiler.start),
    ]
    for name, call in calls:
        with pytest.raises(RuntimeError, match=rf"cuda\.{name}: there is no CUDA device"):
            call()
    assert not cuda.nccl.is_available([])
    assert cuda.amp.amp_definitely_not_available()
    assert (cuda.has_half, cuda.has_magma) == (True, False)
    assert cuda.cudaStatus.SUCCESS == 0
    assert issubclass(cuda.CudaError, RuntimeError)
    assert issubclass(cuda.DeferredCudaCallError, Exception)


def test_a_gpu_is_looked_for_once_and_cupy_is_not_imported_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = []
    monkeypatch.setattr(cupy_runtime.state, "devices", None)
    monkeypatch.setattr(cupy_runtime, "count", lambda: counts.append(1) or (0, "why"))
    assert not cuda.is_available()
    assert cuda.device_count() == 0
    assert len(counts) == 1
    with pytest.raises(RuntimeError, match="device: no CUDA device can be used: why"):
        cupy_runtime.initialize()


IMPORTS = """
import sys
import shmtensor as st
st.cuda.Stream
st.zeros(2, device="cpu") + st.tensor([1.0, 2.0])
st.manual_seed(1)
assert "cupy" not in sys.modules
"""


def test_importing_shmtensor_imports_no_cupy() -> None:
    subprocess.run([sys.executable, "-c", IMPORTS], check=True, timeout=100)


def test_mixed_precision_by_its_older_names() -> None:
    with pytest.warns(FutureWarning, match="use amp.autocast"):
        context = cuda.amp.autocast(enabled=False)
    with context:
        assert (st.ones(2, 2) @ st.ones(2, 2)).dtype == st.float32
    with pytest.warns(FutureWarning, match="use amp.GradScaler"):
        assert not cuda.amp.GradScaler(enabled=False).is_enabled()

    class Twice(st.autograd.Function):
        @staticmethod
        @cuda.amp.custom_fwd
        def forward(ctx: Any, x: Any) -> Any:
            return 2 * x

        @staticmethod
        @cuda.amp.custom_bwd
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * g

    assert Twice.apply(st.ones(1)).tolist() == [2]


def test_the_first_lines_of_a_script_run() -> None:
    device = st.device("cuda" if st.cuda.is_available() else "cpu")
    kind = st.accelerator.current_accelerator().type if st.accelerator.is_available() else "cpu"
    assert device.type == kind == "cpu"
    before = st.backends.cudnn.benchmark, st.get_float32_matmul_precision()
    try:
        assert not st.backends.mps.is_available()
        assert (st.backends.cudnn.version() is None) == (not st.backends.cudnn.is_available())
        st.backends.cudnn.benchmark = True
        st.cuda.manual_seed_all(0)
        st.set_float32_matmul_precision("high")
        st.use_deterministic_algorithms(True)
        model, x = nn.Linear(3, 2), st.ones(4, 3)
        assert model.to(device) is model
        assert x.to(device, non_blocking=True) is x
        scaler = st.amp.GradScaler(enabled=False)
        with device, st.autocast(device_type=device.type):
            out = model(x)
        assert out.dtype == st.bfloat16
        scaler.scale(out.float().sum()).backward()
    finally:
        st.backends.cudnn.benchmark = before[0]
        st.set_float32_matmul_precision(before[1])
        st.use_deterministic_algorithms(False)


USES: list[Callable[[], Any]] = [
    lambda: st.ones(2).to("cuda"),
    lambda: st.ones(2).to(0),
    lambda: st.ones(2).cuda(),
    lambda: st.ones(2).cuda("cuda:1"),
    lambda: st.ones(2, device=st.device(0)),
    lambda: nn.Linear(2, 2).to("cuda"),
    lambda: nn.Linear(2, 2).cuda(),
    lambda: nn.Linear(2, 2, device="cuda"),
    lambda: st.device("cuda").__enter__(),
]


def test_a_gpu_can_be_named_but_not_used() -> None:
    assert st.device("cuda").type == "cuda"
    assert st.device(1) == st.device("cuda:1")
    for use in USES:
        for error in (RuntimeError, AssertionError):
            with pytest.raises(error, match=r"device: cuda(:\d)? cannot be used: "):
                use()


def test_a_call_without_a_gpu_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        st.amp.GradScaler("cuda", enabled=False)
        st.autocast("cuda", enabled=False)
