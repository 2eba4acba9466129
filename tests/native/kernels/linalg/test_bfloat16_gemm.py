"""Products of bfloat16: by the CPU's instruction, or in float32 where it has none.

What is promised does not depend on which of the two computes: integers whose sums float32 holds
are exact before the result is rounded, and other sums are within a bound of the exact ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native

from ...cases import each

F = st.nn.functional
RNG = np.random.default_rng(0)
# The sides of tiles (12 rows, 32 columns, 16 a vector, 32 numbers of depth), one less and one more.
SHAPES = [(m, k, n) for m in (1, 2, 11, 12, 13, 25) for k in (1, 2, 31, 33, 70)
          for n in (1, 2, 15, 16, 17, 31, 33, 64)] + [
    (130, 513, 65), (65, 1100, 130), (300, 64, 300), (1, 600, 300), (300, 600, 1),
    (257, 130, 600),
]  # fmt: skip
LAYOUTS: list[Callable[[Any], Any]] = [
    lambda x: x,
    lambda x: x.mT.contiguous().mT,
    lambda x: x.repeat_interleave(2, -1)[..., ::2],
]


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    n = st.get_num_threads()
    yield
    st.set_num_threads(n)


def integers(*shape: int) -> Any:
    """Small integers: all their products and sums are exact in float32."""
    return st.tensor(RNG.integers(-3, 4, shape).astype("f")).bfloat16()


def rounded(exact: Any) -> np.ndarray:
    """Numbers of float64, which float32 holds, rounded to bfloat16."""
    return values(st.tensor(np.asarray(exact, np.float32)).bfloat16())


def values(x: Any) -> np.ndarray:
    """The numbers of a bfloat16 tensor; both zeros are equal."""
    assert x.dtype is st.bfloat16
    return x.detach().float().numpy()


def bits(x: Any) -> np.ndarray:
    return x.view(st.int16).numpy()


def exact(x: Any) -> np.ndarray:
    return x.detach().double().numpy()


@each("shape", SHAPES)
def test_products_of_integers_are_rounded_once(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    x, y, bias = integers(m, k), integers(k, n), integers(n)
    want = exact(x) @ exact(y)
    for left in LAYOUTS:
        for right in LAYOUTS:
            np.testing.assert_array_equal(values(left(x) @ right(y)), rounded(want))
    np.testing.assert_array_equal(values(F.linear(x, y.T, bias)), rounded(want + exact(bias)))
    np.testing.assert_array_equal(values(F.linear(x, y.T.contiguous())), rounded(want))
    np.testing.assert_array_equal(values(st.addmm(bias, x, y)), rounded(want + exact(bias)))
    np.testing.assert_array_equal(values(x[0] @ y), rounded(want[0]))
    np.testing.assert_array_equal(values(x @ y[:, 0]), rounded(want[:, 0]))
    np.testing.assert_array_equal(values(st.dot(x[0], y[:, 0])), rounded(want[0, 0]))


@pytest.mark.parametrize(
    ("x_shape", "y_shape"),
    [
        ((3, 20, 40), (3, 40, 50)), ((2, 3, 20, 40), (3, 40, 50)), ((5, 20, 40), (40, 50)),
        ((20, 40), (5, 40, 50)), ((2, 1, 130, 140), (4, 140, 150)), ((0, 3, 4), (4, 5)),
        ((3, 0), (0, 5)), ((4, 2, 3), (4, 3, 2)), ((40,), (3, 40, 5)),
    ],
)  # fmt: skip
def test_batches(x_shape: tuple[int, ...], y_shape: tuple[int, ...]) -> None:
    x, y = integers(*x_shape), integers(*y_shape)
    want = exact(x) @ exact(y)
    for left in LAYOUTS if x.ndim > 1 else LAYOUTS[:1]:
        for right in LAYOUTS:
            np.testing.assert_array_equal(values(left(x) @ right(y)), rounded(want))
            if x.ndim == y.ndim == 3 and x.shape[0] == y.shape[0]:
                np.testing.assert_array_equal(values(st.bmm(left(x), right(y))), rounded(want))


def test_gradients_of_products_are_products_of_bfloat16() -> None:
    x, weight, bias = (integers(*s).requires_grad_() for s in ((6, 20, 70), (40, 70), (40,)))
    g = integers(6, 20, 40)
    got = st.autograd.grad(F.linear(x, weight, bias), [x, weight, bias], g)
    wide = exact(g)
    np.testing.assert_array_equal(values(got[0]), rounded(wide @ exact(weight)))
    np.testing.assert_array_equal(values(got[1]), rounded(np.einsum("abo,abi->oi", wide, exact(x))))
    np.testing.assert_array_equal(values(got[2]), rounded(wide.sum((0, 1))))
    a, b = integers(3, 20, 70).requires_grad_(), integers(3, 70, 40).requires_grad_()
    g = integers(3, 20, 40)
    for product in (st.matmul, st.bmm):
        ga, gb = st.autograd.grad(product(a, b), [a, b], g)
        np.testing.assert_array_equal(values(ga), rounded(exact(g) @ exact(b).swapaxes(1, 2)))
        np.testing.assert_array_equal(values(gb), rounded(exact(a).swapaxes(1, 2) @ exact(g)))


@pytest.mark.parametrize("shape", [(64, 64, 64), (200, 3000, 100), (1, 5000, 40), (300, 33, 1)])
def test_sums_are_of_float32(shape: tuple[int, int, int]) -> None:
    """Each of k additions of float32 and the last rounding may contribute an error of its own."""
    m, k, n = shape
    x, y = st.randn(m, k).bfloat16(), st.randn(k, n).bfloat16()
    got, want = exact(x @ y), exact(x) @ exact(y)
    size = np.abs(exact(x)) @ np.abs(exact(y))
    assert (np.abs(got - want) <= 2.0**-8 * np.abs(want) + k * 2.0**-22 * size).all()


def test_the_bits_do_not_depend_on_the_number_of_threads() -> None:
    for m, k, n in ((256, 1100, 700), (1, 3000, 700), (700, 3000, 1), (1000, 40, 10)):
        x, y, bias = (st.randn(*s).bfloat16() for s in ((m, k), (k, n), (n,)))
        results = []
        for threads in (1, 2, 3):
            st.set_num_threads(threads)
            results.append((bits(x @ y), bits(F.linear(x, y.T.contiguous(), bias))))
        for other in results[1:]:
            np.testing.assert_array_equal(results[0], other)


def test_nan_and_infinities() -> None:
    inf, nan = float("inf"), float("nan")
    for m, k, n in ((30, 33, 40), (1, 33, 40), (2, 2, 2)):
        x, y = st.ones(m, k).bfloat16(), st.ones(k, n).bfloat16()
        x[0, -1], y[-1, 1] = inf, -inf
        assert (x @ y)[0].tolist()[:2] == [inf, -inf]
        y[-1, 0] = 0.0
        y[0, 1] = nan
        product = (x @ y).isnan()
        assert product[:, 1].all()
        assert product[0, 0]  # infinity times 0
        assert product.sum() == m + 1
        assert F.linear(x, y.T.contiguous()).isnan().sum() == m + 1


def test_results_beyond_bfloat16_are_infinite() -> None:
    x = st.full((20, 20), 3e38).bfloat16()
    assert (x @ x).tolist() == [[float("inf")] * 20] * 20
    assert (x @ -x).tolist() == [[-float("inf")] * 20] * 20


def test_the_result_is_written_to_out() -> None:
    x, y = integers(40, 50), integers(50, 60)
    out = st.empty(40, 60, dtype=st.bfloat16)
    assert st.matmul(x, y, out=out) is out
    np.testing.assert_array_equal(values(out), rounded(exact(x) @ exact(y)))


def test_weights_that_are_vectors_and_wrong_shapes() -> None:
    x, weight = integers(3, 4), integers(4)
    np.testing.assert_array_equal(values(F.linear(x, weight)), rounded(exact(x) @ exact(weight)))
    with pytest.raises(RuntimeError, match=r"inner sizes differ: \(3, 4\) @ \(3, 4\)"):
        x @ x
    with pytest.raises(RuntimeError, match="3 is not 4"):
        F.linear(integers(2, 3), x)
    with pytest.raises(RuntimeError, match="batch sizes differ"):
        st.bmm(integers(2, 3, 4), integers(1, 4, 5))


@pytest.mark.skipif(not native.uses_avx512_bf16(), reason="this CPU lacks AVX512_BF16")
def test_the_kernel_takes_bfloat16_itself() -> None:
    x = integers(30, 40)
    np.testing.assert_array_equal(native.matmul(x.array, x.array.T).view(np.int16), bits(x @ x.T))
