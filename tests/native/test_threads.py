"""Results have the same bits on any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from shmtensor import native

RNG = np.random.default_rng(3)
Results = Callable[[], Iterable[Any]]


def normal(*shape: int, dtype: str = "f4") -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def scattered() -> Results:
    """Rows and columns: of the transposed operands also the same bits."""
    x, index, rows = normal(60, 300), RNG.integers(0, 60, (500, 300)), RNG.integers(0, 60, 5000)
    source, slices = normal(500, 300), x[rows] * 0.3

    def run() -> list[Any]:
        by_rows, by_columns = np.empty_like(x), np.empty_like(x.T, order="C")
        added = np.empty_like(x)
        assert native.scatter(by_rows, source, index, 0, 1, x)
        assert native.scatter(by_columns, source.T.copy(), index.T.copy(), 1, 1, x.T.copy())
        assert native.index_add(added, slices, rows, 0, x)
        np.testing.assert_array_equal(by_rows, by_columns.T)
        return [by_rows, added]

    return run


def reductions() -> Results:
    x, factors = normal(300, 1000), np.exp(normal(300, 1000) / 30)
    wild = [normal(300, 5000, dtype=t) for t in ("f4", "f8")]
    gaps = [a for w in wild for a in (w[::2], w[:, ::2], w.reshape(-1)[::3])]

    def run() -> list[Any]:
        each = (
            (native.sum(x, d), native.prod(factors, d, False), native.argminmax(x, d, False, True),
             native.var(x, d, 1, False, False))
            for d in (None, 0, 1)
        )  # fmt: skip
        return [a for group in each for a in group] + [native.sum(a) for a in gaps]

    return run


def cumulative() -> Results:
    shapes, dtypes = ((200_000,), (300, 900), (90, 40, 30)), ("f4", "f8")
    cases = [RNG.random(shape).astype(t) for shape in shapes for t in dtypes]
    return lambda: [native.cumsum_cumprod(x, 0, False) for x in cases]


def losses() -> Results:
    x, y, logits = normal(300_001), RNG.random(300_001).astype("f4"), normal(60_001, 4)
    target, weight = RNG.integers(0, 4, 60_001), RNG.uniform(0.5, 2, 4).astype("f4")
    return lambda: [
        native.pointwise_loss(x, y, "bce_with_logits", "mean", 0.0, 0.0),
        native.nll_loss(logits, target, weight, 2, "mean"),
        native.cross_entropy(logits, target, -100, "mean")[0],
        native.softmax(logits, 0),
    ]


def recurrent(kind: str, gates: int) -> Results:
    sizes, calls = np.array([40, 40, 30]), []
    for n in (130, 128):  # products by BLAS, and in tiles
        c, bias = normal(40, n) if gates == 4 else None, normal(3 * n) if gates == 3 else None
        x, h, w = normal(110, gates * n), normal(40, n), normal(gates * n, n) / 4
        calls.append((kind, x, h, c, w, bias, None, sizes, False))
    return lambda: [array for call in calls for array in native.rnn_layer(*call)]


def attention(heads: int) -> Results:
    query, key, mask = normal(heads, 300, 16), normal(heads, 520, 16), RNG.random((300, 520)) < 0.7

    def all_results() -> list[Any]:
        results: list[Any] = []
        for value, is_causal in values:  # products by BLAS, and in tiles
            options = (0.3, is_causal, 0.2, 3, 0)
            out, logsumexp = native.attention(query, key, value, mask, *options) or ()
            gradients = native.attention_backward(
                out, out, logsumexp, query, key, value, mask, *options
            )
            results += [out, logsumexp, *(gradients or ())]
        return results

    values = [(normal(heads, 520, 24), False), (normal(heads, 520, 32), True)]
    return all_results


def products() -> Results:
    x, y, batch = normal(301, 517), normal(517, 402), normal(200, 20, 20)
    return lambda: [native.matmul(x, y), *native.lu_factor(batch)]


def pointwise() -> Results:
    x, exp = normal(1_000_003), native.parallel(np.exp)
    return lambda: [exp(x), native.normal_(np.empty(50_000), 3, 0, 0, 1)]


def sorted_rows() -> Results:
    x = normal(300, 900).round(1)
    return lambda: [a for dim in (0, 1) for a in native.sort(x, dim, True) or ()]


CASES: dict[str, Results] = {
    "scatter": scattered(),
    "reductions": reductions(),
    "cumulative sums": cumulative(),
    "losses": losses(),
    **{kind: recurrent(kind, n) for kind, n in (("lstm", 4), ("gru", 3), ("tanh", 1), ("relu", 1))},
    "products": products(),
    "attention of few heads": attention(3),
    "attention of many heads": attention(17),
    "pointwise": pointwise(),
    "sort": sorted_rows(),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_on_any_number_of_threads(name: str) -> None:
    before, bits = native.get_num_threads(), set()
    try:
        for n in (1, 2, 3, 5):
            native.set_num_threads(n)
            bits.add(b"".join(x.tobytes() for x in CASES[name]()))
    finally:
        native.set_num_threads(before)
    assert len(bits) == 1
    assert bits != {b""}
