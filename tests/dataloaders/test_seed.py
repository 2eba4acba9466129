"""Seeds: where they are drawn, and what they set."""

from __future__ import annotations

import random

import numpy as np

import shmtensor as st
from dataloaders.seed import draw_seed, numpy_generator, seed_everything


def test_seeds_come_from_the_default_generator_or_the_given_one() -> None:
    st.manual_seed(3)
    first = draw_seed(), draw_seed()
    st.manual_seed(3)
    assert first == (draw_seed(), draw_seed())
    assert first[0] != first[1]
    mine = st.Generator().manual_seed(5)
    assert draw_seed(mine) == draw_seed(st.Generator().manual_seed(5))
    assert draw_seed(np.random.default_rng(1)) == draw_seed(np.random.default_rng(1))
    assert all(0 <= draw_seed() < 2**63 for _ in range(10))


def test_a_numpy_generator_is_used_as_it_is() -> None:
    mine = np.random.default_rng(1)
    assert numpy_generator(mine) is mine


def test_everything_is_seeded() -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(st.rand(1).item())

    states = random.getstate(), np.random.get_state(), st.random.get_rng_state()
    seed_everything(2**62 + 5)
    first = draw()
    seed_everything(2**62 + 5)
    assert draw() == first
    seed_everything(2**62 + 6)
    assert all(a != b for a, b in zip(draw(), first, strict=True))
    random.setstate(states[0])
    np.random.set_state(states[1])
    st.random.set_rng_state(states[2])
