"""Every row of the op table with each of its samples: value, shape, dtype, layout, gradients of two
orders, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from draws import Call, call_of, labelled, samples

import shmtensor as st
from shmtensor.ops import ROWS, Row

# Rows of which complex numbers are differentiated, as PyTorch does.
COMPLEX = set(
    "add sub mul div neg positive addcmul addcdiv lerp square sqrt rsqrt reciprocal pow abs sgn exp expm1 log log10 "
    "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sinc sigmoid silu conj real angle sum mean prod_along "
    "variance deviation cumsum cumprod reshape viewed permute transpose squeeze unsqueeze expand broadcast_to matmul "
    "linear flip roll repeat cat stack parts unbind narrow select diagonal getitem scatter_index selected gathered "
    "vector_norm choose masked written tril triu clone".split()
)
# Rows whose gradient PyTorch does not define at every order by finite differences: steps.
STEPS = set("floor ceil trunc round sign floor_divide trunc_divide".split())


def with_gradient(row: Row) -> bool:
    return bool(row.pullbacks)


def test_every_row_has_samples() -> None:
    """But for what needs arguments that no sample can spell; those are tested by name."""
    bare = {row.name for row in ROWS.values() if not row.samples}
    assert bare <= {
        "blanked", "through", "planted", "imag", "reinterpreted", "class_entropy_backward", "refill",
    } | {row for row in bare if ROWS[row].forward.__module__.startswith("shmtensor.autograd")}  # fmt: skip


@pytest.mark.parametrize(**labelled(samples()))
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_public_function_is_the_plain_forward(row: Row, sample: Any, dtype: str) -> None:
    """Values, shapes and dtypes of Tensors are those of the forward on NumPy: the native kernel is
    held against it.
    """
    call = call_of(row, sample, dtype)
    close = 1e-12 if dtype == "float64" else 2e-5
    for ours, plain in zip(call.public(*call.tensors()), call.plain(), strict=True):
        assert ours.shape == plain.shape
        assert ours.dtype == plain.dtype
        assert np.allclose(ours.numpy(), plain, close, close, equal_nan=True)


def strided(x: Any) -> Any:
    """The same values at odd strides, in reverse order in memory."""
    if x is None:
        return None
    if isinstance(x, list):
        return [strided(v) for v in x]
    if not x.ndim:
        return np.stack([x, x, x])[1, ...]
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x[..., ::-1]
    return np.asfortranarray(wide)[..., ::2][..., ::-1]


@pytest.mark.parametrize(**labelled(samples(lambda row: row.name != "viewed")))
def test_strides_do_not_matter(row: Row, sample: Any) -> None:
    call = call_of(row, sample)
    before = call.public(*call.tensors())
    call.inputs = [strided(x) for x in call.inputs]

    def one(x: Any) -> Any:
        return None if x is None else [one(v) for v in x] if isinstance(x, list) else st.from_numpy(x)

    for ours, plain in zip(call.public(*(one(x) for x in call.inputs)), before, strict=True):
        assert np.allclose(ours.numpy(), plain.numpy(), 1e-12, 1e-12, equal_nan=True)


def weighted(call: Call, outputs: list[Any], weights: list[Any]) -> Any:
    """One real number out of all differentiable outputs."""
    total: Any = 0.0
    for out, w in zip(outputs, weights, strict=True):
        if w is not None:
            part = out * st.tensor(w).conj() if out.dtype.kind == "c" else out * st.tensor(w)
            total = total + (st.real(part.sum()) if out.dtype.kind == "c" else part.sum())
    return total


def noise(call: Call, like: Any) -> Any:
    """Random numbers of the shape and kind of an array."""
    x = call.random.standard_normal(like.shape)
    if like.dtype.kind == "c":
        x = x + 1j * call.random.standard_normal(like.shape)
    return np.asarray(x)


def along(call: Call, leaves: list[Any], compute: Any, slopes: list[Any]) -> None:
    """Holds the slopes of `compute` at the leaves against a central difference in a random
    direction.
    """
    step = 1e-5
    directions = [noise(call, leaf.detach().numpy()) for leaf in leaves]

    def at(t: float) -> float:
        for leaf, d in zip(leaves, directions, strict=True):
            leaf.detach().numpy()[...] += t * step * d
        value = float(compute())
        for leaf, d in zip(leaves, directions, strict=True):
            leaf.detach().numpy()[...] -= t * step * d
        return value

    number = (at(1) - at(-1)) / (2 * step)
    ours = sum(
        float(np.real(np.sum(np.conj(s.detach().numpy()) * d)))
        for s, d in zip(slopes, directions, strict=True)
        if s is not None
    )
    if np.isfinite(number):
        assert ours == pytest.approx(number, rel=2e-4, abs=2e-5)


def check_gradients(call: Call, second: bool) -> None:
    """First and, if asked for, second derivatives."""
    tensors = call.tensors(requires_grad=True)
    leaves = call.differentiable(tensors)
    outputs = call.public(*tensors)
    if not leaves or not any(out.requires_grad for out in outputs):
        return
    weights = [noise(call, out.detach().numpy()) if out.requires_grad else None for out in outputs]

    def total() -> Any:
        return weighted(call, call.public(*tensors), weights)

    slopes = st.autograd.grad(total(), leaves, allow_unused=True, create_graph=second)
    for leaf, slope in zip(leaves, slopes, strict=True):
        if slope is not None:
            assert slope.shape == leaf.shape
            assert slope.dtype == leaf.dtype
    along(call, leaves, lambda: total().item(), list(slopes))
    if not second:
        return
    turns = [None if s is None else noise(call, s.detach().numpy()) for s in slopes]

    def bend() -> Any:
        found = st.autograd.grad(total(), leaves, allow_unused=True, create_graph=True)
        return weighted(call, [s for s in found if s is not None], [t for t in turns if t is not None])

    value = bend()
    if value.__class__ is float or not value.requires_grad:
        along(call, leaves, lambda: float(bend()), [None] * len(leaves))
        return
    curves = st.autograd.grad(value, leaves, allow_unused=True)
    along(call, leaves, lambda: bend().item(), list(curves))


@pytest.mark.parametrize(**labelled(samples(with_gradient)))
def test_gradients_of_two_orders_are_differences(row: Row, sample: Any) -> None:
    check_gradients(call_of(row, sample), second=True)


@pytest.mark.parametrize(**labelled(samples(lambda row: row.name in COMPLEX)))
def test_complex_gradients_of_two_orders_are_differences(row: Row, sample: Any) -> None:
    check_gradients(call_of(row, sample, np.complex128), second=True)


@pytest.mark.parametrize(**labelled(samples(lambda row: row.inplace and row.promote is not None)))
def test_in_place_form_is_the_same(row: Row, sample: Any) -> None:
    call = call_of(row, sample)
    plain = call.plain()[0]
    if not isinstance(call.inputs[0], np.ndarray) or plain.shape != call.inputs[0].shape:
        return
    tensors = call.tensors()
    written = getattr(tensors[0], f"{row.name}_")(*tensors[1:], *call.attributes, **call.named)
    assert written is tensors[0]
    assert np.allclose(written.numpy(), plain, equal_nan=True)


WHOLE = [d for d in ("int64", "int32", "uint8", "bool")]
# Rows that refuse whole numbers or bool, as PyTorch does, or for which they make no sense.
REAL_ONLY = set(
    "mean variance deviation vector_norm nextafter lerp copysign frac hypot standardised class_entropy picked "
    "softplus logsigmoid gelu_rows elu mish hardsigmoid hardswish leaky_relu softshrink dropped coins multinomial_places "
    "logcumsumexp binary_entropy squared_error bent uniform_fill normal_fill polar complex heaviside linear "
    "log_softmax_backward softmax_backward logsumexp relu_backward kept_by hardshrink hardtanh threshold".split()
)
NO_BOOL = set("sub neg positive floor_divide trunc_divide remainder fmod pow sgn relu clamped".split())


@pytest.mark.parametrize(
    **labelled(samples(lambda row: row.promote is not None and row.name not in REAL_ONLY))
)
@pytest.mark.parametrize("dtype", WHOLE)
def test_whole_numbers_have_pytorchs_dtypes(row: Row, sample: Any, dtype: str) -> None:
    """Promotion "float" gives the default dtype; "common" keeps the dtype, but for comparisons."""
    if dtype == "bool" and row.name in NO_BOOL:
        return
    call = call_of(row, sample, dtype)
    out = call.public(*call.tensors())[0]
    if row.promote == "float":
        assert out.dtype == st.float32
    elif out.dtype != st.bool and all(
        isinstance(x, list) or x is None or x.dtype == np.dtype(dtype) for x in call.inputs
    ):
        assert out.dtype == np.dtype(dtype)
