"""st.cuda's memory functions."""

from __future__ import annotations

from types import ModuleType

import pytest

import shmtensor as st
from shmtensor import accelerator, errors

MIB = 2**20


def test_figures_follow_tensors(cuda: ModuleType) -> None:
    cuda.reset_peak_memory_stats()
    before = cuda.memory_allocated()
    x = st.zeros(MIB, device="cuda")
    assert cuda.memory_allocated() == accelerator.memory_allocated() == before + 4 * MIB
    assert cuda.memory_reserved() == accelerator.memory_reserved() >= cuda.memory_allocated()
    del x
    st.cuda.synchronize()
    assert cuda.memory_allocated() == before
    assert cuda.max_memory_allocated() == accelerator.max_memory_allocated() >= 4 * MIB
    assert cuda.max_memory_reserved() == accelerator.max_memory_reserved() >= 4 * MIB
    cuda.reset_max_memory_allocated()
    cuda.reset_max_memory_cached()
    cuda.reset_accumulated_memory_stats()
    accelerator.reset_peak_memory_stats()
    accelerator.reset_accumulated_memory_stats()
    assert cuda.max_memory_allocated() == before
    with pytest.warns(FutureWarning, match="use memory_reserved"):
        assert cuda.memory_cached() == cuda.memory_reserved()
    with pytest.warns(FutureWarning, match="use max_memory_reserved"):
        assert cuda.max_memory_cached() == cuda.max_memory_reserved()


def test_figures_are_of_one_device(two: ModuleType) -> None:
    before = two.memory_allocated(0)
    x = st.zeros(MIB, device="cuda:1")
    assert two.memory_allocated("cuda:1") >= x.nbytes
    assert two.memory_allocated(0) == before
    stats = two.memory_stats(1)
    assert stats["allocated_bytes.all.current"] == two.memory_allocated(1)
    assert list(stats) == sorted(stats)
    assert accelerator.memory_stats(1) == stats
    with pytest.raises(ValueError, match="expected a cuda device: cpu"):
        two.memory_allocated("cpu")


def test_the_cache_is_emptied(cuda: ModuleType) -> None:
    x = st.zeros(MIB, device="cuda")
    del x
    free, total = cuda.mem_get_info()
    accelerator.empty_cache()
    accelerator.empty_host_cache()
    cuda.empty_cache()
    after, size = cuda.mem_get_info("cuda:0")
    assert (size, accelerator.get_memory_info()[1]) == (total, total)
    assert after > free
    cuda.ipc_collect()
    assert "GPU 0" in cuda.memory_summary()


def test_memory_can_be_limited(cuda: ModuleType) -> None:
    assert cuda.get_per_process_memory_fraction() == 1
    total = cuda.mem_get_info()[1]
    cuda.set_per_process_memory_fraction(0.25)
    try:
        assert cuda.get_per_process_memory_fraction("cuda:0") == 0.25
        for error in (cuda.OutOfMemoryError, errors.OutOfMemoryError, RuntimeError):
            with pytest.raises(error, match="no memory for a block"):
                st.empty(total // 2, dtype=st.uint8, device="cuda")
    finally:
        cuda.set_per_process_memory_fraction(1)
    with pytest.raises(ValueError, match=r"must be between 0 and 1: 1\.5"):
        cuda.set_per_process_memory_fraction(1.5)
