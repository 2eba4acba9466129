"""Operators, indices, `out=` and functions with tensors of two libraries: a clear TypeError in
either order; conversions share memory and never drop a graph.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from foreign_workers import run_alone

import shmtensor as st

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

REFUSED = r"expected tensors of shmtensor only, got a torch\.Tensor x of shape .*from_dlpack\(x"
FLOATS: list[Callable[[Any, Any], Any]] = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.matmul, operator.eq, operator.ne, operator.lt, operator.le, operator.gt,
    operator.ge, operator.iadd, operator.isub, operator.imul, operator.itruediv,
]  # fmt: skip
INTEGERS: list[Callable[[Any, Any], Any]] = [
    operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift, operator.iand,
    operator.ior, operator.ixor, operator.ilshift, operator.irshift,
]  # fmt: skip


@pytest.mark.parametrize("function", FLOATS + INTEGERS, ids=lambda f: f.__name__)
def test_operators_refuse_the_other_library(function: Callable[[Any, Any], Any]) -> None:
    is_integer = function in INTEGERS
    x = st.ones(3, dtype=st.int64 if is_integer else st.float32)
    y = torch.ones(3, dtype=torch.int64 if is_integer else torch.float32)
    for left, right in ((x, y), (y, x), (x, y[0]), (y[0], x)):
        with pytest.raises(TypeError, match=REFUSED):
            function(left, right)
    assert x.tolist() == y.tolist() == [1, 1, 1]


def test_divmod_and_in() -> None:
    x, y = st.ones(3), torch.ones(3)
    for left, right in ((x, y), (y, x)):
        with pytest.raises(TypeError, match="divmod"):
            divmod(left, right)
    with pytest.raises(TypeError, match=REFUSED):
        assert y in x
    with pytest.raises(RuntimeError, match="shmtensor"):
        assert x in y


def test_history_is_named_and_not_dropped() -> None:
    y = torch.ones(3, requires_grad=True)
    with pytest.raises(TypeError, match=r"requires_grad=True, hint: st\.from_dlpack\(x\.detach"):
        _ = st.ones(3) * y
    for convert in (st.tensor, st.as_tensor, st.asarray, np.asarray):
        for z in (y, y * 2, y.bfloat16()):
            with pytest.raises((RuntimeError, TypeError), match=r"grad|BFloat16"):
                convert(z)
    with pytest.raises(RuntimeError, match="requires grad"):
        st.tensor([y, y])
    with pytest.raises(BufferError, match="require gradient"):
        st.from_dlpack(y)
    x = st.ones(3, requires_grad=True)
    for convert in (torch.tensor, torch.as_tensor, torch.from_dlpack):
        with pytest.raises(BufferError, match="require gradient"):
            convert(x)
    with pytest.raises(RuntimeError, match="could not retrieve buffer"):
        torch.asarray(x)


def test_functions_indices_and_out() -> None:
    x, y = st.ones(3), torch.ones(3)
    indices, mask = torch.tensor([0, 1]), torch.tensor([True, False, True])
    refused: list[Callable[[], Any]] = [
        lambda: st.add(x, y),
        lambda: st.add(y, y),
        lambda: st.add(x, x, out=y),
        lambda: st.cat([x, y]),
        lambda: st.aminmax(x, out=(y, y)),
        lambda: st.nn.functional.linear(y, x),
        lambda: st.nn.Linear(3, 3)(y),
        lambda: st.nn.Parameter(y),
        lambda: st.optim.SGD([y], 0.1),
        lambda: x.add_(y),
        lambda: x.copy_(y),
        lambda: x.set_(y),
        lambda: x.to(y),
        lambda: x.type_as(y),
        lambda: x.index_select(0, indices),
        lambda: x[indices],
        lambda: x[mask],
        lambda: x[..., indices],
        lambda: x[[indices[0], 1]],
        lambda: x.__setitem__(mask, 0),
        lambda: x.__setitem__(0, y[0]),
        lambda: x.requires_grad_().sum().backward(y.sum()),
        lambda: st.autograd.grad(x.requires_grad_().sum(), x, y.sum()),
        lambda: st.testing.assert_close(x, y),
        lambda: torch.add(y, x),
        lambda: torch.add(x, y),
        lambda: torch.add(y, y, out=x),
        lambda: torch.cat([y, x]),
        lambda: torch.nn.functional.linear(y, x),
        lambda: torch.nn.Linear(3, 3)(x),
        lambda: torch.where(x > 0, y, y),
        lambda: y.add_(x),
        lambda: y.copy_(x),
        lambda: y[st.tensor([0, 1]), ...],
        lambda: y.__setitem__(0, x[0]),
    ]
    for call in refused:
        with pytest.raises(TypeError, match=REFUSED):
            call()
    assert x.tolist() == y.tolist() == [1, 1, 1]


def test_a_function_of_pytorch_without_a_counterpart_is_named() -> None:
    with pytest.raises(TypeError, match=r"lobpcg: no implementation .*torch\.from_dlpack\(x\)"):
        torch.lobpcg(st.eye(4), 1)


def test_a_subclass_of_their_tensor_is_refused_and_an_override_still_called() -> None:
    class Theirs(torch.Tensor):
        pass

    with pytest.raises(TypeError, match="shmtensor only"):
        _ = st.ones(3) + torch.ones(3).as_subclass(Theirs)

    class Override:
        @classmethod
        def __torch_function__(cls, *_: Any) -> str:
            return "mine"

    assert st.add(st.ones(3), Override()) == "mine"
    assert not st.overrides.has_torch_function((torch.ones(3),))


def test_a_state_dict_of_pytorch_is_loaded() -> None:
    theirs, ours = torch.nn.Linear(2, 3), st.nn.Linear(2, 3)
    ours.load_state_dict(theirs.state_dict())
    assert ours.weight.tolist() == theirs.weight.tolist()
    assert ours.weight.data_ptr() != theirs.weight.data_ptr()


def test_conversions_share_memory() -> None:
    y = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
    for convert in (st.from_dlpack, st.as_tensor, st.asarray):
        for z in (y, y.t(), y[:, ::2], y.bfloat16()):
            x = convert(z)
            assert x.data_ptr() == z.data_ptr()
            assert x.stride() == z.stride()
            assert str(x.dtype).rpartition(".")[2] == str(z.dtype).rpartition(".")[2]
            assert x.tolist() == z.tolist()
    copy = st.tensor(y)
    assert copy.dtype == st.float64
    assert copy.data_ptr() != y.data_ptr()
    assert st.tensor([y[0], y[1]]).dtype == st.float64
    x = st.ones(2, 3)
    for convert in (torch.from_dlpack, torch.as_tensor, torch.asarray):
        assert convert(x).data_ptr() == x.data_ptr()
    assert torch.tensor(x).data_ptr() != x.data_ptr()
    assert np.asarray(x).ctypes.data == x.data_ptr()


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: torch.ones(3, device="meta"), TypeError, "meta"),
        (lambda: torch.ones(3).to_sparse(), TypeError, "sparse"),
        (lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), TypeError, "qint8"),
        (lambda: torch.ones(3, dtype=torch.float8_e5m2), TypeError, "float8"),
        (lambda: torch.ones(3, requires_grad=True), RuntimeError, "requires grad"),
    ],
)
def test_what_no_tensor_can_view(make: Any, error: type[Exception], text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # quantized tensors are deprecated
        x = make()
    for convert in (st.tensor, st.as_tensor, st.asarray):
        with pytest.raises(error, match=f"{convert.__name__}: .*{text}"):
            convert(x)


def test_a_lazy_conjugate_is_resolved_in_a_copy() -> None:
    x = torch.tensor([1 + 2j, 3 - 4j])
    for convert in (st.tensor, st.as_tensor, st.asarray):
        assert convert(x.conj()).tolist() == [1 - 2j, 3 + 4j]


def run_with_jax(code: str) -> None:
    pytest.importorskip("jax")
    run_alone("\n        import jax, jax.numpy as jnp\n" + code)


def test_jax_is_refused_in_either_order() -> None:
    run_with_jax(r"""
        REFUSED = r"tensors of shmtensor only, got a jax\.Array x .*jax\.dlpack\.from_dlpack"
        for name in "add sub mul truediv floordiv mod pow matmul eq ne lt le gt ge iadd".split():
            x, y = st.ones(3), jnp.ones(3)
            for left, right in ((x, y), (y, x)):
                with pytest.raises(TypeError, match=REFUSED):
                    getattr(operator, name)(left, right)
        for name in "and_ or_ xor lshift rshift".split():
            x, y = st.ones(3, dtype=st.int32), jnp.ones(3, jnp.int32)
            for left, right in ((x, y), (y, x)):
                with pytest.raises(TypeError, match=REFUSED):
                    getattr(operator, name)(left, right)
        x, y, index = st.ones(3), jnp.ones(3), jnp.array([0, 1])
        for call in (
            lambda: st.add(x, y), lambda: st.cat([x, y]), lambda: x[index], lambda: x.copy_(y),
            lambda: x.__setitem__(index, 0), lambda: x.__setitem__(0, y[0]), lambda: y in x,
            lambda: st.add(x, x, out=y), lambda: st.nn.Linear(3, 3)(y),
        ):
            with pytest.raises(TypeError, match=REFUSED):
                call()
        for call in (lambda: jnp.add(y, x), lambda: jnp.sum(x), lambda: y[st.tensor([0])]):
            with pytest.raises((TypeError, IndexError)):
                call()
        jax.jit(lambda v: pytest.raises(TypeError, lambda: x + v) and v)(y)  # traced
    """)


def test_conversions_from_and_to_jax() -> None:
    run_with_jax(r"""
        for dtype in (jnp.float32, jnp.int32, jnp.bfloat16, jnp.complex64, jnp.bool_, jnp.uint8):
            y = jnp.arange(100).astype(dtype).reshape(4, 25)
            for convert in (st.from_dlpack, st.as_tensor, st.asarray):
                x = convert(y)
                assert x.data_ptr() == y.unsafe_buffer_pointer(), (dtype, convert)
                assert not x.array.flags.writeable  # JAX relies on its arrays never changing
                assert x.dtype.name == str(y.dtype), (x.dtype, y.dtype)
                assert x.tolist() == y.tolist()
            copy = st.tensor(y)
            assert copy.array.flags.writeable and copy.dtype == x.dtype
            assert copy.data_ptr() != x.data_ptr()
            view = jax.dlpack.from_dlpack(copy)
            assert view.unsafe_buffer_pointer() == copy.data_ptr()
            assert native.is_shared(np.asarray(view))
            assert (view == y).all()
        for dtype in (jnp.int4, jnp.float8_e5m2, jnp.float8_e4m3fn):
            for convert in (st.tensor, st.as_tensor, st.asarray):
                with pytest.raises(TypeError, match=f"shmtensor has no dtype like .*{dtype.dtype}"):
                    convert(jnp.ones(3, dtype))
            with pytest.raises(RuntimeError):
                st.from_dlpack(jnp.ones(3, dtype))
        with pytest.raises(BufferError, match="readonly"):
            jax.dlpack.from_dlpack(st.ones(16).share(readonly=True))
        unaligned = st.zeros(17)[1:]
        copy = jax.dlpack.from_dlpack(unaligned)
        assert copy.unsafe_buffer_pointer() != unaligned.data_ptr()
        x = st.ones(16)
        view = jax.dlpack.from_dlpack(x)
        del x
        assert (view == 1).all()  # JAX's array keeps the memory
        with pytest.raises(RuntimeError, match="requires grad"):
            jnp.asarray(st.ones(3, requires_grad=True))
    """)
