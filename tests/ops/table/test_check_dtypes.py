"""Which dtypes an op takes, what an in-place op of mixed dtypes writes, and what an in-place op
saves for backward.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.autograd.dispatch.op_function import table
from shmtensor.ops.table.op_table import COMPOSITES

POSITIONAL = inspect.Parameter.VAR_POSITIONAL

functional = st.nn.functional
turning = st.tensor([1 + 2j, 3 - 1j])
flags = st.tensor([True, False])
integral = st.tensor([7, -7])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: turning < turning,
        lambda: turning >= 1,
        lambda: st.ones(2) > turning,
        lambda: turning.clone().le_(turning),
        lambda: st.maximum(turning, turning),
        lambda: st.fmin(turning, st.ones(2)),
        lambda: turning.clamp(-1, 1),
        lambda: turning.max(),
        lambda: turning.min(0),
        lambda: turning.argmax(),
        lambda: turning.sort(),
        lambda: turning.topk(1),
        lambda: turning.median(),
        lambda: turning.cummax(0),
        lambda: st.xlogy(turning, turning),
        lambda: turning // turning,
        lambda: turning & turning,
        lambda: st.gcd(st.ones(2), st.ones(2)),
        lambda: st.hypot(integral, integral),
        lambda: st.nextafter(integral, integral),
        lambda: flags // flags,
        lambda: flags % flags,
        lambda: flags << flags,
        lambda: st.softmax(integral, 0),
        lambda: st.log_softmax(flags, 0),
        lambda: functional.gelu(integral),
        lambda: functional.softplus(integral),
        lambda: functional.logsigmoid(integral),
        lambda: functional.leaky_relu(integral),
        lambda: functional.elu(integral),
        lambda: functional.mish(integral),
        lambda: functional.hardswish(integral),
        lambda: functional.hardsigmoid(integral),
        lambda: functional.softshrink(integral),
        lambda: functional.hardshrink(integral),
        lambda: functional.mse_loss(integral, integral),
        lambda: functional.smooth_l1_loss(integral, integral),
        lambda: functional.huber_loss(integral, integral),
        lambda: st.igamma(integral, integral),
        lambda: st.igammac(integral, integral),
        lambda: st.histc(integral),
        lambda: st.histc(turning),
        lambda: st.isin(turning, turning),
        lambda: st.searchsorted(turning, turning),
        lambda: st.lerp(integral, integral, 0.5),
        lambda: st.lerp(integral, integral, integral),
        lambda: st.logaddexp(integral, integral),
        lambda: st.logaddexp2(integral, integral),
        lambda: functional.silu(integral),
        lambda: functional.glu(integral),
        lambda: functional.prelu(integral, integral[:1]),
        lambda: functional.layer_norm(integral, (2,)),
        lambda: functional.batch_norm(integral[None], st.zeros(2), st.ones(2)),
        lambda: functional.group_norm(integral[None], 1),
        lambda: st.logcumsumexp(integral, 0),
        lambda: st.searchsorted(flags, flags),
        lambda: st.sign(st.tensor([1j])),
        lambda: functional.relu(st.tensor([1j])),
    ],
)
def test_dtypes_without_the_op_are_refused(wrong: Callable[[], Any]) -> None:
    refusal = r"not( implemented)? for (complex|bool|int|float)"
    with pytest.raises(NotImplementedError, match=refusal):
        wrong()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: st.ones(2) - flags,
        lambda: flags - 1,
        lambda: 1 - flags,
        lambda: st.ones(2) - True,
        lambda: st.ones(2).sub_(flags),
        lambda: st.rsub(flags, integral),
    ],
)
def test_bools_are_not_subtracted(wrong: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match=r"sub: .*bool.*logical_not"):
        wrong()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: integral // 0,
        lambda: integral % st.tensor([1, 0]),
        lambda: st.fmod(integral, 0),
        lambda: integral // flags,
        lambda: 5 // st.tensor([0, 1]),
        lambda: integral.clone().floor_divide_(0),
        lambda: st.div(integral, st.tensor(0), rounding_mode="trunc"),
    ],
)
def test_integers_are_not_divided_by_zero(wrong: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        wrong()


def test_allowed_divisions_by_zero() -> None:
    np.testing.assert_array_equal(st.ones(2) // 0, [np.inf, np.inf])
    assert (st.ones(0, dtype=st.int64) // 0).shape == (0,)
    assert (integral // st.tensor([2, 2])).tolist() == [3, -4]
    assert integral.view(2, 1).expand(2, 3).remainder(st.tensor([3, 4, 5])).tolist() == [
        [1, 3, 2],
        [2, 1, 3],
    ]


def test_in_place_ops_compute_in_the_common_dtype() -> None:
    x = st.tensor([2, 3, 200], dtype=st.uint8)
    assert x.clone().remainder_(st.tensor([-3, 5, 7])).tolist() == [255, 3, 4]
    assert st.tensor([1, 2]).lt_(1.5).tolist() == [1, 0]
    assert st.tensor([1.0, 2.0]).eq_(st.tensor([1j, 2])).tolist() == [0.0, 1.0]
    y = st.tensor([1.0], dtype=st.float32)
    assert y.add_(st.tensor([2**-30], dtype=st.float64)).dtype is st.float32
    with pytest.raises(RuntimeError, match=r"add_: result type float32 can't be cast .* int64"):
        integral.clone().add_(st.ones(2))


def test_composites_in_place_save_what_backward_needs() -> None:
    for bounds in ((0.0, 3.0), (None, 3.0), (st.tensor(0.0), st.tensor(3.0))):
        x = st.tensor([1.0, 2.0, -3.0], requires_grad=True)
        y = x * 2
        y.clamp_(*bounds)
        y.sum().backward()
        expected = [2.0, 0.0, 2.0 if bounds[0] is None else 0.0]
        assert x.grad.tolist() == expected


def test_in_place_of_mixed_dtypes_saves_what_backward_needs() -> None:
    x = st.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    y.mul_(st.tensor([3.0, 4.0], dtype=st.float64, requires_grad=True))
    y.mul_(y.detach().double())
    y.sum().backward()
    assert x.grad.tolist() == [9.0, 32.0]


def test_nothing_flows_through_a_comparison_in_place() -> None:
    x = st.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.eq_(3.0)
    assert y.tolist() == [1.0, 0.0]
    (y.sum() + (x * 2).sum()).backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_bool_of_a_complex_number_counts_its_imaginary_part() -> None:
    x = st.tensor([1j, 0, 2], dtype=st.complex64)
    assert x.bool().tolist() == x.to(st.bool).tolist() == [True, False, True]


def test_bounds_beyond_the_dtype() -> None:
    x = st.tensor([1, 200], dtype=st.uint8)
    assert x.clamp(-1, 100).tolist() == [1, 100]
    assert x.clamp(min=-5).tolist() == [1, 200]
    assert x.clone().clamp_(max=1000).tolist() == [1, 200]


def test_the_dtype_is_the_tensors_beside_a_number() -> None:
    x = st.tensor([1.0, 2.0], dtype=st.bfloat16)
    assert st.xlogy(x, 3).dtype is st.bfloat16
    assert st.xlogy(st.tensor([1, 2]), 3).dtype is st.float32
    assert st.ldexp(x, st.tensor([1, 2])).dtype is st.bfloat16
    assert st.ldexp(st.ones(2, dtype=st.float64), st.tensor([1, 2])).tolist() == [2.0, 4.0]
    assert st.dist(st.ones(2, dtype=st.float16), st.ones(2)).dtype is st.float32
    with pytest.raises(TypeError, match="dist: a tensor is needed"):
        st.dist(x, 1.0)


def test_shapes_that_do_not_broadcast() -> None:
    x = st.ones(3, 2)
    for wrong in (
        lambda: st.broadcast_tensors(x, st.ones(3)),
        lambda: st.masked_select(x, st.ones(3) > 0),
        lambda: st.cross(st.ones(3, 3), st.ones(2, 3), dim=1),
        lambda: st.block_diag(st.ones(1, 1, 1)),
        lambda: st.inner(st.ones(1), st.ones(3, 2)),
    ):
        with pytest.raises(RuntimeError, match=r"\(3,|\(1,"):
            wrong()
    with pytest.raises(IndexError, match="cross: dim out of range: -1"):
        st.cross(st.tensor(1.0), st.tensor(1.0), dim=-1)


def test_transposes_of_few_dimensions() -> None:
    scalar = st.tensor(2.0)
    assert scalar.mT is scalar
    assert scalar.H is scalar
    assert scalar.mH is scalar
    for wrong in (lambda: st.ones(2).mT, lambda: st.ones(2).H, lambda: st.ones(2, 2, 2).H):
        with pytest.raises(RuntimeError, match="only for"):
            wrong()
    assert st.ones(2, 3, 4).mH.shape == (2, 4, 3)
    assert st.tensor(True).flip(0).item() is True


def test_a_product_with_a_number_is_not_a_matrix_product() -> None:
    for wrong in (lambda: st.ones(2, 2) @ 2, lambda: 2.0 @ st.ones(2), lambda: st.ones(2) @ True):
        with pytest.raises(TypeError, match=r"unsupported operand type.*@|matmul: the operands"):
            wrong()


def test_strides_of_inserted_dimensions() -> None:
    x = st.ones(4, 6)[::2, ::3]
    assert x.unsqueeze(0).stride() == (24, 12, 3)
    assert x.unsqueeze(1).stride() == (12, 6, 3)
    assert x.unsqueeze(-1).stride() == (12, 3, 1)
    assert st.ones(3).expand(2, 3).stride() == (0, 1)


def test_the_median_of_nothing() -> None:
    assert np.isnan(st.ones(0).median().item())


def test_all_and_any_over_no_dimensions_are_elementwise() -> None:
    for x in (flags, flags.float(), flags.to(st.uint8), st.tensor(True)):
        expected = (x != 0).to(st.uint8 if x.dtype is st.uint8 else st.bool)
        for none in ((), []):
            for result in (x.any(none), x.all(dim=none), st.any(x, none, keepdim=True)):
                assert result.tolist() == expected.tolist()
                assert result.dtype is expected.dtype
    assert st.ones(2, 2).sum((), dtype=st.bool).tolist() is True  # elsewhere no dims means all


def test_powers_of_bool_by_bool_are_bool() -> None:
    assert (flags**True).tolist() == [True, False]
    assert (flags**False).tolist() == [True, True]
    assert (flags**True).dtype is st.bool
    assert (flags**3).dtype is st.int64


def test_different_values_say_that_they_have_a_history() -> None:
    x = st.tensor([2.0, 1.0, 2.0], requires_grad=True)
    for result in (x.unique(), x.unique(return_counts=True)[0], x.unique_consecutive()):
        assert result.requires_grad
    assert not x.detach().unique().requires_grad


@pytest.mark.parametrize("name", ["conj", "conjugate", "conj_physical", "positive", "resolve_conj"])
def test_identity_functions_of_real_numbers_return_the_tensor_itself(name: str) -> None:
    leaf = st.ones(2, requires_grad=True)
    assert getattr(leaf, name)() is leaf
    assert getattr(st, name)(leaf) is leaf
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        getattr(leaf, name)().add_(1)


def test_the_real_part_and_the_plus_sign_of_real_numbers() -> None:
    leaf = st.ones(2, requires_grad=True)
    assert leaf.real is st.real(leaf) is leaf
    assert st.real(turning).tolist() == [1.0, 3.0]
    assert +leaf is leaf
    assert turning.conj().tolist() == [1 - 2j, 3 + 1j]
    clone = turning.clone()
    assert clone.conj_physical_() is clone
    assert clone.tolist() == [1 - 2j, 3 + 1j]
    with pytest.raises(RuntimeError, match="positive: not for bool"):
        flags.positive()


# ---- operands that are not mixed, numbers that must be fractions

single, double = st.ones(2, 2), st.ones(2, 2, dtype=st.float64)
first, other = single[0], double[0]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: single @ double,
        lambda: single @ integral,
        lambda: st.mm(single, double),
        lambda: st.mv(single, other),
        lambda: st.bmm(single[None], double[None]),
        lambda: st.dot(first, other),
        lambda: st.vdot(first, other),
        lambda: st.inner(single, double),
        lambda: st.tensordot(single, double, 1),
        lambda: st.einsum("ij,jk->ik", single, double),
        lambda: st.einsum("i,i->", st.ones(2, dtype=st.int32), flags),
        lambda: st.addmm(double, single, single),
        lambda: st.addmv(other, single, first),
        lambda: st.baddbmm(double[None], single[None], single[None]),
        lambda: st.addbmm(double, single[None], single[None]),
        lambda: st.nn.functional.linear(single, double),
        lambda: st.nn.functional.linear(single, single, other),
        lambda: st.lerp(single, double, 0.5),
        lambda: st.lerp(single, single, double),
        lambda: st.isclose(single, double),
        lambda: st.allclose(single, double),
        lambda: st.heaviside(single, double),
        lambda: st.cross(st.ones(3), st.ones(3, dtype=st.float64)),
        lambda: st.linalg.cross(st.ones(3), st.ones(3, dtype=st.float64)),
        lambda: st.complex(single, double),
        lambda: st.polar(single, double),
        lambda: st.zeros(3).index_put((st.tensor([0]),), other[:1]),
        lambda: st.zeros(3).index_copy(0, st.tensor([0]), other[:1]),
        lambda: st.zeros(2).masked_scatter(flags, other),
        lambda: st.zeros(3).put(st.tensor([0]), other[:1]),
        lambda: st.cdist(single, double),
        lambda: st.nn.functional.binary_cross_entropy(single, double),
        lambda: st.quantile(single, st.tensor(0.5, dtype=st.float64)),
    ],
)
def test_operands_of_unlike_dtypes_are_named(wrong: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match=r"same dtype: \w+, \w+.*, hint: .*\.to"):
        wrong()


def test_numpys_products_are_of_the_common_dtype() -> None:
    for result in (
        np.matmul(single, double),
        np.dot(single, double),
        np.inner(single, double),
        np.tensordot(single, double, 1),
        np.einsum("ij,jk->ik", single, double),
    ):
        assert isinstance(result, st.Tensor)
        assert result.dtype is st.float64
        assert result.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert np.vdot(first, other).tolist() == 2.0
    assert np.heaviside(single, double).tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_integers_with_a_dtype_argument_have_a_softmax() -> None:
    assert functional.softmax(st.tensor([1, 1]), 0, dtype=st.float32).tolist() == [0.5, 0.5]
    assert functional.mse_loss(first, st.tensor([1, 3])).item() == 2.0


@pytest.mark.parametrize("dtype", [st.float16, st.bfloat16])
def test_quantiles_of_16_bits_are_refused(dtype: Any) -> None:
    with pytest.raises(RuntimeError, match=r"quantile: not implemented for b?float16.*float\(\)"):
        st.ones(3, dtype=dtype).quantile(0.5)


def test_histogram_of_one_number_without_a_dimension() -> None:
    assert st.tensor(2.0).histc(3, 0, 3).tolist() == [0.0, 0.0, 1.0]


def test_negative_powers_of_small_integers_are_refused() -> None:
    for x in (st.tensor([2], dtype=st.uint8), st.tensor([2])):
        with pytest.raises(RuntimeError, match="Integers to negative integer powers"):
            x**-1


@pytest.mark.parametrize("index", [0, st.tensor([0]), st.tensor([True, False, False])])
def test_a_complex_number_is_not_written_into_real_ones(index: Any) -> None:
    x = st.zeros(3)
    with pytest.raises(
        RuntimeError, match=r"index assignment: a complex number does not fit into a float32"
    ):
        x[index] = 1 + 2j
    x[index] = 3 + 0j
    assert x.tolist() == [3.0, 0.0, 0.0]
    with pytest.raises(RuntimeError, match="complex value does not fit"):
        x.index_fill(0, st.tensor([0]), 1j)


@pytest.mark.parametrize(
    "draw", [st.rand_like, st.randn_like, lambda x, **n: st.randint_like(x, 9, **n)]
)
def test_random_numbers_have_the_layout_of_their_model(draw: Callable[..., Any]) -> None:
    model = st.ones(2, 3, 4, 5).contiguous(memory_format=st.channels_last)
    assert draw(model).stride() == model.stride()
    assert draw(st.ones(2, 3).t()).stride() == (1, 3)
    assert draw(model, memory_format=st.contiguous_format).stride() == (60, 20, 5, 1)
    assert len(draw(model).unique()) > 4
    if draw is st.rand_like:
        sample = draw(model, requires_grad=True)
        assert sample.requires_grad
        assert sample.is_leaf


def test_igamma_takes_tensors_alone() -> None:
    for function in (st.igamma, st.igammac):
        for a, b in ((integral, 2), (2, integral), (2, 3)):
            with pytest.raises(TypeError, match="tensor"):
                function(a, b)


def test_complex_numbers_go_only_into_their_dtype() -> None:
    x, wide = st.ones(3), st.zeros(3, dtype=st.complex128)
    for function in (st.complex, st.polar):
        with pytest.raises(RuntimeError, match=r"complex64.*complex128"):
            function(x, x, out=wide)
        out = st.zeros(3, dtype=st.complex64)
        assert function(x, x, out=out) is out


def test_heaviside_refuses_complex_numbers() -> None:
    with pytest.raises(NotImplementedError, match=r"heaviside: not for complex64: shape \(2,\)"):
        st.heaviside(turning, turning)


@pytest.mark.parametrize(
    ("base", "exponent"), [(st.ones(2), 2), (integral, 2), (turning, 2), (st.ones(2).double(), 2j)]
)
def test_float_power_is_written_to_doubles_alone(base: st.Tensor, exponent: complex) -> None:
    with pytest.raises(RuntimeError, match=r"float_power_: the base has .* requires"):
        base.clone().float_power_(exponent)
    with pytest.raises(RuntimeError, match=r"Expected out tensor to have .*(float64|complex128)"):
        st.float_power(base, exponent, out=st.empty(2))
    doubles = st.tensor([2.0, 3.0], dtype=st.float64)
    assert doubles.float_power_(2).tolist() == [4.0, 9.0]


@pytest.mark.parametrize("name", sorted(COMPOSITES))
def test_other_objects_than_tensors_are_not_an_attribute_error(name: str) -> None:
    function = getattr(table, name)
    kinds = [p.kind for p in inspect.signature(COMPOSITES[name].compute).parameters.values()][1:]
    n = sum(kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, POSITIONAL) for kind in kinds)
    for count in range(1, min(n, 4) + 1):
        for at, wrong in itertools.product(range(count), (None, 2.5, "abc", [1.0, 2.0])):
            args: list[Any] = [st.ones(2, 2) for _ in range(count)]
            args[at] = wrong
            with contextlib.suppress(TypeError, ValueError, RuntimeError, IndexError, UserWarning):
                function(*args)


def test_an_argument_other_than_a_tensor_is_named() -> None:
    with pytest.raises(TypeError, match=r"conv2d: argument 'weight' must be Tensor, not NoneType"):
        st.nn.functional.conv2d(st.ones(1, 1, 3, 3), None)
    with pytest.raises(TypeError, match=r"block_diag: the elements of 'tensors' .* not int: 7"):
        st.block_diag(st.ones(2), 7)

    class Odd:
        @property
        def ndim(self) -> int:
            raise AttributeError("its own", name="other", obj=wrong)

    wrong = object()
    with pytest.raises(AttributeError, match="its own"):  # its obj is not an argument
        st.kron(Odd(), st.ones(2))


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: st.sum(st.tensor(1.0), (0, 0)), RuntimeError, "dim appears twice: 0"),
        (lambda: st.amax(st.tensor(1.0), (0, -1)), RuntimeError, "appears multiple times"),
        (lambda: st.squeeze(st.tensor(1.0), 1), IndexError, "out of range: 1"),
        (lambda: st.squeeze(st.ones(1), (0, -1)), RuntimeError, r"multiple times: \(0, -1\)"),
        (lambda: st.unflatten(st.tensor(1.0), 0, (1, 1)), RuntimeError, "must have a dimension"),
        (lambda: st.nanmean(integral), RuntimeError, "floating point or complex: int64"),
        (lambda: st.cov(flags), RuntimeError, "cov: not for bool"),
        (
            lambda: st.cdist(integral[None], integral[None]),
            RuntimeError,
            "floating-point points .*int64",
        ),
        (lambda: st.renorm(integral[None], 2, 0, 1), RuntimeError, "renorm: .*int64"),
        (lambda: st.softmax(turning, 0), NotImplementedError, "not implemented for complex64"),
        (lambda: st.norm(st.ones(0), -1), RuntimeError, r"order -1 of no elements .*\(0,\)"),
        (lambda: st.norm(st.ones(0, 2), st.inf, 0), RuntimeError, r"order inf .*\(0, 2\)"),
        (lambda: st.norm(st.ones(2, 2), "nuc", 0), RuntimeError, "two dimensions: dim=0"),
        (lambda: st.trapezoid(st.tensor(1.0)), IndexError, "0-d"),
        (lambda: st.trapezoid(flags), RuntimeError, "not for bool"),
        (lambda: st.trapezoid(st.ones(2), dx=True), RuntimeError, "real number: True"),
        (lambda: st.cartesian_prod(st.tensor(1), integral), RuntimeError, "vectors are needed"),
        (lambda: st.meshgrid(integral, st.ones(2)), RuntimeError, "one dtype.*int64.*float32"),
        (lambda: st.repeat_interleave(integral), RuntimeError, "must not be negative: -7"),
        (lambda: st.repeat_interleave(st.ones(2)), NotImplementedError, "float32 of shape"),
        (lambda: st.repeat_interleave(integral, integral[None]), RuntimeError, "must be a vector"),
        (lambda: st.repeat_interleave(st.tensor(2)), RuntimeError, "must be a vector"),
        (lambda: st.rot90(st.ones(2, 2), 2.5), TypeError, "float"),
        (lambda: st.gru(st.ones(2, 2)), TypeError, "gru: missing arguments: hx, params"),
    ],
)
def test_other_wrong_uses(wrong: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        wrong()


def test_a_sum_in_bool_is_bool() -> None:
    result = st.sum(st.tensor([3, 0], dtype=st.uint8), 0, dtype=st.bool)
    assert result.dtype is st.bool
    assert result.item() is True
