"""Einstein's notation: NumPy's values, and gradients that the notation itself expresses."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st

SIZES = dict(zip("abcdefgh", (2, 3, 4, 5, 2, 3, 1, 6), strict=True))
PAIRS = [
    "ab,bc->ac", "ab,bc->ca", "ba,bc->ac", "ab,cb->ac", "ab,b->a", "b,ab->a", "ab,ab->a",
    "ab,ab->b", "ab,ab->", "ab,ba->ab", "a,b->ab", "a,b->ba", "a,a->a", "a,a->", "dab,dbc->dac",
    "dab,dbc->cda",
    "daeb,dceb->deac", "deab,decb->deac", "abcd,cd->ab", "abcd,cdef->abef", "abcd,cdef->feab",
    "abcd,bc->ad", "ab,cd->abcd", "ab,cd->dbca", "ab,ac->abc", "ag,gb->ab", ",ab->ab", "ab,->ba",
    "abc,abc->abc", "ab,cb->c", "abc,cd->d", "aab,bc->ac", "ab,bb->a",
]  # fmt: skip


@pytest.mark.parametrize("equation", PAIRS)
def test_two_operands(equation: str) -> None:
    subscripts, _, _ = equation.partition("->")
    rng = np.random.default_rng(7)
    x, y = (rng.normal(size=[SIZES[k] for k in word]) for word in subscripts.split(","))
    a, b = st.tensor(x).requires_grad_(), st.tensor(y).requires_grad_()
    out = st.einsum(equation, a, b)
    want = np.einsum(equation, x, y)
    np.testing.assert_allclose(out.detach().numpy(), want, rtol=1e-12, atol=1e-12)
    assert tuple(out.shape) == want.shape
    g = rng.normal(size=want.shape)
    slopes = st.autograd.grad(out, (a, b), st.tensor(g))
    for operand, slope in zip((x, y), slopes, strict=True):
        other = np.zeros_like(operand)
        for place in np.ndindex(operand.shape):
            one = np.zeros_like(operand)
            one[place] = 1
            pair = (one, y) if operand is x else (x, one)
            other[place] = (np.einsum(equation, *pair) * g).sum()
        np.testing.assert_allclose(slope.numpy(), other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.complex64])
def test_other_dtypes_layouts_and_spellings(dtype: type) -> None:
    x = np.arange(24).reshape(2, 3, 4).astype(dtype)
    y = np.arange(20).reshape(5, 4).astype(dtype)
    want = np.einsum("abc,dc->dab", x, y)
    a, b = st.tensor(x.T.copy()).permute(2, 1, 0), st.tensor(y)
    np.testing.assert_array_equal(st.einsum("abc,dc->dab", a, b).numpy(), want)
    np.testing.assert_array_equal(st.einsum(" a b c , d c -> d a b ", [a, b]).numpy(), want)
    np.testing.assert_array_equal(st.einsum(a, [0, 1, 2], b, [3, 2], [3, 0, 1]).numpy(), want)
    np.testing.assert_array_equal(st.einsum("...c,dc->d...", a, b).numpy(), want)
    np.testing.assert_array_equal(st.einsum("abc,dc", a, b).numpy(), np.einsum("abc,dc", x, y))


@pytest.mark.parametrize("equation", ["ab,bc->ac", "ab,ab->ab", "ab,ab->a", "ab,cb->abc"])
def test_sizes_of_one_stretch_and_none_give_nothing(equation: str) -> None:
    subscripts, _, _ = equation.partition("->")
    first, second = (word for word in subscripts.split(","))
    full = np.arange(9.0).reshape(3, 3)
    shape = tuple(1 if k == "b" else 3 for k in first)
    x, y = full[tuple(slice(n) for n in shape)], full + 1
    want = np.einsum(equation, np.broadcast_to(x, (3, 3)), y)
    np.testing.assert_array_equal(st.einsum(equation, st.tensor(x), st.tensor(y)).numpy(), want)
    x, y = (np.ones([0 if k == "b" else 3 for k in word]) for word in (first, second))
    want = np.einsum(equation, x, y)
    np.testing.assert_array_equal(st.einsum(equation, st.tensor(x), st.tensor(y)).numpy(), want)


def test_sizes_that_differ_are_named_at_every_call() -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError, match="sizes of 'b' differ"):
            st.einsum("ab,bc->ac", st.ones(2, 3), st.ones(4, 5))
        with pytest.raises(RuntimeError, match="the term does not fit 2 dimensions"):
            st.einsum("abc,bc->a", st.ones(2, 3), st.ones(4, 5))
