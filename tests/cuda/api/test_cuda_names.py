"""Every name of shmtensor.cuda works on a device, but for those of tests/test_refused_names.py."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import shmtensor as st
from shmtensor import cupy_runtime
from shmtensor.refused_names import REASONS

WORKS: dict[str, Callable[[], Any]] = {
    **{
        name: (lambda name=name: getattr(st.cuda, name)([1]).is_cuda)
        for name in st.cuda.__all__
        if name.endswith("Tensor") and name != "BFloat16Tensor"
    },
    "CudaError": lambda: st.cuda.CudaError(2),
    "DeferredCudaCallError": lambda: st.cuda.DeferredCudaCallError(),
    "ExternalStream": lambda: st.cuda.ExternalStream(st.cuda.Stream().cuda_stream),
    "StreamContext": lambda: st.cuda.StreamContext(None),
    "amp": lambda: not st.cuda.amp.amp_definitely_not_available(),
    "caching_allocator_alloc": lambda: st.cuda.caching_allocator_delete(
        st.cuda.caching_allocator_alloc(100)
    ),
    "caching_allocator_delete": lambda: st.cuda.caching_allocator_delete(
        st.cuda.caching_allocator_alloc(1000, 0, st.cuda.Stream())
    ),
    "can_device_access_peer": lambda: st.cuda.can_device_access_peer(0, 0),
    "check_error": lambda: st.cuda.check_error(0),
    "cudaStatus": lambda: st.cuda.cudaStatus.SUCCESS,
    "default_generators": lambda: st.cuda.default_generators[0],
    "device": lambda: st.cuda.device(0).__enter__(),
    "device_of": lambda: st.cuda.device_of(st.ones(1)).__enter__(),
    "get_stream_from_external": lambda: st.cuda.get_stream_from_external(
        st.cuda.Stream().cuda_stream
    ),
    "graphs": lambda: st.cuda.graphs.is_current_stream_capturing(),
    "has_half": lambda: st.cuda.has_half,
    "has_magma": lambda: st.cuda.has_magma,
    "manual_seed": lambda: st.cuda.manual_seed(1),
    "manual_seed_all": lambda: st.cuda.manual_seed_all(1),
    "memory": lambda: st.cuda.memory.memory_allocated(),
    "nvtx": lambda: st.cuda.nvtx.mark("a"),
    "profiler": lambda: st.cuda.profiler.profile().__enter__(),
    "random": lambda: st.cuda.random.initial_seed(),
    "set_device": lambda: st.cuda.set_device(0),
    "set_per_process_memory_fraction": lambda: st.cuda.set_per_process_memory_fraction(1.0),
    "set_rng_state": lambda: st.cuda.set_rng_state(st.cuda.get_rng_state()),
    "set_rng_state_all": lambda: st.cuda.set_rng_state_all(st.cuda.get_rng_state_all()),
    "set_stream": lambda: st.cuda.set_stream(st.cuda.current_stream()),
    "set_sync_debug_mode": lambda: st.cuda.set_sync_debug_mode("default"),
    "stream": lambda: st.cuda.stream(None),
    "streams": lambda: st.cuda.streams.Stream(),
}
ELSEWHERE = {  # tested below, and in test_cuda_comm.py
    "BFloat16Tensor", "OutOfMemoryError", "clock_rate", "comm", "device_memory_used",
    "max_memory_cached", "memory_cached", "memory_usage", "power_draw", "temperature",
    "utilization",
}  # fmt: skip
REFUSED = {name.split(".")[-1] for name in REASONS} | {"jiterator", "nccl", "sparse", "tunable"}
# All others are called without arguments.
for _name in {*st.cuda.__all__} - {*WORKS, *ELSEWHERE, *REFUSED}:
    WORKS[_name] = getattr(st.cuda, _name)


@pytest.mark.parametrize("name", sorted(WORKS))
def test_a_name_works(cuda: ModuleType, name: str) -> None:
    WORKS[name]()


def test_half_of_brain_floats(cuda: ModuleType) -> None:
    if not cupy_runtime.has_bfloat16():
        with pytest.raises(TypeError, match="bfloat16"):
            cuda.BFloat16Tensor([1.0])
        return
    x = cuda.BFloat16Tensor([1.0, 2.5])
    assert x.is_cuda
    assert x.dtype == st.bfloat16
    assert (x * 2).tolist() == [2, 5]


class Nvml(ModuleType):
    """The functions of pynvml that are used, of a GPU with this UUID."""

    class NVMLError_DriverNotLoaded(Exception):
        pass

    has_driver = True

    def nvmlInit(self) -> None:
        if not self.has_driver:
            raise self.NVMLError_DriverNotLoaded("Driver Not Loaded")

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        return uuid

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        return SimpleNamespace(used=12345)

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:
        return SimpleNamespace(gpu=70, memory=30)

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> int:
        return 60 + sensor

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        return 250000

    def nvmlDeviceGetClockInfo(self, handle: str, clock: int) -> int:
        return 1400 + clock

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        return [SimpleNamespace(pid=7, usedGpuMemory=3 << 20)]


FIGURES = {
    "device_memory_used": 12345,
    "utilization": 70,
    "memory_usage": 30,
    "temperature": 60,
    "power_draw": 250000,
    "clock_rate": 1401,
}


def test_figures_of_the_management_library(
    cuda: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = Nvml("pynvml")
    seen: list[str] = []
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr(nvml, "nvmlDeviceGetHandleByUUID", lambda uuid: seen.append(uuid) or uuid)
    assert {name: getattr(cuda, name)() for name in FIGURES} == FIGURES
    last = cuda.device_count() - 1
    assert cuda.utilization(f"cuda:{last}") == 70
    assert seen == [f"GPU-{cuda.get_device_properties(i).uuid}" for i in [0] * 6 + [last]]
    assert cuda.list_gpu_processes().splitlines() == [
        "GPU:0",
        "process          7 uses        3.000 MB GPU memory",
    ]
    monkeypatch.setattr(nvml, "nvmlDeviceGetComputeRunningProcesses", lambda handle: [])
    assert "no processes are running" in cuda.list_gpu_processes(0)
    monkeypatch.setattr(nvml, "has_driver", False)
    with pytest.raises(RuntimeError, match=r"cuda\.utilization: NVML finds no driver"):
        cuda.utilization()


def test_the_management_library_is_named_where_it_is_missing(
    cuda: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    for name in FIGURES:
        with pytest.raises(ModuleNotFoundError, match=rf"cuda\.{name}: .*pip install nvidia-ml-py"):
            getattr(cuda, name)()
    assert "nvidia-ml-py" in cuda.list_gpu_processes()


def test_cuda_s_own_functions(cuda: ModuleType, cp: Any) -> None:
    runtime = cuda.cudart()
    assert runtime.cudaMemGetInfo(0) == cuda.mem_get_info(0)
    assert runtime.cudaProfilerStart() == runtime.cudaProfilerStop() == runtime.cudaError.success
    assert "cudaErrorMemoryAllocation" in runtime.cudaGetErrorString(2)
    with pytest.raises(cuda.CudaError, match=r"cudaErrorMemoryAllocation.*\(2\)"):
        cuda.check_error(2)
    assert cuda.current_blas_handle() == cp.cuda.device.get_cublas_handle()
    assert cuda.current_solver_handle()
    for mode in ("warn", 2):
        with pytest.raises(NotImplementedError, match="waits cannot be reported"):
            cuda.set_sync_debug_mode(mode)
    with pytest.raises(RuntimeError, match="expected one of"):
        cuda.set_sync_debug_mode("loud")
    with pytest.raises(NotImplementedError, match="kept for reuse"):
        cuda.caching_allocator_enable(False)
    with cuda.caching_allocator_disabled():
        st.ones(1 << 20, device="cuda")
        assert cuda.memory_reserved() > 0
    assert cuda.memory_reserved() == 0
    with pytest.raises(ValueError, match="not of caching_allocator_alloc: 0x10"):
        cuda.caching_allocator_delete(16)


def test_memory_for_other_libraries(cuda: ModuleType, cp: Any) -> None:
    before = cuda.memory_allocated()
    address = cuda.caching_allocator_alloc(1000)
    assert cuda.memory_allocated() == before + 1024
    memory = cp.cuda.UnownedMemory(address, 1000, None, 0)
    x = cp.ndarray(250, cp.float32, memptr=cp.cuda.MemoryPointer(memory, 0))
    x[...] = 3
    assert float(x.sum()) == 750
    del x, memory
    cuda.caching_allocator_delete(address)
    assert cuda.memory_allocated() == before


def test_a_snapshot_has_every_block(cuda: ModuleType) -> None:
    tensors = [st.zeros(n, device="cuda") for n in (10, 1000, 2**20, 2**24)]
    del tensors[1]
    snapshot = [each for each in cuda.memory_snapshot() if each["device"] == 0]
    assert sum(each["total_size"] for each in snapshot) == cuda.memory_reserved()
    assert sum(each["allocated_size"] for each in snapshot) == cuda.memory_allocated()
    for each in snapshot:
        end = each["address"]
        for block in each["blocks"]:
            assert block["address"] == end
            end += block["size"]
        assert end == each["address"] + each["total_size"]
    blocks = {b["address"]: b for each in snapshot for b in each["blocks"]}
    for x in tensors:
        block = blocks[x.data_ptr()]
        assert block["state"] == "active_allocated"
        assert block["size"] >= x.nbytes
    assert {each["segment_type"] for each in snapshot} == {"small", "large"}


def test_counts_by_pool_and_from_anew(cuda: ModuleType) -> None:
    cuda.reset_accumulated_memory_stats()
    small, large = st.zeros(10, device="cuda"), st.zeros(2**20, device="cuda")
    stats = cuda.memory_stats()
    assert stats["allocation.all.allocated"] == 2
    assert stats["allocated_bytes.all.allocated"] == 512 + large.nbytes
    assert stats["allocated_bytes.small_pool.current"] >= 512
    assert stats["allocated_bytes.large_pool.current"] >= large.nbytes
    for name in ("allocated_bytes", "reserved_bytes", "allocation", "segment"):
        pools = [stats[f"{name}.{pool}.current"] for pool in ("small_pool", "large_pool")]
        assert sum(pools) == stats[f"{name}.all.current"], name
    assert stats["active_bytes.all.current"] >= stats["allocated_bytes.all.current"]
    assert stats["num_ooms"] == 0
    assert "OutOfMemoryError" in st.cuda.__all__
    with pytest.raises(cuda.OutOfMemoryError):
        st.empty(2**45, dtype=st.uint8, device="cuda")
    nested = cuda.memory_stats_as_nested_dict()
    assert nested["num_ooms"] == 1
    assert nested["allocated_bytes"]["all"]["current"] == stats["allocated_bytes.all.current"]
    del small, large
    cuda.reset_accumulated_memory_stats()
    assert cuda.memory_stats()["allocation.all.freed"] == 0


def test_page_locked_memory_is_counted(cuda: ModuleType) -> None:
    x = st.zeros(2**18).pin_memory()
    stats = cuda.host_memory_stats()
    assert stats["allocated_bytes.current"] >= x.nbytes
    assert stats["allocations.current"] >= 1
    cuda.reset_accumulated_host_memory_stats()
    cuda.reset_peak_host_memory_stats()
    nested = cuda.host_memory_stats_as_nested_dict()
    assert nested["segment"]["allocated"] == 0
    assert nested["segment"]["peak"] == nested["segment"]["current"]
