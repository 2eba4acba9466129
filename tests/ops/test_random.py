"""Random numbers: the same seed gives the same bits; kernels and the plain form agree;
distributions.
"""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native
from shmtensor.ops import philox


def test_known_answer_of_philox() -> None:
    """The vectors of Salmon et al.'s Random123."""
    words = [hex(w) for w in philox.blocks(0, 0, 1)[0]]
    assert words == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 7, 1001])
def test_kernels_draw_the_numbers_of_the_plain_form(dtype: str, n: int) -> None:
    kind = np.dtype(dtype)
    ours = native.uniform_(np.empty(n, kind), 7, 3, 0.0, 1.0)
    assert np.array_equal(ours, philox.uniform(7, 3, n, kind))
    normal = native.normal_(np.empty(n, kind), 7, 3, 0.0, 1.0)
    assert np.allclose(normal, philox.normal(7, 3, n, kind), 1e-5, 1e-6)


DRAWS: dict[str, Any] = {
    "rand": lambda g: st.rand(5, generator=g),
    "randn": lambda g: st.randn(5, dtype=st.float64, generator=g),
    "randint": lambda g: st.randint(0, 10, (5,), generator=g),
    "wide randint": lambda g: st.randint(-(2**62), 2**62, (5,), generator=g),
    "randperm": lambda g: st.randperm(9, generator=g),
    "bernoulli": lambda g: st.bernoulli(st.full((9,), 0.5), generator=g),
    "normal_": lambda g: st.empty(5).normal_(1.0, 2.0, generator=g),
    "uniform_": lambda g: st.empty(5).uniform_(1.0, 2.0, generator=g),
    "exponential_": lambda g: st.empty(5).exponential_(generator=g),
    "multinomial": lambda g: st.multinomial(st.ones(50), 9, generator=g),
    "poisson": lambda g: st.poisson(st.full((30,), 4.0), generator=g),
    "binomial": lambda g: st.binomial(st.full((30,), 9.0), st.tensor(0.5), generator=g),
}


@pytest.mark.parametrize("name", DRAWS)
def test_same_seed_same_bits_and_state_goes_on(name: str) -> None:
    draw, g = DRAWS[name], st.Generator().manual_seed(5)
    first, state = draw(g), g.get_state()
    second = draw(g)
    assert draw(g.manual_seed(5)).tolist() == first.tolist()
    g.set_state(state)
    assert draw(g).tolist() == second.tolist()
    assert first.tolist() != second.tolist()


def test_default_stream() -> None:
    st.manual_seed(11)
    assert st.initial_seed() == 11
    state = st.get_rng_state()
    x = st.rand(4)
    st.set_rng_state(state)
    with st.random.fork_rng():
        assert st.rand(4).tolist() == x.tolist()
    assert st.rand(4).tolist() == x.tolist()
    assert st.seed() == st.initial_seed() == st.default_generator.initial_seed()


def test_generator_is_pickled_with_its_state() -> None:
    g = st.Generator().manual_seed(3)
    st.rand(5, generator=g)
    twin = pickle.loads(pickle.dumps(g))
    assert st.rand(5, generator=twin).tolist() == st.rand(5, generator=g).tolist()


def test_dropout_follows_the_seed() -> None:
    x = st.ones(1000, requires_grad=True)
    st.manual_seed(1)
    out = st.dropout(x, 0.3)
    st.manual_seed(1)
    assert st.dropout(x, 0.3).tolist() == out.tolist()
    assert 0.6 < (out != 0).sum().item() / 1000 < 0.8
    out.sum().backward()
    assert x.grad.tolist() == pytest.approx(out.tolist())


@pytest.mark.parametrize(
    ("draw", "mean", "std"),
    [
        (lambda: st.rand(40000), 0.5, math.sqrt(1 / 12)),
        (lambda: st.randn(40000), 0.0, 1.0),
        (lambda: st.randint(10, (40000,)).double(), 4.5, math.sqrt(99 / 12)),
        (lambda: st.empty(40000).exponential_(2.0), 0.5, 0.5),
        (lambda: st.bernoulli(st.full((40000,), 0.25)), 0.25, math.sqrt(0.1875)),
        (lambda: st.normal(2.0, 3.0, (40000,)), 2.0, 3.0),
        (lambda: st.empty(40000).geometric_(0.5), 2.0, math.sqrt(2.0)),
        (lambda: st.poisson(st.full((40000,), 4.0)), 4.0, 2.0),
        (lambda: st.binomial(st.full((40000,), 9.0), st.tensor(0.5)), 4.5, 1.5),
    ],
)
def test_moments(draw: Any, mean: float, std: float) -> None:
    st.manual_seed(0)
    x = draw()
    assert x.mean().item() == pytest.approx(mean, abs=0.03 * (1 + std))
    assert x.std().item() == pytest.approx(std, rel=0.03)


def test_permutation_holds_every_number() -> None:
    assert sorted(st.randperm(1000).tolist()) == list(range(1000))
    drawn = st.multinomial(st.tensor([0.0, 1.0, 2.0, 0.0]), 2).tolist()
    assert sorted(drawn) == [1, 2]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: st.randint(3, 3, (2,)), r"low must be less than high: 3, 3"),
        (lambda: st.bernoulli(st.full((2,), 1.5)), r"probabilities must lie in \[0, 1\]: 1.5"),
        (lambda: st.empty(2).normal_(0, -1), r"std must not be negative: -1"),
        (lambda: st.multinomial(st.ones(2), 3), r"cannot draw 3 of 2"),
        (lambda: st.rand(2, dtype=st.int64), r"not int64"),
        (lambda: st.poisson(st.tensor([-1.0])), r"rates must be finite and not negative: -1.0"),
        (lambda: st.poisson(st.arange(3)), r"rates must be floating point: int64"),
        (lambda: st.binomial(st.ones(1), st.tensor(2.0)), r"chances must lie in \[0, 1\]: 2.0"),
        (lambda: st.binomial(-st.ones(1), st.tensor(0.5)), r"must not be negative: -1.0"),
        (lambda: st.binomial(st.ones(1), st.ones(1).double()), r"one floating dtype: float32, fl"),
        (lambda: st.Generator().set_state(st.zeros(3)), r"16 bytes are needed: float32"),
    ],
)
def test_wrong_use_is_said_with_its_values(wrong: Any, said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        wrong()


@pytest.mark.parametrize("dtype", [st.float16, st.bfloat16], ids=str)
def test_one_number_of_16_bits(dtype: Any) -> None:
    x = st.rand((), dtype=dtype)
    assert 0 <= x.item() < 1
    assert x.shape == ()
    assert 2 <= st.zeros((), dtype=dtype).uniform_(2, 3).item() < 3
