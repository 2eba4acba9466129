"""`cuda`: st.cuda on a device, with shmtensor's allocator; its generators are restored."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

__all__ = ["cuda", "two"]


@pytest.fixture
def cuda(cp: Any) -> Iterator[ModuleType]:
    import shmtensor as st
    from shmtensor import cupy_runtime
    from shmtensor.memory import cuda as allocator

    cupy_runtime.initialize()
    allocator.install()
    with st.random.fork_rng():
        yield st.cuda


@pytest.fixture
def two(cuda: ModuleType) -> ModuleType:
    """st.cuda where there are two devices."""
    if cuda.device_count() < 2:
        pytest.skip("one CUDA device is here: two are needed")
    return cuda
