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
from shmtensor.ops import ROWS
from shmtensor.ops.random import philox


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
def test_same_seed_same_bits_and_state_continues(name: str) -> None:
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
    indices = st.multinomial(st.tensor([0.0, 1.0, 2.0, 0.0]), 2).tolist()
    assert sorted(indices) == [1, 2]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (4, 9), (300, 70), (2, 40_000), (1, 200_001)])
def test_kernels_draw_the_places_of_the_plain_form(shape: tuple[int, int], dtype: Any) -> None:
    multinomial = ROWS["_multinomial"]
    rng = np.random.default_rng(3)
    x = (rng.integers(0, 9, shape) * (rng.random(shape) < 0.7)).astype(
        dtype
    )  # integers: exact sums
    x[:, -1] = 1
    for arguments in ((1, True, 3, 0), (500, True, 4, 2), (1, False, 5, 0)):
        want = multinomial.forward(np, x, *arguments)
        got = multinomial.numpy(x, *arguments)
        assert got.dtype == np.int64
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(multinomial.numpy(x.T.copy().T, *arguments), want)
        assert (np.take_along_axis(x, got, 1) > 0).all()
    k = int((x > 0).sum(1).min())
    np.testing.assert_array_equal(
        multinomial.numpy(x, k, False, 6, 0), multinomial.forward(np, x, k, False, 6, 0)
    )
    np.testing.assert_array_equal(
        multinomial.numpy(x[0], 3, True, 1, 0), multinomial.numpy(x[:1], 3, True, 1, 0)[0]
    )


def test_the_largest_uniform_number_draws_the_last_weight() -> None:
    u = np.full((2, 1), 1 - 2.0**-53)
    for n in (3, 100_000):
        w = np.zeros((2, n), np.float32)
        w[:, 1] = w[:, n // 2] = 0.1
        np.testing.assert_array_equal(native.multinomial(w, u), [[n // 2], [n // 2]])
        np.testing.assert_array_equal(native.multinomial(w, u * 0), [[1], [1]])


def test_places_come_as_often_as_their_weights_say() -> None:
    st.manual_seed(2)
    w = st.tensor([1.0, 0.0, 3.0, 4.0, 2.0])
    often = st.multinomial(w, 100_000, True).bincount(minlength=5) / 100_000
    np.testing.assert_allclose(often.numpy(), w.numpy() / 10, atol=0.006)
    pairs = st.multinomial(w.expand(50_000, 5), 2)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    first = pairs[:, 0].bincount(minlength=5) / 50_000
    np.testing.assert_allclose(first.numpy(), w.numpy() / 10, atol=0.009)
    third = (pairs[:, 0] == 2) & (pairs[:, 1] == 3)
    assert third.float().mean().item() == pytest.approx(0.3 * 4 / 7, abs=0.009)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, 0.0])
@pytest.mark.parametrize("n", [4, 70_000])
@pytest.mark.parametrize("replacement", [True, False])
def test_wrong_weights_are_refused(bad: float, n: int, replacement: bool) -> None:
    w = st.zeros(2, n)
    w[0, :2] = 1
    w[1, n - 1] = bad
    with pytest.raises(RuntimeError, match="finite, not negative, and not all 0"):
        st.multinomial(w, 1 if replacement else 2, replacement)
    w[1, n - 1] = 1
    with pytest.raises(RuntimeError, match="fewer weights above 0 than samples: 2"):
        st.multinomial(w, 2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: st.randint(3, 3, (2,)), r"but got from=3 >= to=3"),
        (lambda: st.bernoulli(st.full((2,), 1.5)), r"probabilities must lie in \[0, 1\]: 1.5"),
        (lambda: st.empty(2).normal_(0, -1), r"std must not be negative: -1"),
        (lambda: st.multinomial(st.ones(2), 3), r"cannot draw 3 of 2"),
        (lambda: st.rand(2, dtype=st.int64), r"not implemented for int64"),
        (lambda: st.poisson(st.tensor([-1.0])), r"rates must be finite and not negative: -1.0"),
        (lambda: st.poisson(st.arange(3)), r"rates must be floating point: int64"),
        (lambda: st.binomial(st.ones(1), st.tensor(2.0)), r"chances must lie in \[0, 1\]: 2.0"),
        (lambda: st.binomial(-st.ones(1), st.tensor(0.5)), r"must not be negative: -1.0"),
        (lambda: st.binomial(st.ones(1), st.ones(1).double()), r"one floating dtype: float32, fl"),
        (lambda: st.Generator().set_state(st.zeros(3)), r"16 bytes are needed: float32"),
    ],
)
def test_wrong_use_shows_the_values(wrong: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        wrong()


@pytest.mark.parametrize("dtype", [st.float16, st.bfloat16], ids=str)
def test_one_number_of_16_bits(dtype: Any) -> None:
    x = st.rand((), dtype=dtype)
    assert 0 <= x.item() < 1
    assert x.shape == ()
    assert 2 <= st.zeros((), dtype=dtype).uniform_(2, 3).item() < 3


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: st.randperm(2.5),
        lambda: st.randperm(-1),
        lambda: st.rand(-2),
        lambda: st.rand(2.5),
        lambda: st.default_generator.claim(-1),
        lambda: st.default_generator.claim(0.5),
        lambda: st.default_generator.set_state(st.zeros(3, dtype=st.uint8)),
        lambda: st.manual_seed(2**64),
    ],
)
def test_refused_calls_do_not_change_the_generator(wrong: Any) -> None:
    before = st.get_rng_state()
    with pytest.raises((TypeError, RuntimeError)):
        wrong()
    assert st.equal(st.get_rng_state(), before)
    assert st.rand(3).shape == (3,)


def frequencies(numbers: Any, mass: Any) -> float:
    """The largest difference between a share of the numbers and its probability, in deviations."""
    n, probabilities = numbers.size, np.array([mass(k) for k in range(int(numbers.max()) + 1)])
    shares = np.bincount(numbers.astype(int)) / n
    deviations = np.sqrt(probabilities * (1 - probabilities) / n) + 1 / n
    return float(np.max(np.abs(shares - probabilities) / deviations))


@pytest.mark.parametrize("rate", [0.01, 1.0, 9.9, 10.0, 47.3, 2000.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_poisson_numbers_have_their_distribution(rate: float, dtype: str) -> None:
    x = native.poisson(np.full(200_000, rate, dtype), 5, 9)
    assert x.dtype == dtype
    assert (x == np.floor(x)).all()
    rate = float(np.dtype(dtype).type(rate))

    def mass(k: int) -> float:
        return math.exp(k * math.log(rate) - rate - math.lgamma(k + 1))

    assert frequencies(x, mass) < 5.5
    assert x.mean() == pytest.approx(rate, abs=5 * math.sqrt(rate / x.size))


@pytest.mark.parametrize(
    ("count", "chance"),
    [(1.0, 0.3), (9.0, 0.5), (30.0, 0.9), (25.0, 0.5), (400.0, 0.03), (1000.0, 0.6), (3e4, 0.001)],
)
def test_binomial_numbers_have_their_distribution(count: float, chance: float) -> None:
    x = native.binomial(np.full(200_000, count), np.full(200_000, chance), 5, 9)
    assert x.min() >= 0
    assert x.max() <= count
    assert (x == np.floor(x)).all()

    def mass(k: int) -> float:
        n = int(count)
        return math.exp(
            math.lgamma(n + 1)
            - math.lgamma(k + 1)
            - math.lgamma(n - k + 1)
            + k * math.log(chance)
            + (n - k) * math.log1p(-chance)
        )

    assert frequencies(x, mass) < 5.5
    deviation = math.sqrt(count * chance * (1 - chance) / x.size)
    assert x.mean() == pytest.approx(count * chance, abs=5 * deviation)


def test_large_rates_and_counts() -> None:
    x = native.poisson(np.full(4000, 1e17), 1, 0)
    assert abs(x.mean() - 1e17) < 5 * math.sqrt(1e17 / 4000)
    assert x.std() == pytest.approx(math.sqrt(1e17), rel=0.1)
    y = native.binomial(np.full(4000, 1e12), np.full(4000, 0.25), 1, 0)
    assert y.std() == pytest.approx(math.sqrt(1e12 * 0.1875), rel=0.1)


def test_a_count_depends_on_its_position_alone() -> None:
    rates = np.resize([3.0, 40.0, 0.5], 1000)
    whole = native.poisson(rates, 7, 100)
    part = native.poisson(rates[300:], 7, 400)
    np.testing.assert_array_equal(whole[300:], part)
    chances = np.full(1000, 0.4)
    whole = native.binomial(rates, chances, 7, 100)
    np.testing.assert_array_equal(whole[300:], native.binomial(rates[300:], chances[300:], 7, 400))


def test_edges_of_counts() -> None:
    assert native.poisson(np.zeros(5), 1, 2).tolist() == [0] * 5
    n = np.array([0.0, 7.0, 7.9])
    assert native.binomial(n, np.ones(3), 1, 2).tolist() == [0, 7, 7]
    assert native.binomial(n, np.zeros(3), 1, 2).tolist() == [0, 0, 0]
    with pytest.raises(TypeError, match=r"poisson: rates must be float32 or float64: int64"):
        native.poisson(np.arange(3), 1, 2)
    with pytest.raises(TypeError, match=r"differ in dtype: float64, float32"):
        native.binomial(np.ones(3), np.ones(3, "f"), 1, 2)
    with pytest.raises(RuntimeError, match=r"shapes differ"):
        native.binomial(np.ones(3), np.ones(2), 1, 2)


@pytest.mark.parametrize("dtype", [st.float16, st.bfloat16])
def test_counts_of_16_bits(dtype: Any) -> None:
    st.manual_seed(3)
    x = st.poisson(st.full((5,), 4.0, dtype=dtype))
    y = st.binomial(x, st.full((5,), 0.5, dtype=dtype))
    assert x.dtype == y.dtype == dtype
    st.manual_seed(3)
    assert st.poisson(st.full((5,), 4.0)).tolist() == x.tolist()
