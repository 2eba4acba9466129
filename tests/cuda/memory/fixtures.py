"""`mc`: shmtensor.memory.cuda as CuPy's allocator; what a test leaves behind fails it."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def mc(cp: Any) -> Iterator[ModuleType]:
    import shmtensor.memory.cuda as module
    from tests.cuda.memory.peer import clean

    module.install()
    module.reset_peaks(0)
    yield module
    cp.cuda.runtime.deviceSynchronize()
    clean(module)
