"""autocast: which ops compute in which precision, in which threads, and its cost when it is off."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import amp, nn
from shmtensor.autograd.dispatch import autocast as inner
from shmtensor.nn import functional as F
from shmtensor.utils.checkpoint import checkpoint


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Any:
    yield
    assert not inner.active
    assert not inner.state.casts
    assert inner.state.nesting == 0
    assert not st.is_autocast_enabled("cpu")


def random_tensor(*shape: int, dtype: Any = st.float32) -> Any:
    st.manual_seed(sum(shape))
    return st.randn(*shape).to(dtype)


x, y, v = random_tensor(3, 3), random_tensor(3, 3), random_tensor(3)
images = random_tensor(2, 3, 6, 6)

LOWER = {
    "matmul": lambda: st.matmul(x, y),
    "operator": lambda: x @ y,
    "vector by matrix": lambda: v @ x,
    "mm": lambda: x.mm(y),
    "bmm": lambda: st.bmm(x[None], y[None]),
    "addmm": lambda: st.addmm(x, x, y),
    "addbmm": lambda: st.addbmm(x, x[None], y[None]),
    "baddbmm": lambda: st.baddbmm(x[None], x[None], y[None]),
    "linear": lambda: F.linear(x, y, v),
    "conv1d": lambda: F.conv1d(images[:, :, 0], random_tensor(4, 3, 2)),
    "conv2d": lambda: F.conv2d(images, random_tensor(4, 3, 2, 2)),
    "conv_transpose2d": lambda: F.conv_transpose2d(images, random_tensor(3, 4, 2, 2)),
    "attention": lambda: F.scaled_dot_product_attention(x[None], y[None], x[None]),
    "prelu": lambda: F.prelu(x, v),
    "vecdot": lambda: st.linalg.vecdot(x, y),
    "einsum": lambda: st.einsum("ij,jk->ik", x, y),
    "multi_dot": lambda: st.linalg.multi_dot([x, y, x]),
    "a module": lambda: nn.Linear(3, 2)(x),
}

FULL = {
    "mse_loss": lambda: F.mse_loss(x.bfloat16(), y.bfloat16()),
    "cross_entropy": lambda: F.cross_entropy(x.bfloat16(), st.tensor([0, 1, 2])),
    "cosine_embedding_loss": lambda: F.cosine_embedding_loss(
        x.bfloat16(), y.bfloat16(), st.tensor([1, -1, 1])
    ),
    "hinge_embedding_loss": lambda: F.hinge_embedding_loss(v.bfloat16(), st.tensor([1, -1, 1])),
    "margin_ranking_loss": lambda: F.margin_ranking_loss(
        v.bfloat16(), v.bfloat16(), st.tensor([1, -1, 1])
    ),
    "poisson_nll_loss": lambda: F.poisson_nll_loss(v.bfloat16(), v.bfloat16().abs()),
    "soft_margin_loss": lambda: F.soft_margin_loss(v.bfloat16(), st.tensor([1, -1, 1])),
    "triplet_margin_loss": lambda: F.triplet_margin_loss(x.bfloat16(), y.bfloat16(), x.bfloat16()),
    "inv": lambda: st.linalg.inv(x.bfloat16()),
    "svd": lambda: st.linalg.svd(x.bfloat16())[0],
    "prod": lambda: x.bfloat16().prod(),
    "prod(1)": lambda: x.bfloat16().prod(1),
    "trace": lambda: x.bfloat16().trace(),
    "cdist": lambda: st.cdist(x.bfloat16(), y),
    "quantile": lambda: st.quantile(v.bfloat16(), 0.5),
}

AS_GIVEN = {
    "add": lambda: x + y,
    "softmax": lambda: x.softmax(1),
    "layer_norm": lambda: F.layer_norm(x, (3,)),
    "mv": lambda: x.mv(v),
    "dot": lambda: v.dot(v),
    "addmv": lambda: st.addmv(v, x, v),
    "matrix_exp": lambda: st.linalg.matrix_exp(x),
    "bilinear": lambda: F.bilinear(x, y, random_tensor(4, 3, 3)),
    "in place": lambda: x.clone().addmm_(x, y),
    "out=": lambda: st.mm(x, y, out=st.empty(3, 3)),
    "out= of a row": lambda: st.matmul(x, y, out=st.empty(3, 3)),
}


@pytest.mark.parametrize("name", LOWER)
@pytest.mark.parametrize("lower", [st.bfloat16, st.float16])
def test_products_compute_in_the_lower_precision(name: str, lower: Any) -> None:
    assert LOWER[name]().dtype is st.float32
    with st.autocast("cpu", dtype=lower):
        assert LOWER[name]().dtype is lower
    assert LOWER[name]().dtype is st.float32


@pytest.mark.parametrize("name", FULL)
def test_delicate_ops_compute_in_float32(name: str) -> None:
    with st.autocast("cpu"):
        assert FULL[name]().dtype is st.float32


@pytest.mark.parametrize("name", AS_GIVEN)
def test_other_ops_compute_in_the_dtype_of_their_operands(name: str) -> None:
    expected = AS_GIVEN[name]().numpy()
    with st.autocast("cpu"):
        out = AS_GIVEN[name]()
    assert out.dtype is st.float32
    np.testing.assert_array_equal(out.numpy(), expected)


def test_joining_takes_the_widest() -> None:
    a, b = x.bfloat16(), y.bfloat16()
    index = st.tensor([0, 2])
    with st.autocast("cpu"):
        assert st.cat([a, b]).dtype is st.bfloat16
        assert st.cat([a, y]).dtype is st.float32
        assert st.stack((x, b)).dtype is st.float32
        assert x.index_copy(0, index, b[:2]).dtype is st.float32
        assert st.cat([x, y.double()]).dtype is st.float64


def test_float64_and_integers_stay() -> None:
    with st.autocast("cpu"):
        assert (x.double() @ y.double()).dtype is st.float64
        assert (st.ones(2, 2, dtype=st.int64) @ st.ones(2, 2, dtype=st.int64)).dtype is st.int64


def test_values_are_those_of_the_cast_operands() -> None:
    a, b = random_tensor(20, 30), random_tensor(30, 10)
    with st.autocast("cpu"):
        out = a @ b
    np.testing.assert_array_equal(
        out.float().numpy(), (a.bfloat16() @ b.bfloat16()).float().numpy()
    )
    np.testing.assert_allclose(out.float().numpy(), a.numpy() @ b.numpy(), atol=0.2)
    with st.autocast("cpu"):
        loss = F.mse_loss(out, a @ b + 1)
    np.testing.assert_allclose(loss.item(), 1, atol=1e-2)


def test_a_composite_computes_in_one_precision() -> None:
    """cdist multiplies matrices: in float32, because cdist itself is on the list."""
    a, b = random_tensor(40, 5), random_tensor(30, 5)
    expected = st.cdist(a, b, compute_mode="use_mm_for_euclid_dist").numpy()
    with st.autocast("cpu"):
        actual = st.cdist(a, b, compute_mode="use_mm_for_euclid_dist").numpy()
    np.testing.assert_array_equal(actual, expected)


def test_blocks_nest() -> None:
    with st.autocast("cpu"):
        with st.autocast("cpu", enabled=False):
            assert (x @ y).dtype is st.float32
            with st.autocast("cpu", st.float16):
                assert (x @ y).dtype is st.float16
                assert st.get_autocast_dtype("cpu") is st.float16
            assert not st.is_autocast_enabled("cpu")
        assert (x @ y).dtype is st.bfloat16
        with pytest.raises(ZeroDivisionError), st.autocast("cpu", st.float16):
            raise ZeroDivisionError
        assert (x @ y).dtype is st.bfloat16
    assert st.get_autocast_dtype("cpu") is st.bfloat16


def test_one_instance_may_be_entered_again() -> None:
    context = st.autocast("cpu")
    with context, context:
        assert (x @ y).dtype is st.bfloat16
    with context:
        assert (x @ y).dtype is st.bfloat16
    assert (x @ y).dtype is st.float32


def test_decorated_functions() -> None:
    @st.autocast("cpu")
    def product(n: int = 0) -> Any:
        return product(n - 1) if n else x @ y

    assert product(3).dtype is st.bfloat16
    assert product.__name__ == "product"
    assert (x @ y).dtype is st.float32
    with pytest.raises(TypeError, match="hint"):
        st.autocast("cpu")(3)  # type: ignore[type-var]


def test_threads_have_separate_modes() -> None:
    dtypes: list[Any] = []
    inside, check_over = threading.Event(), threading.Event()

    def other() -> None:
        inside.wait(60)
        dtypes.append((x @ y).dtype)
        with st.autocast("cpu", st.float16):
            dtypes.append((x @ y).dtype)
        check_over.set()

    thread = threading.Thread(target=other)
    thread.start()
    with st.autocast("cpu"):
        inside.set()
        assert check_over.wait(60)
        assert (x @ y).dtype is st.bfloat16
    thread.join()
    assert dtypes == [st.float32, st.float16]


def test_gradients_are_those_of_the_weights() -> None:
    st.manual_seed(3)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 2))
    data, target = random_tensor(11, 5), random_tensor(11, 2)
    F.mse_loss(model(data), target).backward()
    exact = [p.grad.numpy().copy() for p in model.parameters()]
    model.zero_grad()
    with st.autocast("cpu"):
        loss = F.mse_loss(model(data), target)
    loss.backward()  # outside
    for p, g in zip(model.parameters(), exact):
        assert p.grad.dtype is st.float32
        np.testing.assert_allclose(p.grad.numpy(), g, atol=0.02 * (1 + np.abs(g).max()))


def test_a_weight_is_cast_once() -> None:
    w = random_tensor(3, 3).requires_grad_()
    with st.autocast("cpu"):
        first, second = (x @ w), (y @ w)
        with st.autocast("cpu"):
            third = v @ w
    casts = {id(n) for out in (first, second, third) for n, _ in out.grad_fn.next_functions if n}
    assert len(casts) == 1
    (first.sum() + second.sum() + third.sum()).backward()
    rows = (x.sum(0) + y.sum(0) + v).numpy()
    np.testing.assert_allclose(w.grad.numpy(), np.repeat(rows[:, None], 3, 1), atol=0.1)
    with st.autocast("cpu", cache_enabled=False):
        first, second = x @ w, y @ w
    casts = {id(n) for out in (first, second) for n, _ in out.grad_fn.next_functions if n}
    assert len(casts) == 2


def test_two_losses_share_a_cast() -> None:
    w = random_tensor(3, 3).requires_grad_()
    with st.autocast("cpu"):
        first, second = (x @ w).sum(), (y @ w).sum()
    first.backward()
    single = w.grad.clone()
    second.backward()
    expected = np.repeat(y.sum(0).numpy()[:, None], 3, 1)
    np.testing.assert_allclose((w.grad - single).numpy(), expected, atol=0.1)


def test_a_cast_is_forgotten_when_the_weight_changes() -> None:
    w = st.ones(2, 2, requires_grad=True)
    one = st.ones(1, 2)
    with st.autocast("cpu"):
        with st.no_grad():
            assert (one @ w).grad_fn is None
        assert (one @ w).requires_grad  # the cast in the block above had no history
        with st.no_grad():
            w.add_(1)
        assert (one @ w).tolist() == [[4, 4]]
        w.data = st.full((2, 2), 4.0)
        assert (one @ w).tolist() == [[8, 8]]
        assert len(inner.state.casts) == 1
        st.clear_autocast_cache()
        assert not inner.state.casts
        with st.autocast("cpu", st.float16):
            assert (one @ w).dtype is st.float16
        assert (one @ w).dtype is st.bfloat16


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_compute_again_as_before(reentrant: bool) -> None:
    w = random_tensor(3, 3).requires_grad_()
    dtypes = []

    def part(a: Any) -> Any:
        out = a @ w
        dtypes.append(out.dtype)
        return out.tanh()

    data = x.clone().requires_grad_()
    with st.autocast("cpu"):
        out = checkpoint(part, data, use_reentrant=reentrant)
    out.float().sum().backward()
    assert dtypes == [st.bfloat16] * 2
    assert w.grad.dtype is st.float32


def test_transforms() -> None:
    batch = random_tensor(4, 3, 3)
    with st.autocast("cpu"):
        out = st.func.vmap(lambda a: a @ x)(batch)
        slope = st.func.grad(lambda a: F.mse_loss(a @ x, y))(batch[0])
    assert out.dtype is st.bfloat16
    assert slope.dtype is st.float32
    np.testing.assert_allclose(out.float().numpy(), batch.numpy() @ x.numpy(), atol=0.1)


def test_operands_without_autocast_are_not_cast() -> None:
    with st.autocast("cpu"):
        assert (x @ y).dtype is st.bfloat16
        assert inner.without_autocast(lambda: (x @ y).dtype) is st.float32
        assert (x @ y).dtype is st.bfloat16
        assert str(inspect.signature(st.matmul)) == "(input, other, *, out=None)"
    assert (x @ y).dtype is st.float32


def test_another_thread_is_not_concerned() -> None:
    with st.autocast("cpu"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: (x @ y).dtype).result() is st.float32
        assert pool.submit(lambda: F.mse_loss(x, y).dtype).result() is st.float32
        assert (x @ y).dtype is st.bfloat16


def test_an_op_that_is_first_called_inside() -> None:
    code = """
import shmtensor as st
x = st.ones(3, 3)
with st.autocast("cpu"):
    assert (x @ x).dtype is st.bfloat16
    assert st.linalg.inv(st.eye(3).bfloat16()).dtype is st.float32
assert (x @ x).dtype is st.float32
assert st.linalg.inv(st.eye(3)).dtype is st.float32
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=120)


def test_every_op_declares_its_autocast_kind() -> None:
    from shmtensor.autograd.dispatch.op_function import declare
    from shmtensor.ops import COMPOSITES, ROWS

    declare()
    declared = {**ROWS, **COMPOSITES}
    assert [declared[n].autocast for n in ("mm", "prod", "cat", "mv", "add")] == [
        "lower", "full", "widest", "alone", "",
    ]  # fmt: skip
    assert {entry.autocast for entry in declared.values()} == {
        "lower",
        "full",
        "widest",
        "alone",
        "",
    }


# ---------------------------------------------------------------- what is set


def test_the_older_functions() -> None:
    st.set_autocast_cpu_enabled(True)
    st.set_autocast_cpu_dtype(st.float16)
    try:
        assert st.is_autocast_cpu_enabled()
        assert st.is_autocast_enabled("cpu")
        assert st.get_autocast_cpu_dtype() is st.float16
        assert (x @ y).dtype is st.float16
    finally:
        st.set_autocast_enabled("cpu", False)
        st.set_autocast_dtype("cpu", st.bfloat16)
    assert st.get_autocast_gpu_dtype() is st.float16
    st.set_autocast_gpu_dtype(st.bfloat16)
    assert st.get_autocast_dtype("cuda") is st.bfloat16
    st.set_autocast_gpu_dtype(st.float16)
    st.set_autocast_enabled(True)  # of "cuda"
    assert st.is_autocast_enabled()
    st.set_autocast_enabled(False)
    assert st.autocast_increment_nesting() == 1
    assert st.autocast_decrement_nesting() == 0
    assert st.is_autocast_cache_enabled()
    st.set_autocast_cache_enabled(False)
    assert not st.is_autocast_cache_enabled()
    st.set_autocast_cache_enabled(True)
    with pytest.raises(TypeError, match="enabled is missing"):
        st.set_autocast_enabled("cpu")


def test_wrong_use() -> None:
    assert amp.is_autocast_available("cpu")
    assert not amp.is_autocast_available("mps")
    with pytest.raises(RuntimeError, match="unsupported device_type: 'mps'"):
        st.autocast("mps")
    with pytest.raises(ValueError, match="must be a str"):
        st.autocast(st.device("cpu"))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="is_autocast_enabled: unsupported"):
        st.is_autocast_enabled("nowhere")
    with pytest.warns(UserWarning, match="not supported"):
        context = st.autocast("cpu", st.float64)
    with context:
        assert (x @ y).dtype is st.float32
    with pytest.warns(UserWarning, match="CUDA is not available"):
        context = st.autocast("cuda")
    with context:
        assert (x @ y).dtype is st.float32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        st.autocast("cuda", enabled=False)


# ---------------------------------------------------------------- custom Functions


def test_custom_functions_compute_backward_as_forward() -> None:
    dtypes: list[Any] = []

    class Product(st.autograd.Function):
        @staticmethod
        @amp.custom_fwd(device_type="cpu")
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: Any) -> Any:
            a, b = ctx.saved_tensors
            dtypes.append((g @ b.T).dtype)
            return (g @ b.T).float(), (a.T @ g).float()

    a, b = x.clone().requires_grad_(), y.clone().requires_grad_()
    with st.autocast("cpu"):
        out = Product.apply(a, b)
    assert out.dtype is st.bfloat16
    out.float().sum().backward()
    Product.apply(a, b).sum().backward()
    assert dtypes == [st.bfloat16, st.float32]


def test_custom_functions_may_ask_for_a_dtype() -> None:
    calls: list[Any] = []

    class Product(st.autograd.Function):
        @staticmethod
        @amp.custom_fwd(device_type="cpu", cast_inputs=st.float32)
        def forward(ctx: Any, a: Any, extras: Any, word: str) -> Any:
            calls.append((a.dtype, extras["b"].dtype, extras["n"].dtype, word))
            return a @ extras["b"]

        @staticmethod
        @amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: Any) -> Any:
            calls.append(st.is_autocast_enabled("cpu"))
            return g, None, None

    a = x.bfloat16().requires_grad_()
    extras = {"b": y.bfloat16(), "n": st.tensor([1])}
    with st.autocast("cpu"):
        out = Product.apply(a, extras, "as it is")
    assert out.dtype is st.float32
    out.sum().backward()
    assert calls == [(st.float32, st.float32, st.int64, "as it is"), False]
    assert Product.apply(a, extras, "").dtype is st.bfloat16  # outside it has no effect
    with pytest.raises(ValueError, match="custom_fwd: device_type must be a str"):
        amp.custom_fwd(device_type=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="custom_bwd: device_type must be a str"):
        amp.custom_bwd(device_type=3)  # type: ignore[arg-type]


# ---------------------------------------------------------------- against PyTorch


@pytest.mark.torch
def test_as_pytorch_has_it() -> None:
    import torch

    def dtypes(m: Any) -> list[str]:
        m.manual_seed(0)
        a, b = m.ones(3, 3), m.ones(3)
        t, low = m.ones(2, 3, 3), m.ones(3, 3).to(m.bfloat16)
        integral = m.tensor([0, 1, 2])
        with m.autocast("cpu"):
            outs = [
                a @ a, a @ b, b @ b, a.mm(a), a.mv(b), b.dot(b), m.bmm(t, t), m.addmm(a, a, a),
                m.nn.functional.linear(a, a), m.einsum("ij,jk", a, a), m.outer(b, b),
                m.linalg.multi_dot([a, a]), m.linalg.matrix_power(a, 3), m.cov(a), m.kron(a, a),
                m.tensordot(a, a, 1), a.softmax(1), low.softmax(1), low + a, low.prod(), low.sum(),
                m.nn.functional.mse_loss(low, a), m.nn.functional.cross_entropy(low, integral),
                m.nn.functional.layer_norm(low, (3,)), m.cat([low, a]), m.stack([low, low]),
                m.linalg.inv(m.eye(3).to(m.bfloat16)), m.fft.fft(low), m.nn.functional.gelu(low),
                m.linalg.norm(low), m.trace(low), low @ a.double().float(), m.cdist(low, low),
            ]  # fmt: skip
        return [str(o.dtype).rpartition(".")[2] for o in outs]

    assert dtypes(st) == dtypes(torch)
