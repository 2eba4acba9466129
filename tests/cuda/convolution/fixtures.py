"""`cudnn`: NVIDIA's frontend, for tensors on a device; skips, and says why, where there is none."""

from __future__ import annotations

from types import ModuleType

import pytest

__all__ = ["cudnn"]


@pytest.fixture
def cudnn(cuda: ModuleType) -> ModuleType:
    from shmtensor import cudnn_runtime

    module = cudnn_runtime.frontend()
    if module is None:
        pytest.skip(cudnn_runtime.why_missing())
    return module
