"""`cudnn`: NVIDIA's frontend, for tensors on a device; skips, and says why, where there is none.
`plans`: the plans that shmtensor queues.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

__all__ = ["cudnn", "plans"]


@pytest.fixture
def cudnn(cuda: ModuleType) -> ModuleType:
    from shmtensor import cudnn_runtime

    module = cudnn_runtime.frontend()
    if module is None:
        pytest.skip(cudnn_runtime.why_missing())
    return module


@pytest.fixture
def plans(cudnn: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    from shmtensor.ops.cuda import cudnn as ours

    queued: list[Any] = []
    execute = ours.execute

    def noted(context: Any, plan: Any, pointers: Any) -> None:
        queued.append(plan)
        execute(context, plan, pointers)

    monkeypatch.setattr(ours, "execute", noted)
    return queued
