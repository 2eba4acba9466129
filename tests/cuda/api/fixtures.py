"""`cuda`: st.cuda on a device, with shmtensor's allocator; its generators are restored."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest


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
def two(two_devices: Any, cuda: ModuleType) -> ModuleType:
    """st.cuda where there are two devices; tests without it take `two_devices`."""
    return cuda
