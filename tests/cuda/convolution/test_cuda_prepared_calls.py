"""What convolutions and pooling keep between calls: another call gets none of it wrongly."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional as F


def random(*shape: int) -> Any:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


def near(ours: Any, expected: Any, tolerance: float = 1e-4) -> None:
    np.testing.assert_allclose(ours.detach().cpu(), expected.detach(), tolerance, tolerance)


# ---------------------------------------------------------------- convolutions


def test_calls_of_one_shape_with_other_memory_and_options(cudnn: Any, plans: list[Any]) -> None:
    x, weight, bias = st.tensor(random(2, 4, 8, 8)), st.tensor(random(4, 4, 3, 3)), st.ones(4)
    far, filters = x.cuda(), weight.cuda()
    wide = st.tensor(random(2 * 4 * 8 * 8 + 1)).cuda()
    views: list[Any] = [
        far,
        far.contiguous(memory_format=st.channels_last),
        far.transpose(2, 3),
        wide[1:].reshape(2, 4, 8, 8),
        far[:1].expand(2, 4, 8, 8),
        far,
    ]
    for view in views:
        for options in ((1, 1), (2, 1), (1, 0), (1, 1, 2), (1, 1)):
            expected = F.conv2d(view.cpu(), weight, bias, *options)
            near(F.conv2d(view, filters, bias.cuda(), *options), expected)
    assert len(plans) == 5 * len(views)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("rank", [1, 2])
def test_bias_in_both_orders(cudnn: Any, plans: list[Any], dtype: str, rank: int) -> None:
    sizes = (7, 5)[:rank]
    x, weight = random(2, 8, *sizes).astype(dtype), random(16, 8, *(3,) * rank).astype(dtype)
    bias = random(32).astype(dtype)
    conv = getattr(F, f"conv{rank}d")
    far = [st.tensor(a, device="cuda") for a in (x, weight, bias)]
    expected = conv(*(st.tensor(a) for a in (x, weight, bias[::2].copy())))
    tolerance = 2e-2 if dtype == "float16" else 1e-4
    near(conv(far[0], far[1], far[2][::2]), expected, tolerance)
    if rank == 2:
        last = far[0].contiguous(memory_format=st.channels_last)
        out = conv(last, far[1], far[2][::2])
        assert out.is_contiguous(memory_format=st.channels_last)
        near(out, expected, tolerance)


def test_the_choice_is_that_of_the_switches() -> None:
    from shmtensor.cudnn_runtime import Settings

    settings = Settings()
    assert settings.choice == (0, False, True)
    settings.allow_tf32 = False
    assert settings.choice == (0, False, False)
    settings.all_deterministic = True
    assert settings.choice == (0, True, False)
    settings.benchmark = True
    assert settings.choice == (10, True, False)
    settings.benchmark_limit = 0
    assert settings.choice == (-1, True, False)


def test_a_frontend_without_the_direct_launch(
    cudnn: Any, plans: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from shmtensor.ops.cuda import cudnn as ours

    lowered = types.SimpleNamespace(
        _prepare_variant_pack_template=lambda: None,
        _get_variant_pack_uids_sorted=lambda: [1, 2, 3],
        _execute_with_raw_ptrs=lambda addresses, count, workspace, handle: None,
    )
    graph = types.SimpleNamespace(selected_engine=None, _plan_index=0, _plans=[])
    assert ours.direct_launch(graph, -1) == (None, -1)
    graph._lowered_graph = lowered
    assert ours.direct_launch(graph, -1) == (None, -1)
    monkeypatch.setattr(ours, "direct_launch", lambda graph, number: (None, -1))
    x, weight = st.tensor(random(3, 2, 6, 5)), st.tensor(random(4, 2, 3, 3))
    for benchmark in (False, True):
        with st.backends.cudnn.flags(enabled=True, benchmark=benchmark, allow_tf32=False):
            for _ in range(2):
                near(F.conv2d(x.cuda(), weight.cuda()), F.conv2d(x, weight))
    assert plans
    assert all(plan.start is None for plan in plans)


def test_the_direct_launch_runs_the_chosen_plan(cudnn: Any, plans: list[Any]) -> None:
    x, weight = st.tensor(random(3, 2, 7, 5)), st.tensor(random(4, 2, 3, 3))
    with st.backends.cudnn.flags(enabled=True, benchmark=True):
        for _ in range(3):
            near(F.conv2d(x.cuda(), weight.cuda()), F.conv2d(x, weight), 2e-2)
    assert len({plan.number for plan in plans}) > 1


def test_no_convolution_is_remembered_too(cudnn: Any, plans: list[Any]) -> None:
    """An image with elements that no window reaches, a transposed convolution of it: im2col."""
    x, weight = st.tensor(random(2, 3, 3, 3)), st.tensor(random(3, 2, 2, 2))
    for _ in range(2):
        ours = F.conv_transpose2d(x.cuda(), weight.cuda(), None, 1, 0, 2, 1, 3)
        near(ours, F.conv_transpose2d(x, weight, None, 1, 0, 2, 1, 3))
    assert not plans


def test_arguments_that_equal_valid_ones_are_refused_as_before(cuda: ModuleType) -> None:
    for device in ("cpu", "cuda"):
        x, weight = st.ones(1, 2, 6, 6, device=device), st.ones(3, 2, 3, 3, device=device)
        for _ in range(2):
            F.conv2d(x, weight, None, 1, (1, 1))
            F.max_pool2d(x, 2, (2, 2))
            with pytest.raises(TypeError, match="conv2d: padding must be an int or a tuple"):
                F.conv2d(x, weight, None, 1, (1.0, 1.0))  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="max_pool2d: stride must be an int or a tuple"):
                F.max_pool2d(x, 2, (2.0, 2.0))  # type: ignore[arg-type]
            with pytest.raises(RuntimeError, match="groups=2 expects 4 channels"):
                F.conv2d(x, weight[:2], None, 1, 1, 1, 2)
            with pytest.raises(RuntimeError, match="should have the same dtype"):
                F.conv2d(x, weight.double(), None, 1, (1, 1))
            with pytest.raises(RuntimeError, match="no window fits"):
                F.max_pool2d(x, 7)
            with pytest.raises(NotImplementedError, match="max_pool2d: not implemented for bool"):
                F.max_pool2d(x > 0, 2, (2, 2))


# ---------------------------------------------------------------- pooling

POOLS: dict[str, Callable[[Any], Any]] = {
    "max": lambda x: F.max_pool2d(x, 2),
    "max, overlapping": lambda x: F.max_pool2d(x, 3, 1, 1),
    "max, dilated": lambda x: F.max_pool2d(x, (2, 3), (2, 1), (0, 1), (2, 2)),
    "max, ceil": lambda x: F.max_pool2d(x, 3, 2, 1, 1, True),
    "max 1d": lambda x: F.max_pool1d(x.flatten(2), 3, 2),
    "max 3d": lambda x: F.max_pool3d(x[:, None], 2, 1),
    "mean": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "mean, ceil": lambda x: F.avg_pool2d(x, 3, 2, 1, True, False),
}


def pooled(function: Callable[[Any], Any], x: Any, order: int = 2) -> list[Any]:
    """The result, and its gradients of some orders."""
    x = x.detach().requires_grad_()
    results = [function(x)]
    for _ in range(order):
        g = st.autograd.grad((results[-1] ** 3).sum(), x, create_graph=True)[0]
        results.append(g)
    return results


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("name", POOLS)
def test_pooling_of_views(
    cuda: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str, bits: int
) -> None:
    from shmtensor.ops.cuda import pooling

    for prepared in (pooling.prepare_pool, pooling.prepare_backward):
        prepared.cache_clear()
    if bits == 64:
        monkeypatch.setattr(pooling, "SMALL", 0)
    x = st.tensor(random(3, 4, 9, 8).astype(np.float64))
    last = x.contiguous(memory_format=st.channels_last)
    for near_one in (x, x.transpose(2, 3), x[:, 1:, ::2], last, x[:0], x):
        far = (
            near_one.cuda()
            if near_one is not last
            else x.cuda().contiguous(memory_format=st.channels_last)
        )
        for ours, expected in zip(
            pooled(POOLS[name], far), pooled(POOLS[name], near_one), strict=True
        ):
            assert ours.shape == expected.shape
            near(ours, expected, 1e-9)
    for prepared in (pooling.prepare_pool, pooling.prepare_backward):
        prepared.cache_clear()


@pytest.mark.parametrize("dtype", [st.float16, st.float32, st.bfloat16, st.int32, st.uint8])
def test_pooling_of_other_dtypes(cuda: ModuleType, dtype: Any) -> None:
    x = (st.tensor(random(2, 3, 6, 6)) * 20).abs().to(dtype)
    for _ in range(2):
        ours, indices = F.max_pool2d(x.cuda(), 3, 2, 1, return_indices=True)
        expected, places = F.max_pool2d(x, 3, 2, 1, return_indices=True)
        assert ours.dtype == dtype
        assert (ours.cpu() == expected).all()
        assert (indices.cpu() == places).all()
        if dtype.kind in "iu":
            assert (F.avg_pool2d(x.cuda(), 2).cpu() == F.avg_pool2d(x, 2)).all()
            continue
        far, leaf = x.cuda().requires_grad_(), x.clone().requires_grad_()
        F.max_pool2d(far, 3, 2, 1).sum().backward()
        F.max_pool2d(leaf, 3, 2, 1).sum().backward()
        assert (far.grad.cpu() == leaf.grad).all()


def test_nan_and_minus_infinity(cuda: ModuleType) -> None:
    x = st.tensor(random(2, 2, 6, 6))
    x[0, 0, ::2] = float("nan")
    x[0, 1] = -float("inf")
    for pool in (
        lambda x: F.max_pool2d(x, 3, 1, 1, return_indices=True),
        lambda x: F.adaptive_max_pool2d(x, 3, True),
    ):
        for ours, expected in zip(pool(x.cuda()), pool(x), strict=True):
            np.testing.assert_array_equal(ours.cpu(), expected)


def test_gradients_of_max_pool_under_vmap(cuda: ModuleType) -> None:
    x = st.tensor(random(3, 2, 4, 6, 6))
    gradient = st.func.grad(lambda v: (F.max_pool2d(v, 3, 2, 1) ** 2).sum())
    near(st.func.vmap(gradient)(x.cuda()), st.func.vmap(gradient)(x))


def step(device: str, i: int) -> Any:
    """A convolution and poolings whose values depend on i, with its gradient."""
    x = st.full((2, 2, 8, 8), float(i), device=device).requires_grad_()
    out = F.conv2d(x, st.ones(2, 2, 3, 3, device=device), st.ones(2, device=device), 1, 1)
    out = F.avg_pool2d(F.max_pool2d(out, 3, 2, 1), 2)
    (g,) = st.autograd.grad(out.sum(), x)
    return out.sum() + g.sum()


def test_streams_in_turn(cuda: ModuleType) -> None:
    expected = [step("cpu", i).item() for i in range(8)]
    streams = [st.cuda.Stream(), st.cuda.default_stream(), st.cuda.Stream()]
    found = []
    for i in range(8):
        with st.cuda.stream(streams[i % 3]):
            found.append(step("cuda", i))
    st.cuda.synchronize()
    np.testing.assert_allclose([v.item() for v in found], expected, 1e-5)


def test_devices_in_turn(cuda: ModuleType, two: ModuleType) -> None:
    for i in range(3):
        for device in ("cuda:0", "cuda:1"):
            result = step(device, i)
            assert str(result.device) == device
            np.testing.assert_allclose(result.item(), step("cpu", i).item(), 1e-5)


def test_threads_at_once(cuda: ModuleType) -> None:
    expected = [step("cpu", i).item() for i in range(6)]
    together, errors = threading.Barrier(3), []

    def work(first: int) -> None:
        try:
            together.wait()
            with st.cuda.stream(st.cuda.Stream()):
                for i in (first, first + 3, first):
                    np.testing.assert_allclose(step("cuda", i).item(), expected[i], 1e-5)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


@pytest.mark.parametrize("used", ["out", "mean", "var", "out and var", "all"])
@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 5, 2)])
def test_gradients_of_batch_norm_s_outputs(cuda: ModuleType, used: str, shape: Any) -> None:
    """Those that are not used have no gradient, for which the GPU's kernel takes no zeros."""
    from shmtensor.autograd import table

    arrays = random(*shape), random(3), random(3)

    def gradients(device: str, create_graph: bool) -> list[Any]:
        x, weight, bias = (st.tensor(a, device=device).requires_grad_() for a in arrays)
        out, mean, var = table._native_batch_norm(x, weight, bias, 1e-5)
        named = {"out": out**3, "mean": mean**2, "var": var**2}
        names = list(named) if used == "all" else used.split(" and ")
        loss = sum(named[n].sum() for n in names)
        leaves = x, weight, bias
        return list(st.autograd.grad(loss, leaves, create_graph=create_graph, allow_unused=True))

    for create_graph in (False, True):
        ours, expected = (gradients(d, create_graph) for d in ("cuda", "cpu"))
        for a, b in zip(ours, expected, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                near(a, b)
