"""Random actions in several processes, with random kills: held tensors keep their tag."""

from __future__ import annotations

import time

import pytest

from .fresh import fresh
from .stress_workers import stress


@pytest.mark.parametrize("seed", [1, int(time.time())], ids=["fixed", "of now"])
def test_random_kills(seed: int) -> None:
    print(f"seed {seed}")
    fresh(stress, seed, 5.0)
