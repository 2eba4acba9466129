"""gradcheck finds wrong gradients, and accepts right ones."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st
from shmtensor.autograd import Function, GradcheckError, gradcheck, gradgradcheck


def leaf(*values: complex, dtype: Any = st.float64) -> Any:
    return st.tensor(list(values), dtype=dtype, requires_grad=True)


class Wrong(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 3 * ctx.saved_tensors[0]


def test_right_gradients() -> None:
    assert gradcheck(lambda x, y: (x * y, x / y), (leaf(1, 2), leaf(3, 4)))
    assert gradgradcheck(lambda x, y: x * x * y, (leaf(1, 2), leaf(3, 4)))


def test_complex_gradients() -> None:
    z, w = leaf(1 + 2j, -0.5j, dtype=st.complex128), leaf(2 - 1j, 1, dtype=st.complex128)
    assert gradcheck(lambda a, b: a * b, (z, w))
    assert gradcheck(lambda a: a * a.conj(), (z,))
    assert gradcheck(lambda a, x: a * x, (z, leaf(1, 2)))
    assert gradgradcheck(lambda a, b: a * a * b, (z, w))


def test_wrong_gradients() -> None:
    with pytest.raises(GradcheckError, match=r"numerical 4.*analytical 6"):
        gradcheck(Wrong.apply, (leaf(2),))
    assert not gradcheck(Wrong.apply, (leaf(2),), raise_exception=False)


def test_single_precision_is_warned_of() -> None:
    x = st.ones(1, requires_grad=True)
    with pytest.warns(UserWarning, match="Input #0 .* not a double precision.* float32"):
        assert gradcheck(lambda x: x * x, (x,), eps=1e-2, atol=1e-2)


def test_nothing_to_check() -> None:
    with pytest.raises(ValueError, match="at least one input"):
        gradcheck(lambda x: x, (st.ones(1),))


def test_options() -> None:
    def product(x: Any, y: Any) -> Any:
        return x * y, (x / y).exp()

    pair = (leaf(1, 2), leaf(3, 4))
    assert gradcheck(product, pair, fast_mode=True)
    assert gradcheck(product, pair, check_forward_ad=True, check_grad_dtypes=True)
    assert gradgradcheck(product, pair, fast_mode=True)
    z = (leaf(1 + 2j, -0.5j, dtype=st.complex128),)
    assert gradcheck(lambda a: a * a.conj() + a.abs(), z, fast_mode=True, check_forward_ad=True)
    with pytest.raises(GradcheckError, match="backward mode for output 0"):
        gradcheck(Wrong.apply, (leaf(2),), fast_mode=True)
    with pytest.raises(GradcheckError, match="forward mode for output 0"):
        gradcheck(Wrong.apply, (leaf(2),), check_forward_ad=True, check_backward_ad=False)
    with pytest.raises(TypeError, match="no_such_option"):
        gradcheck(product, pair, no_such_option=True)


def test_inputs_are_unchanged() -> None:
    x = leaf(1, 2)
    gradcheck(lambda x: x * x, (x,))
    gradcheck(lambda x: x * x, (x,), fast_mode=True, check_forward_ad=True)
    assert x.tolist() == [1, 2]
    assert x.grad is None


def test_functions_with_hooks() -> None:
    def hooked(x: Any) -> Any:
        y = x * x
        y.register_hook(lambda g: g)
        return y

    assert gradcheck(hooked, leaf(1, 2))
    assert gradcheck(hooked, leaf(1, 2), fast_mode=True)
    assert gradgradcheck(hooked, leaf(1, 2))
    assert not gradcheck(lambda x: hooked(Wrong.apply(x)), leaf(2), raise_exception=False)


def test_inputs_in_any_order_of_memory() -> None:
    x = st.rand(2, 3, dtype=st.float64).t().requires_grad_()
    before = x.tolist()
    assert gradcheck(lambda x: x.sin(), (x,))
    assert gradcheck(lambda x: x.sin(), (x,), fast_mode=True)
    assert gradgradcheck(lambda x: x.sin(), (x,))
    assert x.tolist() == before
    with pytest.raises(RuntimeError, match="0th input has a dimension with stride 0"):
        gradcheck(lambda x: x.sin(), st.ones(1, dtype=st.float64).expand(3).requires_grad_())


def test_outputs_whose_shape_changes() -> None:
    calls = []

    def growing(x: Any) -> Any:
        calls.append(1)
        return x.sum().expand(len(calls)) * 1

    for fast_mode in (False, True):
        with pytest.raises(AssertionError, match="the same shape when inputs are perturbed"):
            gradcheck(growing, leaf(1, 2), fast_mode=fast_mode)


def test_a_backward_that_is_not_reproducible() -> None:
    class Drifting(Function):
        factor = 1.0

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            Drifting.factor += 1e-9
            return g * Drifting.factor

    for fast_mode in (False, True):
        with pytest.raises(GradcheckError, match="not reentrant"):
            gradcheck(Drifting.apply, leaf(1), fast_mode=fast_mode)
        assert gradcheck(Drifting.apply, leaf(1), fast_mode=fast_mode, nondet_tol=1e-3)


def test_gradients_of_zeros_are_zeros() -> None:
    class Shifted(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g if g.any() else g + 1

    with pytest.raises(GradcheckError, match="not multiplied by grad_output: output 0"):
        gradcheck(Shifted.apply, leaf(1))


def test_outputs_without_gradient_do_not_change() -> None:
    assert gradcheck(lambda x: x.detach() * 0, leaf(1))
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, leaf(1))
