"""The names of `torch.cpu`."""

from __future__ import annotations

import platform
import threading

import pytest

import shmtensor as st
from shmtensor import cpu


def test_the_cpu_is_one_device_that_is_always_there() -> None:
    assert st.cpu is cpu
    assert cpu.is_available()
    assert cpu.is_initialized()
    assert (cpu.device_count(), cpu.current_device()) == (1, "cpu")
    cpu.set_device("cpu")
    cpu.synchronize()
    with pytest.raises(AttributeError, match=r"'shmtensor\.cpu' has no attribute 'memory"):
        cpu.memory  # noqa: B018


def test_streams_are_always_done() -> None:
    default = cpu.current_stream()
    side = cpu.Stream(priority=1)
    with cpu.stream(side):
        assert cpu.current_stream() is side
        with cpu.StreamContext(None):
            assert cpu.current_stream() is side
        others: list[object] = []
        thread = threading.Thread(target=lambda: others.append(cpu.current_stream()))
        thread.start()
        thread.join()
        assert others != [side]
    assert cpu.current_stream() is default
    event = side.record_event()
    assert isinstance(event, cpu.Event)
    assert side.record_event(event) is event
    assert side.query()
    assert event.query()
    side.wait_stream(default)
    side.wait_event(event)
    side.synchronize()
    event.record(side)
    event.wait(side)
    event.synchronize()


def test_capabilities() -> None:
    capabilities = cpu.get_capabilities()
    assert capabilities["architecture"] == platform.machine()
    assert capabilities["num_logical_cores"] >= 1
    assert cpu.name_of("avx512f") == "avx512_f"
    assert cpu.name_of("avx512_bf16") == "avx512_bf16"
    assert cpu.name_of("fma") == "fma3"
    assert cpu.name_of("avx2") == "avx2"


def test_mixed_precision_by_its_older_names() -> None:
    with pytest.warns(FutureWarning, match=r"cpu\.amp\.autocast is deprecated"):
        context = cpu.amp.autocast()
    with context:
        assert (st.ones(2, 2) @ st.ones(2, 2)).dtype == st.bfloat16
    with pytest.warns(FutureWarning, match=r"cpu\.amp\.GradScaler is deprecated"):
        assert not cpu.amp.GradScaler(enabled=False).is_enabled()
