"""The kernel of scaled_dot_product_attention against the row's NumPy form, over the borders of its
blocks of 128 queries (64 if causal) and 256 keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shmtensor import native
from shmtensor.ops.nn.scaled_dot_product_attention import _attention

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(5)
BOUNDS = {"f4": 2e-5, "f8": 1e-12}

# batch, heads, heads of keys, queries, keys, depth, columns of values
SHAPES = {
    "one block": ((2, 3), 3, 5, 7, 4, 3),
    "blocks": ((1, 2), 2, 130, 517, 16, 8),
    "many heads": ((4, 5), 5, 129, 257, 8, 8),
    "groups": ((2, 4), 2, 140, 260, 8, 5),
    "one query": ((3, 2), 2, 1, 300, 8, 8),
    "one head": ((), 0, 150, 301, 7, 9),
    "tiles": ((1, 2), 2, 130, 517, 16, 48),
    "tiles of many heads": ((3, 6), 6, 65, 300, 32, 16),
}


def operands(name: str, dtype: str) -> list[Array]:
    batch, kv_heads, queries, keys, depth, columns = SHAPES[name]
    kv_batch = (*batch[:-1], kv_heads) if batch else ()
    shapes = ((*batch, queries, depth), (*kv_batch, keys, depth), (*kv_batch, keys, columns))
    return [RANDOM.standard_normal(shape).astype(dtype) for shape in shapes]


def mask_of(kind: str, query: Array, key: Array) -> Array | None:
    shape = (query.shape[-2], key.shape[-2])
    if kind == "bool":
        return RANDOM.random(shape) < 0.4
    if kind == "a row":
        return RANDOM.random((1, shape[1])) < 0.4
    if kind == "numbers of each head":
        numbers = RANDOM.standard_normal((*query.shape[:-2], *shape)).astype(query.dtype)
        return np.where(RANDOM.random(shape) < 0.2, -np.inf, numbers).astype(query.dtype)
    return None


def reference(xs: list[Any], *options: Any) -> tuple[Array, Array]:
    out, logsumexp = _attention.forward(np, [x for x in xs if x is not None], *options)
    return out, logsumexp


def differences(xs: list[Any], g: Array, options: tuple[Any, ...]) -> list[float]:
    """The derivatives by query, key and value in a random direction each, in float64."""
    slopes = []
    for i in range(3):
        direction, step = RANDOM.standard_normal(xs[i].shape), 1e-6
        sides = []
        for sign in (1, -1):
            moved = [x if k != i else x + sign * step * direction for k, x in enumerate(xs)]
            sides.append((reference(moved, *options)[0] * g).sum())
        slopes.append((direction, (sides[0] - sides[1]) / (2 * step)))
    return slopes


CASES = [
    (shape, kind, is_causal, p)
    for shape in SHAPES
    for kind, is_causal, p in (
        ("none", False, 0.0),
        ("none", True, 0.0),
        ("bool", False, 0.0),
        ("a row", False, 0.3),
        ("numbers of each head", False, 0.0),
        ("none", True, 0.5),
    )
]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("shape", "kind", "is_causal", "p"), CASES)
def test_results_are_those_of_the_numpy_form(
    shape: str, kind: str, is_causal: bool, p: float, dtype: str
) -> None:
    query, key, value = operands(shape, dtype)
    mask, options = mask_of(kind, query, key), (0.4, is_causal, p, 11, 5)
    results = native.attention(query, key, value, mask, *options)
    assert results is not None
    for result, expected in zip(
        results, reference([query, key, value, mask], *options), strict=True
    ):
        assert result.dtype == dtype
        assert np.allclose(result, expected, rtol=BOUNDS[dtype], atol=BOUNDS[dtype])


@pytest.mark.parametrize(("shape", "kind", "is_causal", "p"), CASES)
def test_gradients_are_the_differences_of_the_numpy_form(
    shape: str, kind: str, is_causal: bool, p: float
) -> None:
    xs: list[Any] = operands(shape, "f8")
    xs.append(mask_of(kind, *xs[:2]))
    options = (0.4, is_causal, p, 11, 5)
    out, logsumexp = reference(xs, *options)
    g = RANDOM.standard_normal(out.shape)
    gradients = native.attention_backward(g, out, logsumexp, *xs, *options)
    assert gradients is not None
    for gradient, (direction, slope) in zip(gradients, differences(xs, g, options), strict=True):
        assert np.isclose((gradient * direction).sum(), slope, rtol=1e-5, atol=1e-5)
    in_float32 = native.attention_backward(
        *(x.astype("f4") for x in (g, out, logsumexp, *xs[:3])),
        xs[3] if xs[3] is None or xs[3].dtype == bool else xs[3].astype("f4"),
        *options,
    )
    assert in_float32 is not None
    for result, expected in zip(in_float32, gradients, strict=True):
        assert np.allclose(result, expected, rtol=1e-3, atol=2e-5 * max(1, np.abs(expected).max()))


def test_operands_may_be_transposed() -> None:
    """As those of a layer are, whose heads are cut from its features."""
    query, key, value = (RANDOM.standard_normal((2, 30, 4, 8)).swapaxes(1, 2) for _ in range(3))
    results = native.attention(query, key, value, None, 1.0, False, 0.0, 0, 0)
    contiguous = [np.ascontiguousarray(x) for x in (query, key, value)]
    expected = native.attention(*contiguous, None, 1.0, False, 0.0, 0, 0)
    assert results is not None
    assert expected is not None
    assert np.array_equal(results[0], expected[0])
    backwards = [x[..., ::-1] for x in contiguous]
    reversed_results = native.attention(*backwards, None, 1.0, False, 0.0, 0, 0)
    assert reversed_results is not None
    assert np.allclose(reversed_results[0], expected[0][..., ::-1])


def test_a_query_without_keys_gives_0_and_no_gradient() -> None:
    query, key, value = operands("blocks", "f8")
    mask = np.ones((130, 517), bool)
    mask[3] = mask[128, :300] = False
    for each in (mask, np.where(mask, 0, -np.inf)):
        results = native.attention(query, key, value, each, 1.0, False, 0.0, 0, 0)
        assert results is not None
        out, logsumexp = results
        assert (out[..., 3, :] == 0).all()
        assert (logsumexp[..., 3] == np.inf).all()
        assert np.isfinite(logsumexp[..., 128]).all()
        gradients = native.attention_backward(
            np.ones_like(out), out, logsumexp, query, key, value, each, 1.0, False, 0.0, 0, 0
        )
        assert gradients is not None
        assert all(np.isfinite(x).all() for x in gradients)
        assert (gradients[0][..., 3, :] == 0).all()


def test_a_nan_spreads_to_its_queries_alone() -> None:
    query, key, value = operands("blocks", "f4")
    query[0, 0, 7, 2] = np.nan
    results = native.attention(query, key, value, None, 1.0, False, 0.0, 0, 0)
    assert results is not None
    is_nan = np.isnan(results[0]).any(-1)
    assert is_nan[0, 0, 7]
    assert is_nan.sum() == 1


def test_what_the_kernel_does_not_support_is_none() -> None:
    x = np.ones((2, 3, 4))
    rest = (1.0, False, 0.0, 0, 0)
    assert native.attention(x.astype(np.float16), x, x, None, *rest) is None
    assert native.attention(x, x, x.astype("f4"), None, *rest) is None
    assert native.attention(x, x[..., :2], x, None, *rest) is None
    assert native.attention(x, x, x[:, :2], None, *rest) is None
    assert native.attention(x, x[0], x[0], None, *rest) is None
    assert native.attention(x, x, x, np.ones((3, 1), bool), *rest) is None
    assert native.attention(x, x, x, np.ones((3, 3), "f4"), *rest) is None
    assert native.attention(x, x, x, np.ones((5, 3, 3), bool), *rest) is None
    assert native.attention(x, x, x, None, 1.0, False, 1.0, 0, 0) is None
