"""Every row with each of its samples: value, shape, dtype, strides, gradients of two orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from draws import Call, every, families

import shmtensor as st
from shmtensor.ops import ROWS, Row

# Rows that read one triangle of a symmetric matrix: their gradients are those of symmetric changes.
SYMMETRIC = {"_linalg_cholesky", "_linalg_eigh"}
# Rows that no sample can express; tests of other names reach them.
BARE = {
    "_to_copy", "_to_device", "copy", "_overwrite", "imag", "_view_dtype",
    "_cross_entropy_backward", "_cross_entropy_weighted_backward",
    "_view_as_real", "_view_as_complex", "_ctc_loss", "_ctc_loss_backward",
    "_gamma", "_standard_gamma_grad",  # their gradients are no differences: test_standard_gamma
}  # fmt: skip


def test_every_row_has_samples() -> None:
    bare = {
        row.name
        for row in ROWS.values()
        if not row.samples and not row.forward.__module__.startswith("shmtensor.autograd")
    }
    assert bare == BARE


@pytest.mark.parametrize(**families())
def test_public_function_is_the_plain_forward(family: list[Row]) -> None:
    """Compares the native kernel with the forward on NumPy: values, shapes and dtypes."""
    for dtype, close in (("float64", 1e-12), ("float32", 2e-5)):
        for call in every(family, dtype):
            for ours, plain in zip(call.public(*call.tensors()), call.plain(), strict=True):
                assert ours.shape == plain.shape, str(call)
                assert ours.dtype == plain.dtype, str(call)
                same = np.allclose(ours.numpy(), plain, close, close, equal_nan=True)
                assert same, (dtype, str(call))


@pytest.mark.parametrize(**families(lambda row: row.name not in ("_view", "_as_strided")))
def test_strides_do_not_matter(family: list[Row]) -> None:
    for call in every(family):
        before = call.public(*call.tensors())
        after = call.public(*call.tensors(strided=True))
        for x, y in zip(before, after, strict=True):
            same = np.allclose(x.numpy(), y.numpy(), 1e-12, 1e-12, equal_nan=True)
            assert same, str(call)


def weighted(outputs: list[Any], weights: list[Any]) -> Any:
    """A real scalar computed from all differentiable outputs."""
    total: Any = 0.0
    for out, w in zip(outputs, weights, strict=True):
        if w is not None:
            part = (out * st.tensor(w.conjugate())).sum()
            total = total + (st.real(part) if part.dtype.kind == "c" else part)
    return total


def noise(call: Call, like: Any) -> Any:
    """Random numbers with the shape and kind of an array."""
    x = call.random.standard_normal(like.shape)
    if like.dtype.kind == "c":
        x = x + 1j * call.random.standard_normal(like.shape)
    return np.asarray(x)


def along(call: Call, leaves: list[Any], compute: Any, slopes: list[Any]) -> None:
    """Compares gradients with a central difference in one random direction."""
    step = 1e-5
    arrays = [leaf.detach().numpy() for leaf in leaves]
    directions = [noise(call, x) for x in arrays]
    if call.row.name in SYMMETRIC:
        directions = [d + d.swapaxes(-1, -2) for d in directions]

    def at(t: float) -> float:
        for x, d in zip(arrays, directions, strict=True):
            x[...] += t * step * d
        value = float(compute())
        for x, d in zip(arrays, directions, strict=True):
            x[...] -= t * step * d
        return value

    number = (at(1) - at(-1)) / (2 * step)
    ours = sum(
        float(np.real(np.sum(np.conj(s.detach().numpy()) * d)))
        for s, d in zip(slopes, directions, strict=True)
        if s is not None
    )
    if np.isfinite(number):
        assert ours == pytest.approx(number, rel=2e-4, abs=2e-5), str(call)


def check_gradients(call: Call) -> None:
    """First and second derivatives of one sample."""
    tensors = call.tensors(requires_grad=True)
    leaves = call.differentiable(tensors)
    outputs = call.public(*tensors)
    if not leaves or not any(out.requires_grad for out in outputs):
        return
    weights = [noise(call, x.detach().numpy()) if x.requires_grad else None for x in outputs]

    def total() -> Any:
        return weighted(call.public(*tensors), weights)

    slopes = st.autograd.grad(total(), leaves, allow_unused=True, create_graph=True)
    for leaf, slope in zip(leaves, slopes, strict=True):
        if slope is not None:
            assert slope.shape == leaf.shape, str(call)
            assert slope.dtype == leaf.dtype, str(call)
    along(call, leaves, lambda: total().item(), list(slopes))
    turns = [None if s is None else noise(call, s.detach().numpy()) for s in slopes]

    def bend() -> Any:
        gradients = st.autograd.grad(total(), leaves, allow_unused=True, create_graph=True)
        pairs = [(s, t) for s, t in zip(gradients, turns, strict=True) if s is not None]
        return weighted([s for s, _ in pairs], [t for _, t in pairs])

    value = bend()
    curves: Any = [None] * len(leaves)
    if value.__class__ is not float and value.requires_grad:
        curves = st.autograd.grad(value, leaves, allow_unused=True)
    along(call, leaves, lambda: float(bend()), list(curves))


@pytest.mark.parametrize(**families(lambda row: row.pullbacks))
def test_gradients_of_two_orders_are_differences(family: list[Row]) -> None:
    for call in every(family):
        check_gradients(call)


@pytest.mark.parametrize(**families(lambda row: row.complex_gradients))
def test_complex_gradients_of_two_orders_are_differences(family: list[Row]) -> None:
    for call in every(family, np.complex128):
        check_gradients(call)


@pytest.mark.parametrize(**families(lambda row: row.inplace and row.method and row.promote))
def test_in_place_form_is_the_same(family: list[Row]) -> None:
    for call in every(family):
        plain = call.plain()[0]
        if not isinstance(call.inputs[0], np.ndarray) or plain.shape != call.inputs[0].shape:
            continue
        x, *operands = call.tensors()
        out = getattr(x, f"{call.row.name}_")(*operands, *call.attributes, **call.kwargs)
        assert out is x
        assert np.allclose(out.numpy(), plain, equal_nan=True), str(call)


# Rows that refuse whole numbers or bool, as PyTorch does, or for which they make no sense.
REAL_ONLY = set(
    """nextafter lerp copysign hypot _pointwise_loss polar complex heaviside addcdiv logaddexp
    logaddexp2 silu linear logsumexp _add_alpha""".split()  # noqa: SIM905
)
NO_BOOL = {"addcmul", "sub", "_cross", "floor_divide", "_trunc_divide", "remainder", "fmod", "pow"}


@pytest.mark.parametrize(**families(lambda row: row.promote and row.name not in REAL_ONLY))
def test_integers_have_pytorchs_dtypes(family: list[Row]) -> None:
    """Promotion "float" gives the default dtype; "common" keeps it, except for comparisons."""
    for dtype in ("int64", "int32", "uint8", "bool"):
        for call in every(family, dtype):
            if dtype == "bool" and call.row.name in NO_BOOL:
                continue
            out = call.public(*call.tensors())[0]
            arrays = [x for x in call.inputs if isinstance(x, np.ndarray)]
            if call.row.promote == "float":
                assert out.dtype == st.float32, (dtype, str(call))
            elif out.dtype != st.bool and all(x.dtype == np.dtype(dtype) for x in arrays):
                assert out.dtype == np.dtype(dtype), (dtype, str(call))
