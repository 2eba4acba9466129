"""Seeds and generators of GPUs."""

from __future__ import annotations

import pickle
from types import ModuleType
from typing import Any

import pytest

import shmtensor as st
from shmtensor.utils.checkpoint import checkpoint


def draw(**options: Any) -> list[float]:
    return st.rand(4, device="cuda", **options).tolist()  # type: ignore[no-any-return]


def test_a_seed_gives_the_cpus_numbers(cuda: ModuleType) -> None:
    st.manual_seed(5)
    assert st.rand(4).tolist() == draw()
    first = draw()
    assert first != draw()
    assert st.manual_seed(5) is st.default_generator
    draw()
    assert draw() == first


def test_each_gpu_has_a_generator(two: ModuleType) -> None:
    st.manual_seed(1)
    assert [g.initial_seed() for g in two.default_generators] == [1] * two.device_count()
    assert two.default_generators[1].device == st.device("cuda:1")
    two.manual_seed(2)
    assert [g.initial_seed() for g in two.default_generators][:2] == [2, 1]
    with two.device(1):
        two.seed()
        assert two.initial_seed() == two.default_generators[1].initial_seed()
    two.manual_seed_all(3)
    assert {g.initial_seed() for g in two.default_generators} == {3}
    two.seed_all()
    assert len({g.initial_seed() for g in two.default_generators}) == 1
    st.seed()
    assert {g.initial_seed() for g in two.default_generators} == {st.initial_seed()}


def test_states(two: ModuleType) -> None:
    state, other = two.get_rng_state(), two.get_rng_state("cuda:1")
    assert (state.dtype, state.device) == (st.uint8, st.device("cpu"))
    first = draw()
    two.set_rng_state(state)
    assert draw() == first
    assert two.get_rng_state(1).tolist() == other.tolist()
    states = two.get_rng_state_all()
    assert len(states) == two.device_count()
    second = draw()
    two.set_rng_state_all(states)
    assert draw() == second


def test_a_generator_is_of_a_device(cuda: ModuleType) -> None:
    generator = st.Generator("cuda").manual_seed(4)
    assert generator.device == st.device("cuda:0")
    first = draw(generator=generator)
    restored = pickle.loads(pickle.dumps(generator))
    assert restored.device == generator.device
    assert draw(generator=restored) == draw(generator=generator) != first
    for name, call in (
        ("cuda", lambda: draw(generator=st.Generator())),
        ("cuda", lambda: st.zeros(2, device="cuda").normal_(generator=st.Generator())),
        ("cpu", lambda: st.rand(2, generator=generator)),
        ("cpu", lambda: st.zeros(2).uniform_(generator=generator)),
    ):
        with pytest.raises(RuntimeError, match=f"Expected a '{name}' device type for generator"):
            call()


def test_fork_rng_restores(two: ModuleType) -> None:
    st.manual_seed(9)
    expected = [draw(), st.rand(2, device="cuda:1").tolist()]
    st.manual_seed(9)
    with st.random.fork_rng():
        st.manual_seed(2)
        draw()
        st.rand(2, device="cuda:1")
    assert [draw(), st.rand(2, device="cuda:1").tolist()] == expected
    st.manual_seed(9)
    with st.random.fork_rng(devices=[0]):
        draw()
        st.rand(2, device="cuda:1")
    assert draw() == expected[0]
    assert st.rand(2, device="cuda:1").tolist() != expected[1]


def test_a_checkpoint_recomputes_the_same_dropout(cuda: ModuleType) -> None:
    x = st.ones(64, device="cuda", requires_grad=True)

    def function(x: Any) -> Any:
        return st.nn.functional.dropout(x * 2, 0.5, True)

    out = checkpoint(function, x, use_reentrant=False)
    after = cuda.get_rng_state().tolist()
    out.sum().backward()
    assert x.grad.tolist() == out.tolist()  # 4 where it was kept, else 0
    assert cuda.get_rng_state().tolist() == after


def test_counts_are_drawn_by_their_gpus_generator(cuda: ModuleType) -> None:
    rates, chances = st.arange(40.0), st.full((40,), 0.3)
    for draw in (lambda x, y, g: st.poisson(x, g), lambda x, y, g: st.binomial(x, y, g)):
        st.manual_seed(3)
        expected = [draw(rates, chances, None) for _ in range(2)]
        state = st.get_rng_state()
        ours = [draw(rates.cuda(), chances.cuda(), None) for _ in range(2)]
        assert [x.tolist() for x in ours] == [x.tolist() for x in expected]
        assert st.equal(st.get_rng_state(), state)
        g = st.Generator("cuda").manual_seed(3)
        assert draw(rates.cuda(), chances.cuda(), g).tolist() == expected[0].tolist()
        with pytest.raises(RuntimeError, match="Expected a 'cuda' device type"):
            draw(rates.cuda(), chances.cuda(), st.Generator())
