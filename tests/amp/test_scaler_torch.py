"""GradScaler's scales, counts of good steps and parameters are PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st

torch: Any = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

NAN, INF = float("nan"), float("inf")
FIRST_VALUES = [1.0, INF, 2.0, -1.0, 1.0, NAN, -INF, 1.0, 1.0, 1.0, 2.0, INF, 1.0]


def training(library: Any, name: str, arguments: dict[str, Any]) -> list[tuple[float, ...]]:
    """Of each step: the scale, the count of good steps, the optimizer's count, the parameter."""
    p = library.tensor([1.0, 2.0], requires_grad=True)
    optimizer = getattr(library.optim, name)([p], **arguments)
    scaler = library.amp.GradScaler(
        "cpu", init_scale=3.0, growth_factor=1.7, backoff_factor=0.3, growth_interval=2
    )
    seen = []
    for value in FIRST_VALUES:
        optimizer.zero_grad()
        scaler.scale((p * library.tensor([value, 1.0])).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        state = scaler.state_dict()
        step = optimizer.state[p].get("step", -1) if p in optimizer.state else 0
        seen.append((state["scale"], state["_growth_tracker"], float(step), *p.tolist()))
    return seen


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("SGD", {"lr": 0.1}), ("Adam", {"lr": 0.1}), ("AdamW", {"lr": 0.1, "weight_decay": 0.1})],
)
def test_scales_and_steps_are_those_of_torch(name: str, arguments: dict[str, Any]) -> None:
    ours, theirs = (training(library, name, arguments) for library in (st, torch))
    np.testing.assert_allclose([row[:2] for row in ours], [row[:2] for row in theirs], rtol=1e-7)
    if name != "SGD":
        assert [row[2] for row in ours] == [row[2] for row in theirs]
    np.testing.assert_allclose([row[3:] for row in ours], [row[3:] for row in theirs], 1e-5)
