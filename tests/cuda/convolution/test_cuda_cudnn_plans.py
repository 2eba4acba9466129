"""Plans of cuDNN: kept, bounded, per thread and device, on the current stream; what runs in their
place.
"""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional as F
from tests.cuda.standin.fixtures import Misuses


@pytest.fixture
def ours(plans: list[Any]) -> ModuleType:
    from shmtensor.ops.cuda import cudnn

    return cudnn


def convolve(n: int = 1, device: str = "cuda", size: int = 6) -> Any:
    """A convolution of ones: each element is 18."""
    x = st.ones(n, 2, size, size, device=device)
    return F.conv2d(x, st.ones(3, 2, 3, 3, device=device))


def context(ours: ModuleType) -> Any:
    return ours.local.holder.contexts[0]


def test_a_plan_is_made_once_for_a_shape(ours: ModuleType, plans: list[Any]) -> None:
    for _ in range(3):
        convolve(31)
    assert len(plans) == 3
    assert plans[0] is plans[1] is plans[2]
    convolve(32)
    assert plans[3] is not plans[0]


def test_the_least_recently_used_plan_goes(
    ours: ModuleType, plans: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours, "PLANS", 2)
    convolve()
    context(ours).plans.clear()
    for n in (1, 2, 1, 3, 1, 2):
        convolve(n)
    assert ours.plan_count() == 2
    first, second, _, _, again, third = plans[1:]
    assert again is first
    assert third is not second


def test_plans_that_go_leave_nothing(
    ours: ModuleType, plans: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.cuda.standin.doubles import cudnn as double

    monkeypatch.setattr(ours, "PLANS", 3)
    convolve()
    context(ours).plans.clear()
    counts = []
    for n in range(1, 16):
        convolve(n)
        plans.clear()
        if n % 5 == 0:
            gc.collect()
            counts.append(len(double.descriptors))
    assert counts[0] == counts[1] == counts[2]


def test_switches_are_a_part_of_the_key(ours: ModuleType, plans: list[Any]) -> None:
    flags = st.backends.cudnn.flags
    for options in ({}, {"deterministic": True}, {"allow_tf32": False}) * 2:
        with flags(enabled=True, **options):
            assert (convolve(33) == 18).all()
    used = [id(p.graph) for p in plans]
    assert len(set(used[:3])) == 3
    assert used[:3] == used[3:]
    with flags(enabled=False):
        convolve(33)
    assert len(plans) == 6
    with flags(enabled=True, benchmark=True):
        assert (convolve(33) == 18).all()
    assert len({id(p.graph) for p in plans}) == 4
    st.use_deterministic_algorithms(True)
    try:
        with flags(enabled=True):
            convolve(33)
    finally:
        st.use_deterministic_algorithms(False)
    assert plans[-1] is plans[1]


def test_benchmark_tries_plans_once(ours: ModuleType, plans: list[Any]) -> None:
    with st.backends.cudnn.flags(enabled=True, benchmark=True):
        assert (convolve(34) == 18).all()
        tried = len(plans)
        assert tried > 1
        convolve(34)
        assert len(plans) == tried + 1
        assert any(plans[-1] is p for p in plans[:-1])
    with st.backends.cudnn.flags(enabled=True, benchmark=True, benchmark_limit=1):
        plans.clear()
        convolve(34)
        assert len(plans) == 3  # once to load it, once for the time, once for the result


# ---------------------------------------------------------------- in their place


def refuse(module: ModuleType, error: type[Exception]) -> Callable[..., None]:
    def make_graph(*arguments: Any) -> None:
        raise error("no engine")

    return make_graph


def test_a_shape_that_no_engine_takes_runs_without_cudnn(
    ours: ModuleType, plans: list[Any], cudnn: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ours, "make_graph", refuse(cudnn, cudnn.cudnnGraphNotSupportedError))
        assert (convolve(35) == 18).all()
    assert (convolve(35) == 18).all()  # remembered
    assert not plans
    convolve(36)
    assert len(plans) == 1


def test_a_broken_library_is_one_warning(
    ours: ModuleType, plans: list[Any], cudnn: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours, "warned", set())
    with monkeypatch.context() as patch:
        patch.setattr(ours, "make_graph", refuse(cudnn, RuntimeError))
        with pytest.warns(UserWarning, match="cuDNN cannot compute a convolution.*no engine"):
            assert (convolve(37) == 18).all()
        assert (convolve(38) == 18).all()
    assert not plans
    assert (convolve(37) == 18).all()  # tried again
    assert len(plans) == 1


def test_an_engine_that_fails_is_left_out(
    ours: ModuleType, plans: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours, "warned", set())
    execute = ours.execute
    failing = {0}  # numbers of plans, by the order in which they are tried
    order: list[int] = []

    def fail(context: Any, plan: Any, pointers: Any) -> None:
        if plan.number not in order:
            order.append(plan.number)
        if not failing or order.index(plan.number) in failing:
            raise RuntimeError("launch failed")
        execute(context, plan, pointers)

    with st.backends.cudnn.flags(enabled=True, benchmark=True):
        monkeypatch.setattr(ours, "execute", fail)
        assert (convolve(45) == 18).all()
        assert plans[-1].number in order[1:]
        plans.clear()
        failing.clear()
        with pytest.warns(UserWarning, match="cuDNN cannot compute a convolution.*launch failed"):
            assert (convolve(46) == 18).all()
        assert not plans
        failing.add(-1)
        assert (convolve(46) == 18).all()  # tried again
        assert plans


@pytest.mark.parametrize("benchmark", [False, True])
def test_no_memory_for_a_workspace(
    ours: ModuleType, plans: list[Any], monkeypatch: pytest.MonkeyPatch, benchmark: bool
) -> None:
    with st.backends.cudnn.flags(enabled=True, benchmark=benchmark):
        convolve(39)
        kept = context(ours).plans
        key = next(reversed(kept))
        kept[key] = kept[key]._replace(workspace=1 << 50)
        assert (convolve(39) == 18).all()
        del kept[key]
    execute = ours.execute
    big = lambda c, plan, pointers: execute(c, plan._replace(workspace=1 << 50), pointers)  # noqa: E731
    monkeypatch.setattr(ours, "execute", big)
    with st.backends.cudnn.flags(enabled=True, benchmark=benchmark):
        assert (convolve(39) == 18).all()
        monkeypatch.undo()
        if benchmark:
            assert key not in kept  # it is tried again
        assert (convolve(39) == 18).all()
    assert kept[key] is not None


# ---------------------------------------------------------------- streams, devices, threads

ROUNDS = 20


def convolve_late(stream: Any) -> bool:
    """Whether what is convolved on a stream are the values that the stream writes before."""
    right = True
    for i in range(ROUNDS):
        with st.cuda.stream(stream):
            x = st.zeros(1, 2, 6, 6, device="cuda")
            weight = st.zeros(3, 2, 3, 3, device="cuda")
            stream.synchronize()
            x += 1
            weight += i
            out = F.conv2d(x, weight) * 2
            right = bool((out.cpu() == 36 * i).all()) and right
    return right


def test_a_plan_runs_on_the_current_stream(ours: ModuleType, plans: list[Any]) -> None:
    for stream in (st.cuda.Stream(), st.cuda.Stream()):
        assert convolve_late(stream)
    assert len(plans) == 2 * ROUNDS


def test_a_stale_stream_would_be_noticed(
    ours: ModuleType,
    cudnn: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    misuses: Misuses,
    cp: Any,
    no_background: None,
) -> None:
    from tests.cuda.standin.doubles import cudnn as double

    convolve()
    before = len(double.misuses)
    monkeypatch.setattr(cudnn, "set_stream", lambda handle, stream: None)
    assert not convolve_late(st.cuda.Stream())
    cp.cuda.runtime.deviceSynchronize()
    misuses.expected += len(double.misuses) - before


def test_streams_share_a_plan(ours: ModuleType, plans: list[Any]) -> None:
    streams = [st.cuda.Stream() for _ in range(3)]
    outs = []
    for i in range(ROUNDS):
        with st.cuda.stream(streams[i % 3]):
            x = st.full((1, 2, 6, 6), float(i), device="cuda")
            outs.append(F.conv2d(x, st.ones(3, 2, 3, 3, device="cuda")))
    st.cuda.synchronize()
    assert len({id(p.graph) for p in plans}) == 1
    assert [out[0, 0, 0, 0].item() for out in outs] == [18 * i for i in range(ROUNDS)]


def test_two_devices(ours: ModuleType, plans: list[Any], two: ModuleType) -> None:
    for _ in range(2):
        for device in ("cuda:0", "cuda:1"):
            out = convolve(41, device)
            assert str(out.device) == device
            assert (out == 18).all()
    assert len({id(p.graph) for p in plans}) == 2
    contexts = ours.local.holder.contexts
    assert contexts[0].handle is not contexts[1].handle


def run_threads(work: Callable[[], None], n: int) -> None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def test_threads_have_contexts_of_their_own(ours: ModuleType, plans: list[Any]) -> None:
    together = threading.Barrier(4)
    handles = set()

    def work() -> None:
        together.wait()
        with st.cuda.stream(st.cuda.Stream()):
            for n in range(5):
                assert (convolve(42 + n % 2) == 18).all()
        handles.add(id(context(ours)))
        together.wait()

    run_threads(work, 4)
    assert len(handles) == 4
    assert len({id(p.graph) for p in plans}) == 8


def test_a_thread_takes_over_an_ended_one_s_plans(ours: ModuleType, plans: list[Any]) -> None:
    for _ in range(3):
        run_threads(lambda: convolve(44), 1)
    assert len({id(p.graph) for p in plans}) == 1


def test_gradients_in_a_thread(ours: ModuleType, plans: list[Any]) -> None:
    weight = st.ones(3, 2, 3, 3, device="cuda", requires_grad=True)

    def work() -> None:
        F.conv2d(st.ones(1, 2, 6, 6, device="cuda"), weight).sum().backward()

    run_threads(work, 1)
    assert weight.grad is not None
    np.testing.assert_array_equal(weight.grad.cpu(), 16)


def test_data_parallel_and_warnings_are_quiet(ours: ModuleType, two: ModuleType) -> None:
    model = st.nn.DataParallel(st.nn.Conv2d(2, 3, 3, bias=False).cuda(), [0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = model(st.ones(4, 2, 6, 6, device="cuda"))
    expected = F.conv2d(st.ones(4, 2, 6, 6), model.module.weight.cpu())
    np.testing.assert_allclose(out.detach().cpu(), expected.detach(), 1e-5, 1e-5)
