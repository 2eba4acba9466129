"""autocast("cuda"): PyTorch's lists for CUDA, by the device of the operands."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.autograd.dispatch import autocast as inner
from shmtensor.nn import functional as F


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Any:
    yield
    assert not inner.active
    assert not inner.state.casts
    assert inner.state.nesting == 0


def random_tensor(*shape: int, dtype: Any = st.float32, low: float = 0.1) -> Any:
    values = np.random.default_rng(sum(shape)).uniform(low, 0.9, shape)
    return st.tensor(values.tolist(), dtype=dtype).cuda()


def half(*shape: int) -> Any:
    return random_tensor(*shape, dtype=st.float16)


LOWER = {
    "matmul": lambda x, v: st.matmul(x, x),
    "operator": lambda x, v: x @ x,
    "mm": lambda x, v: x.mm(x),
    "mv": lambda x, v: x.mv(v),
    "bmm": lambda x, v: st.bmm(x[None], x[None]),
    "addmm": lambda x, v: st.addmm(x, x, x),
    "addmv": lambda x, v: st.addmv(v, x, v),
    "addr": lambda x, v: st.addr(x, v, v),
    "baddbmm": lambda x, v: st.baddbmm(x[None], x[None], x[None]),
    "linear": lambda x, v: F.linear(x, x, v),
    "prelu": lambda x, v: F.prelu(x, v),
    "einsum": lambda x, v: st.einsum("ij,jk->ik", x, x),
    "multi_dot": lambda x, v: st.linalg.multi_dot([x, x, x]),
    "a module": lambda x, v: nn.Linear(3, 2).cuda()(x),
    "attention": lambda x, v: F.scaled_dot_product_attention(x[None], x[None], x[None]),
}
NAMES = [
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log1p", "log2",
    "reciprocal", "rsqrt", "sinh", "tan", "prod", "sum",
]  # fmt: skip
FULL = {
    **{name: lambda x, name=name: getattr(st, name)(x) for name in NAMES},
    "pow": lambda x: x**2,
    "1 / x": lambda x: 1 / x,
    "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: x.cumprod(0),
    "softmax": lambda x: x.softmax(0),
    "log_softmax": lambda x: F.log_softmax(x, 0),
    "softplus": lambda x: F.softplus(x),
    "layer_norm": lambda x: F.layer_norm(x, (3,)),
    "norm": lambda x: x.norm(),
    "dist": lambda x: st.dist(x, x * 2),
    "mse_loss": lambda x: F.mse_loss(x, x * 2),
    "l1_loss": lambda x: F.l1_loss(x, x * 2),
    "bce with logits": lambda x: F.binary_cross_entropy_with_logits(x, x),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x),
}
WIDEST = {
    "addcmul": lambda x, y: st.addcmul(x, y, x),
    "addcdiv": lambda x, y: st.addcdiv(x, y, x),
    "atan2": lambda x, y: st.atan2(x, y),
    "dot": lambda x, y: st.dot(x[0], y[0]),
    "cross": lambda x, y: st.linalg.cross(x, y),
    "cat": lambda x, y: st.cat([x, y]),
    "stack": lambda x, y: st.stack([x, y]),
    "tensordot": lambda x, y: st.tensordot(x, y, 1),
}
UNCHANGED = {
    "add": lambda x: x + x,
    "mul": lambda x: x * 2,
    "relu": lambda x: x.relu(),
    "sigmoid": lambda x: x.sigmoid(),
    "tanh": lambda x: x.tanh(),
    "sqrt": lambda x: x.sqrt(),
    "gelu": lambda x: F.gelu(x),
    "mean": lambda x: x.mean(),
    "x / 2": lambda x: x / 2,
}


@pytest.mark.parametrize("name", LOWER)
def test_products_compute_in_half_precision(cp: Any, name: str) -> None:
    x, v = random_tensor(3, 3), random_tensor(3)
    with st.autocast("cuda"):
        assert LOWER[name](x, v).dtype is st.float16
    with st.autocast("cuda", enabled=False):
        assert LOWER[name](x, v).dtype is st.float32


@pytest.mark.parametrize("name", FULL)
def test_sensitive_ops_compute_in_single_precision(cp: Any, name: str) -> None:
    x = half(2, 3)
    with st.autocast("cuda"):
        assert FULL[name](x).dtype is st.float32


@pytest.mark.parametrize("name", WIDEST)
def test_ops_of_several_operands_compute_in_the_widest(cp: Any, name: str) -> None:
    with st.autocast("cuda"):
        assert WIDEST[name](half(3, 3), random_tensor(3, 3)).dtype is st.float32
        assert WIDEST[name](half(3, 3), half(3, 3)).dtype is st.float16


@pytest.mark.parametrize("name", UNCHANGED)
def test_other_ops_compute_in_their_inputs_dtype(cp: Any, name: str) -> None:
    with st.autocast("cuda"):
        assert UNCHANGED[name](half(2, 3)).dtype is st.float16
        assert UNCHANGED[name](random_tensor(2, 3)).dtype is st.float32


def test_binary_cross_entropy_is_refused(cp: Any) -> None:
    x = random_tensor(3)
    with st.autocast("cuda"), pytest.raises(RuntimeError, match="are unsafe to autocast"):
        F.binary_cross_entropy(x, x)
    with st.autocast("cuda"), st.autocast("cuda", enabled=False):
        F.binary_cross_entropy(x, x)


def test_the_operands_device_chooses_the_list(cp: Any) -> None:
    x, y = random_tensor(3, 3), st.ones(3, 3)
    with st.autocast("cuda"):
        assert (y @ y).dtype is st.float32
        assert (x @ x).dtype is st.float16
        assert y.half().exp().dtype is st.float16
        with st.autocast("cpu"):
            assert (y @ y).dtype is st.bfloat16
            assert (x @ x).dtype is st.float16
            assert x.half().exp().dtype is st.float32
            assert y.half().exp().dtype is st.float16
            assert F.binary_cross_entropy(y * 0.5, y).dtype is st.float32
        assert st.is_autocast_enabled("cuda")
        assert not st.is_autocast_enabled("cpu")
    with st.autocast("cpu"):
        assert (x @ x).dtype is st.float32


def test_doubles_and_integers_are_not_cast(cp: Any) -> None:
    with st.autocast("cuda"):
        x = random_tensor(3, 3, dtype=st.float64)
        assert (x @ x).dtype is st.float64
        assert x.exp().dtype is st.float64
        assert random_tensor(3).long().sum().dtype is st.int64


def test_gradients_are_of_the_parameters_dtype(cp: Any) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).cuda()
    twin = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    twin.load_state_dict(model.state_dict())
    x = random_tensor(5, 3)
    with st.autocast("cuda"):
        out = model(x)
        loss = F.mse_loss(out, st.zeros(5, 2).cuda())
    assert out.dtype is st.float16
    assert loss.dtype is st.float32
    loss.backward()
    F.mse_loss(twin(x.cpu()), st.zeros(5, 2)).backward()
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        assert p.grad.dtype is st.float32
        np.testing.assert_allclose(p.grad.cpu().numpy(), q.grad.numpy(), 1e-2, 1e-3)


def test_weights_are_cast_once(cp: Any) -> None:
    weight = random_tensor(3, 3).requires_grad_()
    with st.autocast("cuda"):
        y = weight @ weight
        assert list(inner.state.casts) == [id(weight)]
        y.float().sum().backward()
    assert weight.grad.dtype is st.float32


def test_each_thread_has_its_own_setting(cp: Any) -> None:
    x, seen = random_tensor(3, 3), []

    def other() -> None:
        seen.append((x @ x).dtype)

    with st.autocast("cuda"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert seen == [st.float32]


def test_settings(cp: Any) -> None:
    assert st.get_autocast_gpu_dtype() is st.float16
    assert not st.is_autocast_enabled("cuda")
    assert not st.is_autocast_enabled()
    with st.autocast("cuda"):
        assert st.is_autocast_enabled("cuda")
        assert st.is_autocast_enabled()
    with st.autocast("cuda", st.bfloat16):
        x = st.ones(2, 2).cuda()
        assert (x @ x).dtype is st.bfloat16


def test_custom_functions(cp: Any) -> None:
    seen: list[Any] = []

    class Product(st.autograd.Function):
        @staticmethod
        @st.amp.custom_fwd(device_type="cuda", cast_inputs=st.float32)
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            seen.append((x.dtype, st.is_autocast_enabled("cuda")))
            return x @ y

        @staticmethod
        @st.amp.custom_bwd(device_type="cuda")
        def backward(ctx: Any, g: Any) -> Any:
            x, y = ctx.saved_tensors
            seen.append(st.is_autocast_enabled("cuda"))
            return g @ y.T, x.T @ g

    x = half(3, 3).requires_grad_()
    with st.autocast("cuda"):
        out = Product.apply(x, random_tensor(3, 3))
        assert out.dtype is st.float32
        out.sum().backward()
    assert seen == [(st.float32, False), False]
    assert x.grad.dtype is st.float16
