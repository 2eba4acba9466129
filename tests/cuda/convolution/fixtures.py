"""`cudnn`: NVIDIA's frontend, for tensors on a device; skips, and says why, where there is none.
`plans`: the plans that shmtensor queues.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest


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


def dtypes_of(plans: list[Any]) -> set[str]:
    """The dtypes of plans that this thread keeps, by cuDNN's names."""
    from shmtensor.ops.cuda import cudnn as ours

    kept = [pair for c in ours.local.holder.contexts.values() for pair in c.plans.items()]
    return {ours.DTYPES[key.dtype] for key, plan in kept if any(plan is p for p in plans)}
