"""Training on CUDA: the CPU's losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn, optim

MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), (16, 4)),
    "transformer": (
        lambda: nn.Sequential(
            nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
            nn.Flatten(),
            nn.Linear(20, 3),
        ),
        (16, 5, 4),
    ),
    "cnn": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(36, 3),
        ),
        (16, 1, 6, 6),
    ),
}


def losses(name: str, device: str) -> list[float]:
    st.manual_seed(0)
    make, shape = MODELS[name]
    model = make().to(device)
    optimizer = optim.AdamW(model.parameters(), lr=0.01)
    scheduler = optim.lr_scheduler.StepLR(optimizer, 2)
    random = np.random.default_rng(0)
    x = st.tensor(random.standard_normal(shape).tolist()).to(device)
    y = st.tensor(random.integers(0, 3, shape[0]).tolist()).to(device)
    seen = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        seen.append(loss.item())
    return seen


@pytest.mark.parametrize("name", MODELS)
def test_five_steps_have_the_cpu_s_losses(cp: Any, name: str) -> None:
    far, near = losses(name, "cuda"), losses(name, "cpu")
    np.testing.assert_allclose(far, near, 1e-4)
    assert far[-1] < far[0]
