"""Autograd on GPUs: Functions, hooks, checkpoints, gradcheck, forward mode, vmap, func."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as st
from shmtensor import autograd, func, nn
from shmtensor.autograd import forward_ad
from shmtensor.nn import functional as F
from shmtensor.utils import checkpoint

Case = Callable[[str], Any]
CASES: list[Case] = []


def case(function: Case) -> Case:
    """A program of a device whose result is the same on the CPU and on a GPU."""
    CASES.append(function)
    return function


def x_on(device: str) -> st.Tensor:
    return st.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).to(device)


def w_on(device: str) -> st.Tensor:
    return x_on(device).requires_grad_()


def plain(value: Any, device: str) -> Any:
    """The numbers of a result, whose tensors are all on the device."""
    if isinstance(value, st.Tensor):
        assert value.device.type == device
        return value.tolist()
    if isinstance(value, dict):
        return {name: plain(v, device) for name, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v, device) for v in value]
    return value


def flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    return [v for part in value for v in flat(part)] if isinstance(value, list) else [value]


# ---------------------------------------------------------------- Functions


class Product(autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx: Any, a: Any, b: Any) -> Any:
        x, y = ctx.saved_tensors
        assert a.device == b.device == x.device  # materialized ones, too
        return a * y + b, a * x + b


@case
def several_outputs(device: str) -> Any:
    w = w_on(device)
    a, b = Product.apply(w, w * 2)
    (a * b).sum().backward()
    return w.grad


@case
def materialized_grads(device: str) -> Any:
    w = w_on(device)
    _, b = Product.apply(w, w * 2)
    b.sum().backward()
    return w.grad


@case
def no_materialized_grads(device: str) -> Any:
    class Pair(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            assert a is None
            return 2 * b

    w = w_on(device)
    Pair.apply(w)[1].sum().backward()
    return w.grad


@case
def dirty_inputs(device: str) -> Any:
    class Triple(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.mul_(3)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    w = w_on(device)
    y = Triple.apply(w * 1)
    (y * y).sum().backward()
    return w.grad


@case
def outputs_without_gradient(device: str) -> Any:
    class WithIndex(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            index = x.argmax(1)
            ctx.mark_non_differentiable(index)
            return x * 2, index

        @staticmethod
        def backward(ctx: Any, g: Any, _: Any) -> Any:
            return g * 2

    w = w_on(device)
    y, index = WithIndex.apply(w)
    y.sum().backward()
    return w.grad, index


@case
def a_function_with_jvp(device: str) -> Any:
    class Square(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x**2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * x * g

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * x * t

    x = x_on(device)
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(
            Square.apply(forward_ad.make_dual(x, st.ones_like(x)))
        ).tangent


@case
def second_derivatives(device: str) -> Any:
    w = w_on(device)
    a, _ = Product.apply(w, w)
    (g,) = autograd.grad(a.sum(), w, create_graph=True)
    return autograd.grad((g * g).sum(), w)


def test_a_gradient_on_another_device_is_named(cp: Any) -> None:
    class Wrong(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g.cpu()

    with pytest.raises(RuntimeError, match="index 0 - expected device cuda:0 but got cpu"):
        Wrong.apply(w_on("cuda")).sum().backward()


# ---------------------------------------------------------------- checkpoints, hooks, modes


@case
def checkpoints(device: str) -> Any:
    grads = []
    for reentrant in (True, False):
        w = w_on(device)
        y = checkpoint.checkpoint(lambda x: (x / 10).exp() * x, w, use_reentrant=reentrant)
        y.sum().backward()
        grads.append(w.grad)
    return grads


def test_checkpoints_repeat_the_random_numbers(cp: Any) -> None:
    for reentrant in (True, False):
        w = st.ones(1000).cuda().requires_grad_()
        y = checkpoint.checkpoint(lambda x: F.dropout(x, 0.5), w, use_reentrant=reentrant)
        y.sum().backward()
        assert ((y == 0) == (w.grad == 0)).all()
        assert (y == 0).any()


@case
def all_hooks(device: str) -> Any:
    w, seen = w_on(device), []
    y = w * 2
    y.register_hook(lambda g: seen.append(g.device.type == device) or g * 2)
    w.register_hook(lambda g: g + 1)
    y.grad_fn.register_hook(lambda gi, go: seen.append(gi[0].device.type == device))
    y.grad_fn.register_prehook(lambda go: seen.append(go[0].device.type == device))
    w.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.device.type == device))
    y.retain_grad()
    y.sum().backward()
    return w.grad, y.grad, seen


def test_a_hook_must_keep_the_device(cp: Any) -> None:
    w = w_on("cuda")
    w.register_hook(lambda g: g.cpu())
    with pytest.raises(RuntimeError, match="changed the device of the gradient: cpu is not cuda:0"):
        w.sum().backward()


def test_the_grad_must_be_on_the_device(cp: Any) -> None:
    w = w_on("cuda")
    with pytest.raises(RuntimeError, match="a different device: cpu is not cuda:0"):
        w.grad = st.ones(2, 3)
    w.grad = st.ones(2, 3).cuda()
    w.sum().backward()
    assert w.grad.tolist() == [[2, 2, 2], [2, 2, 2]]


@pytest.mark.parametrize("compute", [
    lambda y, w, g: y.backward(g), lambda y, w, g: autograd.grad(y, w, g),
], ids=["backward", "grad"])  # fmt: skip
def test_the_gradient_given_must_be_on_the_device(cp: Any, compute: Any) -> None:
    w = w_on("cuda")
    with pytest.raises(RuntimeError, match=r"gradient .* is on cpu, the output on cuda:0"):
        compute(w * 2, w, st.ones(2, 3))


@case
def saved_tensors_hooks(device: str) -> Any:
    w, seen = w_on(device), []

    def pack(t: Any) -> Any:
        seen.append(t.device.type == device)
        return t.cpu()

    with autograd.graph.saved_tensors_hooks(pack, lambda t: t.to(device)):
        y = (w / 10).exp() * w
    y.sum().backward()
    return w.grad, seen


@case
def saved_on_the_cpu(device: str) -> Any:
    grads = []
    for pinned in (False, True):
        w = w_on(device)
        with autograd.graph.save_on_cpu(pin_memory=pinned):
            y = w * w * w
        y.sum().backward()
        grads.append(w.grad)
    return grads


@case
def inference(device: str) -> Any:
    with st.inference_mode():
        x = x_on(device) * 2
        x.add_(1)
        assert x.is_inference()
    with pytest.raises(RuntimeError, match="InferenceMode"):
        x.add_(1)
    return x.clone()


@case
def written_saved_values(device: str) -> Any:
    y = w_on(device) * 1
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    return True


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_anomaly_mode_finds_nan(cp: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with autograd.detect_anomaly():
            w = w_on("cuda")
            y = ((w * 0).log() * 0).sum()
            with pytest.raises(RuntimeError, match="'LogBackward0' returned nan"):
                y.backward()
            (w * w).sum().backward()


@case
def gradient_edges(device: str) -> Any:
    w = w_on(device)
    y = (w * 3).sum()
    edge = autograd.graph.get_gradient_edge(w)
    (g,) = autograd.grad(y, edge, retain_graph=True)
    autograd.backward(autograd.graph.get_gradient_edge(y))
    return g, w.grad


@case
def unused_and_batched(device: str) -> Any:
    w, v = w_on(device), w_on(device)
    unused = autograd.grad((w * 2).sum(), [w, v], materialize_grads=True)
    batch = autograd.grad(w * 2, w, st.stack([x_on(device)] * 2), is_grads_batched=True)
    return unused, batch


@case
def accumulation_and_graphs(device: str) -> Any:
    w = w_on(device)
    (w**3).sum().backward(create_graph=True)
    w.grad.sum().backward()
    return w.grad.detach()


@case
def views_and_writes(device: str) -> Any:
    w = w_on(device)
    y = w * 2
    y[0].mul_(5)
    y[1, 1] = 0
    y[:, 2] = w[:, 0]
    y.T[0].add_(1)
    y.diagonal().mul_(3)
    y[y > 20] = 0
    y[0:1].copy_(w[1:])
    (y * y).sum().backward()
    return w.grad


@case
def half_precision(device: str) -> Any:
    w = x_on(device).half().requires_grad_()
    (w * w + w).sum().backward()
    return w.grad


@case
def copies_of_modules(device: str) -> Any:
    m = nn.Linear(3, 2).to(device)
    return copy.deepcopy(m).weight.data_ptr() != m.weight.data_ptr()


@case
def sparse_embedding_gradients(device: str) -> Any:
    e = nn.Embedding(4, 3, sparse=True).to(device)
    e(st.tensor([1, 1, 2]).to(device)).sum().backward()
    assert e.weight.grad.is_sparse
    return e.weight.grad.to_dense()


def test_the_profiler_sees_ops_on_a_gpu(cp: Any) -> None:
    x = x_on("cuda")
    with autograd.profiler.profile() as profile:
        (x * 2).sum()
    assert {"mul", "sum"} <= {event.key for event in profile.key_averages()}


# ---------------------------------------------------------------- gradcheck


def test_gradcheck(cp: Any) -> None:
    w = x_on("cuda").double().requires_grad_()
    v = x_on("cuda").double().T.contiguous().requires_grad_()
    assert autograd.gradcheck(lambda x: (x.sin() * x).sum(1), (w,))
    assert autograd.gradgradcheck(lambda x: (x.sin() * x).sum(1), (w,))
    assert autograd.gradcheck(lambda x, y: x @ y, (w, v), check_forward_ad=True)
    assert autograd.gradcheck(lambda x, y: x @ y, (w, v), fast_mode=True, check_grad_dtypes=True)
    z = st.tensor([1 + 2j, 3 - 1j], dtype=st.complex128).cuda().requires_grad_()
    assert autograd.gradcheck(lambda x: x * x, (z,))
    assert w.tolist() == x_on("cpu").tolist()  # restored


def test_gradcheck_finds_a_wrong_gradient(cp: Any) -> None:
    class Wrong(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    w = x_on("cuda").double().requires_grad_()
    with pytest.raises(autograd.GradcheckError, match="numerical 2"):
        autograd.gradcheck(Wrong.apply, (w,))


# ---------------------------------------------------------------- forward mode, func, vmap


@case
def duals(device: str) -> Any:
    x = x_on(device)
    with forward_ad.dual_level():
        y = ((forward_ad.make_dual(x, st.ones_like(x)) / 10).exp() * 2).sum(1)
        return tuple(forward_ad.unpack_dual(y))


@case
def products(device: str) -> Any:
    x = x_on(device)
    out, pullback = func.vjp(lambda x: x * x, x)
    return out, pullback(st.ones_like(out)), func.jvp(lambda x: x * x, (x,), (x,))


@case
def gradients_of_functions(device: str) -> Any:
    x = x_on(device)
    return (
        func.grad(lambda x: (x**3).sum())(x),
        func.grad(func.grad(lambda x: x**3))(st.tensor(2.0).to(device)),
        func.grad_and_value(lambda x: (x**3).sum())(x),
    )


@case
def jacobians(device: str) -> Any:
    x = x_on(device)
    f = lambda x: (x * x).sum(1)  # noqa: E731
    return (
        func.jacrev(f)(x),
        func.jacfwd(f)(x),
        func.hessian(lambda x: (x**3).sum())(x[0]),
        autograd.functional.jacobian(f, x),
        autograd.functional.jacobian(f, x, vectorize=True),
        autograd.functional.hessian(lambda x: (x**3).sum(), x[0]),
        autograd.functional.hvp(lambda x: (x**3).sum(), x, x),
        autograd.functional.jvp(lambda x: x * x, x, x),
    )


@case
def batches(device: str) -> Any:
    x = x_on(device)
    return (
        func.vmap(lambda row: row.sum() * 2)(x),
        func.vmap(st.dot)(x, x),
        func.vmap(lambda a, b: a * b, in_dims=(0, None))(x, x[0]),
        func.vmap(lambda m: m @ m.T)(st.stack([x, x])),
        func.vmap(func.grad(lambda row: (row**2).sum()))(x),
        func.vmap(lambda c: c.sum(), in_dims=1)(x),
        func.vmap(lambda row: row[0], chunk_size=1)(x),
        func.vmap(lambda row: row[st.tensor([1, 0], device=row.device)])(x),
        func.vmap(lambda row: row[st.tensor([1, 0])])(x),
        func.vmap(lambda row: row[[0, 1, 0]])(x),
    )


@case
def modules_as_functions(device: str) -> Any:
    modules = [nn.Linear(3, 2).to(device) for _ in range(2)]
    for m in modules:
        for p in m.parameters():
            p.detach().fill_(0.5)
    x, parameters = x_on(device), dict(modules[0].named_parameters())

    def total(p: Any) -> Any:
        return func.functional_call(modules[0], p, (x,)).sum()

    stacked, buffers = func.stack_module_state(modules)

    def call(p: Any, b: Any, x: Any) -> Any:
        return func.functional_call(modules[0], (p, b), (x,))

    ensemble = func.vmap(call, in_dims=(0, 0, None))(stacked, buffers, x)
    return func.grad(total)(parameters), ensemble.detach()


@pytest.mark.parametrize("program", CASES, ids=[c.__name__ for c in CASES])
def test_as_on_the_cpu(cp: Any, program: Case) -> None:
    expected, result = (flat(plain(program(d), d)) for d in ("cpu", "cuda"))
    assert result == pytest.approx(expected, rel=1e-5)


# ---------------------------------------------------------------- several devices


def test_leaves_on_two_devices(cp: Any) -> None:
    w = w_on("cpu")
    v = w_on("cuda")
    y = (w.cuda() * v + v).sum()
    gw, gv = autograd.grad(y, [w, v], retain_graph=True)
    assert (str(gw.device), str(gv.device)) == ("cpu", "cuda:0")
    assert gw.tolist() == v.tolist()
    assert gv.tolist() == (w + 1).tolist()
    y.backward()
    assert w.grad.tolist() == gw.tolist()
    assert v.grad.is_cuda


def test_leaves_on_two_gpus(two_devices: Any, cp: Any) -> None:
    a = x_on("cuda:0").requires_grad_()
    b = x_on("cuda:1").requires_grad_()
    for _ in range(2):
        ((a * 2).to("cuda:1") * b + b).sum().backward()
    assert (str(a.grad.device), str(b.grad.device)) == ("cuda:0", "cuda:1")
    assert a.grad.tolist() == (4 * x_on("cpu")).tolist()
    assert b.grad.tolist() == (4 * x_on("cpu") + 2).tolist()
    y = (b * b).sum()
    (g,) = autograd.grad(y, b, create_graph=True)
    (h,) = autograd.grad(g.sum(), b)
    assert h.tolist() == [[2] * 3] * 2
    w = b.detach().requires_grad_()
    z = w * 2
    z.retain_grad()
    z[0] = 1
    z[:, 1] = w[:, 0]
    z.sum().backward()
    assert w.grad.tolist() == [[1, 0, 0], [3, 0, 2]]
    assert str(z.grad.device) == "cuda:1"


def test_assert_close_on_a_gpu(cp: Any) -> None:
    x = x_on("cuda")
    st.testing.assert_close(x, x + 1e-7)
    with pytest.raises(AssertionError, match="Mismatched elements: 6 / 6"):
        st.testing.assert_close(x, x + 1)
    with pytest.raises(AssertionError, match="'device' do not match: cuda:0 != cpu"):
        st.testing.assert_close(x, x.cpu())
    st.testing.assert_close(x, x.cpu(), check_device=False)
