"""Python numbers with tensors: factors that do not fit, elements that a dtype cannot hold, and
which operands must be tensors or of one dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional as F

ones = st.ones(2)
integral = st.ones(2, dtype=st.int64)
flags = st.tensor([True, False])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: st.add(integral, integral, alpha=1.5),
        lambda: st.add(integral, 2, alpha=1.0),
        lambda: st.sub(integral, 2, alpha=1.5),
        lambda: st.rsub(integral, 2, alpha=1.5),
        lambda: integral.clone().add_(2, alpha=1.5),
        lambda: st.add(ones, 2, alpha=1j),
        lambda: st.add(ones, ones, alpha=True),
        lambda: st.addcmul(ones, ones, ones, value=1j),
    ],
)
def test_a_factor_has_the_category_of_the_result(wrong: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match=r"(alpha|value) does not fit: .* the result is of"):
        wrong()


def test_factors_that_fit() -> None:
    assert st.add(integral, 2.5, alpha=1.5).tolist() == [4.75, 4.75]
    assert st.add(flags, True, alpha=2).tolist() == [True, True]
    assert st.add(flags, flags, alpha=False).tolist() == [True, False]
    small = st.add(integral.to(st.int8), flags, alpha=2)
    assert small.dtype == st.int8
    assert small.tolist() == [3, 1]
    assert st.addcmul(integral, integral, integral, value=-2.9).tolist() == [-1, -1]  # truncated


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (st.uint8, 300),
        (st.uint8, -256),
        (st.uint8, -1.5),
        (st.int8, 128),
        (st.int32, 1e20),
        (st.int32, float("nan")),
        (st.int64, 1 << 63),
        (st.float32, 1e300),
        (st.float32, 1j),
    ],
)
@pytest.mark.parametrize("form", ["full", "new_full", "fill_", "masked_fill", "item", "places"])
def test_a_number_that_does_not_fit_is_refused(dtype: Any, value: Any, form: str) -> None:
    x = st.ones(2, dtype=dtype)
    with pytest.raises(RuntimeError, match=r"without overflow|does not fit into"):
        if form == "full":
            st.full((2,), value, dtype=dtype)
        elif form == "new_full":
            x.new_full((2,), value)
        elif form == "fill_":
            x.fill_(value)
        elif form == "masked_fill":
            x.masked_fill(flags, value)
        else:
            x[0 if form == "item" else st.tensor([0])] = value
    assert x.tolist() == [1, 1]


def test_numbers_that_fit() -> None:
    assert st.full((1,), -1, dtype=st.uint8).tolist() == [255]
    assert st.full((1,), 2 + 0j, dtype=st.float32).tolist() == [2]
    assert st.full((1,), 3j, dtype=st.bool).tolist() == [True]
    assert st.full((1,), float("-inf"), dtype=st.float16).tolist() == [float("-inf")]
    x = st.ones(3, dtype=st.float16)
    x[0] = 1e6
    assert x.tolist() == [float("inf"), 1, 1]
    with pytest.raises(RuntimeError, match="float16 without overflow: -1000000000"):
        x.masked_fill(x > 0, -1e9)
    assert (st.tensor([1], dtype=st.uint8) + 300).tolist() == [45]  # arithmetic wraps around
    with pytest.raises(OverflowError, match="too big"):
        integral + (1 << 64)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: st.addcmul(ones, 2.0, ones),
        lambda: st.addcdiv(ones, ones, 2.0),
        lambda: st.lerp(ones, 2.0, 0.5),
        lambda: st.logaddexp2(ones, 2.0),
        lambda: st.complex(ones, 2.0),
        lambda: st.polar(2.0, ones),
        lambda: ones.clone().__setitem__(0, "a"),
        lambda: ones.clone().__setitem__(0, None),
        lambda: ones["a"],
        lambda: ones[None, b"a"],
    ],
)
def test_arguments_that_must_be_tensors(wrong: Callable[[], Any]) -> None:
    with pytest.raises(TypeError):
        wrong()


double = ones.double()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: st.addcdiv(ones, integral, integral),
        lambda: F.relu(flags),
        lambda: F.dropout(integral),
        lambda: st.isin(flags, flags),
        lambda: F.prelu(ones, double[:1]),
        lambda: F.layer_norm(ones, (2,), double),
        lambda: F.layer_norm(double, (2,), ones, ones),
        lambda: F.group_norm(ones[None], 1, ones, double),
        lambda: F.batch_norm(ones[None], double, double),
        lambda: F.instance_norm(st.ones(1, 2, 3), weight=double),
    ],
)
def test_mixed_dtypes_are_refused(wrong: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError):
        wrong()


@pytest.mark.parametrize("dtype", [st.float16, st.bfloat16])
def test_batch_norm_keeps_16_bits_beside_float32_statistics(dtype: Any) -> None:
    x = st.tensor(np.arange(6.0).reshape(3, 2)).to(dtype)
    mean, var = st.tensor([1.0, 2.0]), st.tensor([4.0, 0.25])
    out = F.batch_norm(x, mean, var, st.ones(2), st.zeros(2))
    assert out.dtype == dtype
    assert np.allclose(out.float().numpy(), (x.float() - mean).numpy() / [2, 0.5], atol=0.05)


def test_dropout_of_integers_without_a_scale() -> None:
    assert F.dropout(integral, p=1.0).dtype == st.int64
    assert F.dropout(integral, training=False) is integral


def test_one_element_becomes_a_number() -> None:
    assert float(st.tensor(2 + 0j)) == int(st.tensor([[2.5]])) == 2
    for kind in (int, float, complex):
        with pytest.raises(ValueError, match=r"only one element tensors .* shape \(2,\)"):
            kind(ones)
    with pytest.raises(RuntimeError, match="without overflow: 1j"):
        float(st.tensor(1j))


def test_complex_numbers_written_into_real_ones_lose_the_imaginary_part() -> None:
    x = st.ones(2)
    with pytest.warns(UserWarning, match="discards the imaginary part: complex64 into float32"):
        x[:] = st.tensor([3 + 1j, 2j])
    assert x.tolist() == [3, 0]
    with pytest.raises(RuntimeError, match="complex64 value does not fit into a float32"):
        x[flags] = st.tensor([1j])


def test_an_index_of_uint8_is_a_mask() -> None:
    x = st.arange(3)
    with pytest.warns(UserWarning, match="dtype uint8 is now deprecated"):
        assert x[st.tensor([1, 0, 1], dtype=st.uint8)].tolist() == [0, 2]
    with pytest.warns(UserWarning, match="dtype uint8 is now deprecated"):
        x[st.tensor([0, 0, 1], dtype=st.uint8)] = 7
    assert x.tolist() == [0, 1, 7]


def test_a_list_of_sequences_is_a_tuple_of_indices() -> None:
    x = st.arange(6).reshape(2, 3)
    for index in ([[0, 1], [1, 2]], [st.tensor([0, 1]), st.tensor([1, 2])]):
        with pytest.warns(UserWarning, match="non-tuple sequence"):
            assert x[index].tolist() == [1, 5]
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        assert x[[0, slice(1, None)]].tolist() == [1, 2]
    assert x[[1, 0]].tolist() == [[3, 4, 5], [0, 1, 2]]


def test_hashes_are_of_bits() -> None:
    x = np.random.default_rng(5).normal(size=(4, 5)).astype("f4")
    bits = x.astype("f8").view("u8")
    t = st.tensor(x)
    assert t.hash_tensor().item() == np.bitwise_xor.reduce(bits, None)
    assert st.hash_tensor(t, 1, keepdim=True).tolist() == [
        [v] for v in np.bitwise_xor.reduce(bits, 1)
    ]
    assert st.equal(t.T.hash_tensor(), t.hash_tensor())
    assert t.hash_tensor().dtype == st.uint64
    assert st.hash_tensor(t.bfloat16()).item() == t.bfloat16().double().hash_tensor().item()
    assert st.hash_tensor(st.tensor([-1, 2], dtype=st.int8)).item() == 2**64 - 1 ^ 2
    assert st.hash_tensor(st.empty(0, 3), 0).tolist() == [0, 0, 0]
    for wrong in (lambda: t.hash_tensor(mode=1), lambda: st.empty(0).hash_tensor()):
        with pytest.raises(RuntimeError, match="hash_tensor"):
            wrong()
    with pytest.raises(NotImplementedError):
        st.hash_tensor(st.ones(2, dtype=st.complex64))


def test_isin_takes_one_number() -> None:
    assert st.isin(3, st.tensor([1, 2, 3])).item() is True
    assert st.isin(st.tensor([0.1, 0.2]), 0.1).tolist() == [True, False]
    assert st.isin(st.tensor([1, 2]), 2.5, invert=True).tolist() == [True, True]
    for wrong in (lambda: st.isin(1, 1), lambda: st.isin([1], st.tensor([1]))):
        with pytest.raises(TypeError, match="isin: a tensor"):
            wrong()


def test_cholesky_solve_reads_one_triangle() -> None:
    b, mixed = st.tensor([[1.0], [2.0]]), st.tensor([[1.0, 5.0], [2.0, 3.0]])
    for upper, part in ((False, st.tril(mixed)), (True, st.triu(mixed))):
        result = st.cholesky_solve(b, mixed, upper)
        want = np.linalg.solve(part.T @ part if upper else part @ part.T, b)
        np.testing.assert_allclose(result, want, atol=1e-5)


def test_svd_lowrank_of_a_small_matrix() -> None:
    assert st.svd_lowrank(st.ones(3, 3))[1].shape == (3,)
    assert st.svd_lowrank(st.ones(8, 8), None)[1].shape == (6,)


def test_vdot_of_complex_numbers() -> None:
    x = np.array([1 + 2j, 3 - 1j], "c8")
    y = np.array([2j, 1 - 1j], "c8")
    assert st.vdot(st.tensor(x), st.tensor(y)).item() == np.vdot(x, y)
    assert st.autograd.gradcheck(
        st.vdot, [st.tensor(v.astype("c16"), requires_grad=True) for v in (x, y)]
    )
    with pytest.raises(RuntimeError, match=r"vdot.*same dtype"):
        st.vdot(st.tensor(x), st.tensor(y).to(st.complex128))
    with pytest.raises(RuntimeError, match=r"vdot|conjugate_dot"):
        st.vdot(st.tensor(x), st.ones(3, dtype=st.complex64))


def test_entr_at_and_below_zero() -> None:
    x = st.tensor([2.0, 1.0, 0.5, 0.0, -1.0, st.nan, st.inf])
    want = [-2 * np.log(2), 0.0, 0.5 * np.log(2), 0.0, -np.inf, np.nan, -np.inf]
    np.testing.assert_allclose(st.special.entr(x), want, rtol=1e-6)
    np.testing.assert_allclose(st.special.entr(x[:3]), want[:3], rtol=1e-6, atol=1e-7)


def test_powers_of_zero_fall_infinitely_below_zero() -> None:
    for base in (0, 0.0, st.zeros(4), st.zeros(4, dtype=st.int64)):
        exponents = st.tensor([-1.0, 0.0, 1.0, -0.5], requires_grad=True)
        (base**exponents).sum().backward()
        assert exponents.grad.tolist() == [-np.inf, 0, 0, -np.inf]
    exponents = st.tensor([2 + 0j, 1j], requires_grad=True)
    st.pow(st.zeros(2, dtype=st.complex64), exponents).abs().sum().backward()
    assert exponents.grad[0] == 0


def test_clamp_has_the_dtype_of_all_three() -> None:
    x = st.ones(3, dtype=st.int64)
    low, high = st.tensor(0.0), st.tensor(3.0, dtype=st.float64)
    assert st.clamp(x, low, high).dtype == st.float64
    assert st.clamp(x, high, low.expand(1)).dtype == st.float32
    assert st.clamp(x.float(), high, high).dtype == st.float32
    assert st.clamp(st.tensor([0.0, 2.0, 9.0]), st.tensor(1.0), high).tolist() == [1, 2, 3]
    bounded = [st.tensor([v], requires_grad=True) for v in (9.0, 1.0, 3.0)]
    st.clamp(*bounded).sum().backward()
    assert [v.grad.item() for v in bounded] == [0, 0, 1]


def test_values_on_a_diagonal_get_the_tensors_dtype() -> None:
    x = st.ones(2, 2, dtype=st.int64).diagonal_scatter(st.tensor([2.5, 3.5]))
    assert (x.dtype, x.tolist()) == (st.int64, [[2, 1], [1, 3]])
