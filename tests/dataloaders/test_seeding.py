"""Seeds: the generators they come from, and the generators they set."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.dataloaders.loader.seeding import (
    SampleSeeds,
    new_seed,
    numpy_generator,
    seed_everything,
)


def test_seeds_come_from_the_default_generator_or_the_given_one() -> None:
    st.manual_seed(3)
    first = new_seed(), new_seed()
    st.manual_seed(3)
    assert first == (new_seed(), new_seed())
    assert first[0] != first[1]
    mine = st.Generator().manual_seed(5)
    assert new_seed(mine) == new_seed(st.Generator().manual_seed(5))
    assert new_seed(np.random.default_rng(1)) == new_seed(np.random.default_rng(1))
    assert all(0 <= new_seed() < 2**63 for _ in range(10))


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


def draw_all() -> tuple[float, ...]:
    return (
        random.random(), random.gauss(0, 1), float(np.random.rand()), float(np.random.normal()),
        float(st.rand(1).item()),
    )  # fmt: skip


@pytest.mark.parametrize("is_direct", [True, False])
def test_a_batch_depends_on_seed_and_number_alone(is_direct: bool) -> None:
    results = []
    for disturbance in range(2):
        seeds = SampleSeeds()
        assert seeds.is_direct, "CPython and NumPy no longer have their state where it was"
        seeds.is_direct = is_direct
        for _ in range(disturbance):
            draw_all()
        with seeds.fork_rng():
            seeds.start(7, 3)
            first = draw_all()
            next(seeds.before_each([0]))
            second = draw_all()
            seeds.start(7, 4)
            other = draw_all()
            seeds.start(7, 3, worker=0)
            of_worker = draw_all()
        results.append((first, second, other, of_worker))
    assert results[0] == results[1]
    for column in zip(*results[0], strict=True):
        assert len(set(column)) == 4


def test_without_a_draw_nothing_is_seeded_again() -> None:
    seeds = SampleSeeds()
    with seeds.fork_rng():
        seeds.start(1, 0)
        before = seeds.python_words.copy()
        next(seeds.before_each([0]))
        assert (seeds.python_words == before).all()
        for draw in (random.random, np.random.rand, lambda: st.rand(1)):
            draw()
            before = seeds.python_words.copy()
            next(seeds.before_each([0]))
            assert (seeds.python_words != before).any()


def test_many_streams_are_uniform_and_differ() -> None:
    seeds = SampleSeeds()
    draws = []
    with seeds.fork_rng():
        for number in range(2000):
            seeds.start(5, number)
            draws.append((random.random(), np.random.rand(), st.rand(1).item()))
    table = np.array(draws)
    assert np.abs(table.mean(0) - 0.5).max() < 0.03
    assert np.abs(np.corrcoef(table.T) - np.eye(3)).max() < 0.1
    assert np.abs(np.corrcoef(table[:-1].T, table[1:].T)[:3, 3:]).max() < 0.1


@pytest.mark.parametrize("is_direct", [True, False])
def test_the_generators_are_given_back_as_they_were(is_direct: bool) -> None:
    def state() -> Any:
        numpy = np.random.get_state()
        key: Any = numpy[1]
        return random.getstate(), key.tolist(), numpy[2], st.get_rng_state().tolist()

    random.gauss(0, 1)  # keeps a second number
    before, bit_generator = state(), np.random.mtrand._rand._bit_generator
    seeds = SampleSeeds()
    seeds.is_direct = is_direct
    with pytest.raises(ZeroDivisionError), seeds.fork_rng():
        seeds.start(1, 1)
        draw_all()
        raise ZeroDivisionError
    assert state() == before
    assert np.random.mtrand._rand._bit_generator is bit_generator
