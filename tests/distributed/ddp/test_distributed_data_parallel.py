"""DistributedDataParallel: n ranks on n parts give the gradients of one process on the whole."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import nn, optim
from shmtensor.distributed import DistributedDataParallel
from shmtensor.distributed.algorithms.ddp_comm_hooks import default_hooks as hooks
from shmtensor.errors import CollectiveMismatch

from ..run_ranks import run, values


def data() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    return rng.standard_normal((12, 5)), rng.integers(0, 3, 12)


def make_model(seed: int) -> nn.Module:
    st.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3)).double()


def train(steps: int, cap: float | None, before: bool) -> list[Any]:
    """Every rank begins with other weights; rank 0's are used. `before`: the optimizer is made
    before the wrapper.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    x, y = (each[rank * 12 // ranks : (rank + 1) * 12 // ranks] for each in data())
    model = make_model(rank)
    early = optim.SGD(model.parameters(), lr=0.5, momentum=0.9) if before else None
    wrapped = DistributedDataParallel(model, bucket_cap_mb=cap)
    optimizer = early or optim.SGD(wrapped.parameters(), lr=0.5, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.CrossEntropyLoss()(wrapped(st.tensor(x)), st.tensor(y)).backward()
        optimizer.step()
    return [np.array(p.detach().numpy()) for p in model.parameters()]


def train_alone(steps: int) -> list[Any]:
    x, y = data()
    model = make_model(0)
    optimizer = optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.CrossEntropyLoss()(model(st.tensor(x)), st.tensor(y)).backward()
        optimizer.step()
    return [p.detach().numpy() for p in model.parameters()]


@pytest.mark.parametrize("before", [False, True], ids=["optimizer after", "optimizer before"])
@pytest.mark.parametrize(
    ("start_method", "cap"), [("fork", None), ("forkserver", 1e-4), ("spawn", None)]
)
def test_ranks_train_like_one_process(start_method: str, cap: float | None, before: bool) -> None:
    results = values(run(train, 2, 5, cap, before, start_method=start_method))
    for parameters in results:
        for result, want, first in zip(parameters, train_alone(5), results[0], strict=True):
            np.testing.assert_allclose(result, want, rtol=1e-10)
            np.testing.assert_array_equal(result, first)


def accumulate() -> list[Any]:
    rank = dist.get_rank()
    x, y = (st.tensor(each[rank * 6 : rank * 6 + 6]) for each in data())
    wrapped = DistributedDataParallel(make_model(0))
    with wrapped.no_sync():
        nn.CrossEntropyLoss()(wrapped(x), y).backward()
    gradient = np.array(next(wrapped.parameters()).grad.numpy())
    nn.CrossEntropyLoss()(wrapped(x), y).backward()
    return [gradient, np.array(next(wrapped.parameters()).grad.numpy())]


def test_no_sync_adds_up_and_the_next_backward_averages() -> None:
    (own0, sum0), (own1, sum1) = values(run(accumulate, 2))
    assert (own0 != own1).any()
    np.testing.assert_array_equal(sum0, sum1)
    np.testing.assert_allclose(sum0, own0 + own1, rtol=1e-10)


def different_models() -> None:
    DistributedDataParallel(nn.Linear(3, 4 + dist.get_rank()))


def test_different_models_are_named() -> None:
    for outcome in run(different_models, 2):
        assert isinstance(outcome.error, CollectiveMismatch), outcome
        assert "weight: float32 (4, 3)" in str(outcome.error)
        assert "weight: float32 (5, 3)" in str(outcome.error)


def inherited(model: Any) -> bool:
    """Forked children share an inherited model's memory; once wrapped, every rank has a copy."""
    wrapped = DistributedDataParallel(model)
    dist.barrier()
    if dist.get_rank() == 1:
        next(wrapped.parameters()).array[...] = 9
    dist.barrier()
    return bool((next(wrapped.parameters()).array == 9).any())


def test_an_inherited_model_gets_separate_memory() -> None:
    model = make_model(0)
    assert values(run(inherited, 2, model, start_method="fork")) == [False, True]


def test_wrong_use() -> None:
    dist.init_process_group(rank=0, world_size=1)
    try:
        with pytest.raises(RuntimeError, match="no parameter that requires"):
            DistributedDataParallel(nn.ReLU())
        with pytest.raises(ValueError, match="its parameters are on cpu"):
            DistributedDataParallel(nn.Linear(1, 1), device_ids=[0])
        with pytest.raises(ValueError, match="given together"):
            DistributedDataParallel(nn.Linear(1, 1), delay_all_reduce_named_params=[])
        model = DistributedDataParallel(nn.Linear(1, 1))
        model.register_comm_hook(None, hooks.noop_hook)
        with pytest.raises(RuntimeError, match="a hook already"):
            model.register_comm_hook(None, hooks.noop_hook)
        with pytest.raises(TypeError, match="cannot be called"):
            DistributedDataParallel(nn.Linear(1, 1)).register_comm_hook(None, 3)  # type: ignore[arg-type]
        assert model._get_ddp_logging_data()["world_size"] == 1
    finally:
        dist.destroy_process_group()


def test_reached_as_nn_parallel() -> None:
    assert nn.parallel.DistributedDataParallel is DistributedDataParallel
    assert nn.parallel.DataParallel is nn.DataParallel is dist.DataParallel
    from shmtensor.nn.parallel.distributed import DistributedDataParallel as by_its_module

    assert by_its_module is DistributedDataParallel
    assert nn.SyncBatchNorm is dist.SyncBatchNorm


# ---------------------------------------------------------------- the union of the shards


def gradients(options: dict[str, Any], hook: Any = None, state: Any = None) -> list[Any]:
    """Of one step on this rank's part of the data."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    x, y = (each[rank * 12 // ranks : (rank + 1) * 12 // ranks] for each in data())
    model = make_model(rank)
    wrapped = DistributedDataParallel(model, **options)
    if hook is not None:
        wrapped.register_comm_hook(state, hook)
    for _ in range(2):  # the second into existing gradients
        wrapped.zero_grad()
        nn.CrossEntropyLoss()(wrapped(st.tensor(x)), st.tensor(y)).backward()
    return [np.array(p.grad.numpy()) for p in model.parameters()]


def union() -> list[Any]:
    x, y = data()
    model = make_model(0)
    nn.CrossEntropyLoss()(model(st.tensor(x)), st.tensor(y)).backward()
    return [np.array(p.grad.numpy()) for p in model.parameters()]


OPTIONS: list[dict[str, Any]] = [
    {"gradient_as_bucket_view": True},
    {"find_unused_parameters": True},
    {"static_graph": True, "bucket_cap_mb": 1e-4},
    {"init_sync": True, "broadcast_buffers": False, "skip_all_reduce_unused_params": True},
]


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_gradients_are_those_of_the_union_and_the_same_bits_in_every_run(ranks: int) -> None:
    options = OPTIONS[ranks % len(OPTIONS)]
    first = values(run(gradients, ranks, options))
    second = values(run(gradients, ranks, OPTIONS[(ranks + 1) % len(OPTIONS)]))
    for each in [*first, *second]:
        for result, want, bits in zip(each, union(), first[0], strict=True):
            np.testing.assert_allclose(result, want, rtol=1e-10, atol=1e-14)
            np.testing.assert_array_equal(result, bits)


HALF = {"mixed_precision": dist.MixedPrecision(reduce_dtype=st.float16)}


@pytest.mark.parametrize(
    ("options", "hook", "precision"),
    [
        ({}, hooks.allreduce_hook, 1e-10),
        ({}, hooks.fp16_compress_hook, 2e-2),
        ({}, hooks.fp16_compress_wrapper(hooks.allreduce_hook), 2e-2),
        ({}, hooks.bf16_compress_hook, 1e-1),
        ({}, hooks.bf16_compress_wrapper(hooks.allreduce_hook), 1e-1),
        (HALF, None, 2e-2),
    ],
    ids=["allreduce", "fp16", "fp16 wrapper", "bf16", "bf16 wrapper", "reduce_dtype"],
)
def test_hooks_and_reductions_in_another_precision(
    options: Any, hook: Any, precision: float
) -> None:
    results = values(run(gradients, 2, options, hook, start_method="fork"))
    for each in results:
        for result, want, bits in zip(each, union(), results[0], strict=True):
            np.testing.assert_allclose(result, want, rtol=precision, atol=precision / 10)
            np.testing.assert_array_equal(result, bits)
            assert precision < 1e-9 or (result != want).any()


def looking() -> list[Any]:
    buckets: list[Any] = []

    def hook(state: Any, bucket: dist.GradBucket) -> dist.Future:
        shapes = [tuple(g.shape) for g in bucket.gradients()]
        assert shapes == [tuple(p.shape) for p in bucket.parameters()]
        buckets.append((state, bucket.index(), bucket.buffer().numel(), bucket.is_last()))
        return hooks.allreduce_hook(None, bucket)

    gradients({"bucket_cap_mb": 1e-4}, hook, "mine")
    return buckets


def test_a_hook_sees_buckets() -> None:
    for buckets in values(run(looking, 2)):
        n = len(buckets) // 2  # of each of the two steps
        assert n > 1
        assert [index for _, index, _, _ in buckets] == [*range(n)] * 2
        assert sum(n for _, _, n, _ in buckets) == 2 * (5 * 7 + 7 + 7 * 3 + 3)
        assert [last for *_, last in buckets] == [*[False] * (n - 1), True] * 2
        assert {state for state, *_ in buckets} == {"mine"}


def answered_wrongly() -> None:
    gradients({}, lambda state, bucket: bucket.buffer(), None)


def test_a_hook_that_returns_no_future_is_an_error() -> None:
    with pytest.raises(TypeError, match="returns a Future of the buffer, this one returned Tensor"):
        values(run(answered_wrongly, 1))


# ---------------------------------------------------------------- parameters that take no part


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(3, 3) for _ in range(4)])

    def forward(self, x: Any, branches: list[int]) -> Any:
        for i in branches:
            x = self.parts[i](x)
        return {"out": x}


def unused() -> list[Any]:
    rank = dist.get_rank()
    st.manual_seed(0)
    model = DistributedDataParallel(Branches().double(), find_unused_parameters=True)
    branches = [[0, 1], [0, 2]][rank]  # 3 on no rank
    for _ in range(2):
        model.zero_grad()
        model(st.ones(2, 3, dtype=st.float64), branches)["out"].sum().backward()
    return [None if p.grad is None else np.array(p.grad.numpy()) for p in model.parameters()]


def test_parameters_without_use_on_some_or_all_ranks() -> None:
    zero, one = values(run(unused, 2))
    assert [g is None for g in zero] == [False] * 6 + [True] * 2
    total = [np.zeros(1)] * 6
    for branches in ([0, 1], [0, 2]):
        st.manual_seed(0)
        model = Branches().double()
        model(st.ones(2, 3, dtype=st.float64), branches)["out"].sum().backward()
        gradients = [0 if p.grad is None else p.grad.numpy() / 2 for p in model.parameters()]
        total = [x + y for x, y in zip(total, gradients[:6], strict=True)]
    for a, b, want in zip(zero[:6], one[:6], total, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, want, rtol=1e-12)


def delayed() -> list[Any]:
    st.manual_seed(0)
    model = make_model(0)
    late = [(n, p) for n, p in model.named_parameters() if n.startswith("0.")]
    wrapped = DistributedDataParallel(
        model, delay_all_reduce_named_params=late,
        param_to_hook_all_reduce=dict(model.named_parameters())["0.weight"],
    )  # fmt: skip
    x, y = (each[dist.get_rank() * 6 :][:6] for each in data())
    nn.CrossEntropyLoss()(wrapped(st.tensor(x)), st.tensor(y)).backward()
    dist.barrier()
    return [np.array(p.grad.numpy()) for n, p in model.named_parameters() if "weight" in n]


def test_delayed_parameters() -> None:
    want = [g for g in union() if g.ndim == 2]
    for each in values(run(delayed, 2)):
        for result, g in zip(each, want, strict=True):
            np.testing.assert_allclose(result, g, rtol=1e-10)


class Watching(nn.Module):
    """One weight under two names; `dtypes` are those of forward's arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4, bias=False)
        self.again = self.first
        self.scale = nn.Parameter(st.ones(4, dtype=st.float64))
        self.dtypes: list[Any] = []

    def forward(self, x: Any, options: Any) -> Any:
        args = (x, options["mask"], options["shift"], self.again.weight, self.scale)
        self.dtypes = [each.dtype for each in args]
        return self.again(self.first(x) * self.scale) * options["mask"] + options["shift"]


def in_low_precision(unused: bool) -> list[Any]:
    st.manual_seed(0)
    model = Watching()
    want = model.state_dict()
    wrapped = DistributedDataParallel(
        model,
        mixed_precision=dist.MixedPrecision(st.bfloat16, buffer_dtype=st.bfloat16),
        find_unused_parameters=unused,
    )
    st.manual_seed(1)
    x = st.randn(8, 4)[dist.get_rank() * 4 :][:4]
    out = wrapped(x, options={"mask": st.arange(4), "shift": st.ones(4)})
    out.sum().backward()
    grads = [np.array(p.grad.numpy()) for p in model.parameters()]
    is_unchanged = all((value == want[name]).all() for name, value in model.state_dict().items())
    return [[str(d) for d in (*model.dtypes, out.dtype)], is_unchanged, grads]


@pytest.mark.parametrize("unused", [False, True])
def test_layers_compute_in_another_precision(unused: bool) -> None:
    results = values(run(in_low_precision, 2, unused))
    st.manual_seed(0)
    model = Watching().double()
    st.manual_seed(1)
    options = {"mask": st.arange(4), "shift": st.ones(4)}
    (model(st.randn(8, 4).double(), options).sum() / 2).backward()
    for dtypes, is_unchanged, grads in results:
        brief, long = str(st.bfloat16), str(st.int64)
        assert dtypes == [brief, long, brief, brief, brief, brief]
        assert is_unchanged
        assert [g.dtype for g in grads] == [np.float64, np.float32]
        for result, p in zip(grads, model.parameters(), strict=True):
            np.testing.assert_allclose(result, p.grad.numpy(), rtol=0.05, atol=0.05)
    for first, second in zip(results[0][2], results[1][2], strict=True):
        np.testing.assert_array_equal(first, second)


def buffers() -> list[float]:
    model = nn.Linear(2, 2)
    model.register_buffer("offset", st.full((3,), float(dist.get_rank() + 1)))
    wrapped = DistributedDataParallel(model)
    model.offset.add_(dist.get_rank())
    before = float(model.offset[0])
    wrapped(st.ones(1, 2)).sum().backward()
    return [before, float(model.offset[0])]


def test_buffers_are_those_of_rank_0() -> None:
    assert values(run(buffers, 2)) == [[1.0, 1.0], [2.0, 1.0]]


# ---------------------------------------------------------------- uneven inputs


def uneven(by_all: bool, kind: str) -> list[Any]:
    """Rank r has 2 + r batches. Weight 0, loss = weight * 1: gradients are 1 on every rank."""
    rank = dist.get_rank()
    model = nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(0.0)
    wrapped = DistributedDataParallel(model, find_unused_parameters=kind == "unused")
    if kind == "hook":
        wrapped.register_comm_hook(None, hooks.fp16_compress_hook)
    if kind in ("zero", "hook"):
        optimizer: Any = dist.ZeroRedundancyOptimizer(model.parameters(), optim.SGD, lr=1.0)
        joinables: list[Any] = [wrapped, optimizer]
    else:
        optimizer = optim.SGD(model.parameters(), lr=1.0)
        joinables = [wrapped]
    assert all(each.join_device == st.device("cpu") for each in joinables)
    with dist.Join(joinables, divide_by_initial_world_size=by_all):
        for _ in range(2 + rank):
            optimizer.zero_grad()
            wrapped(st.ones(1, 1)).sum().backward()
            optimizer.step()
    return [float(model.weight.data)]


@pytest.mark.parametrize(
    ("by_all", "kind"),
    [(True, "hook"), *itertools.product([True, False], ["plain", "unused", "zero"])],
)
def test_ranks_with_different_numbers_of_batches(by_all: bool, kind: str) -> None:
    # steps of all three, of two, of one
    want = -(2 + 2 / 3 + 1 / 3) if by_all else -4.0
    for result in values(run(uneven, 3, by_all, kind)):
        np.testing.assert_allclose(result, [want], rtol=1e-3 if kind == "hook" else 1e-5)


def backward_that_fails(overlaps: bool) -> None:
    """After the first bucket's reduction; then one that does not, with an optimizer in backward."""
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    wrapped = DistributedDataParallel(model, bucket_cap_mb=1e-5)
    wrapped._overlaps = overlaps
    wrapped._register_fused_optim(optim.SGD, lr=1.0)

    def fail(gradient: Any) -> None:
        raise ValueError("the hook of the first layer fails")

    handle = model[0].weight.register_hook(fail)
    with pytest.raises(ValueError, match="first layer fails"):
        wrapped(st.ones(1, 3)).sum().backward()
    handle.remove()
    model.zero_grad()
    before = [p.detach().clone() for p in model.parameters()]
    wrapped(st.ones(1, 3)).sum().backward()
    for p, old in zip(model.parameters(), before, strict=True):
        assert p.grad is not None
        assert st.allclose(p, old - p.grad)


@pytest.mark.parametrize("overlaps", [True, False])
def test_a_backward_that_failed_leaves_nothing_for_the_next(overlaps: bool) -> None:
    values(run(backward_that_fails, 2, overlaps))


def uneven_without_join(ending: str) -> int:
    """Rank 0 has one batch, rank 1 three; no rank joins."""
    rank = dist.get_rank()
    wrapped = DistributedDataParallel(nn.Linear(1, 1))
    for _ in range(1 + 2 * rank):
        wrapped(st.ones(1, 1)).sum().backward()
    if ending == "evaluates":
        dist.barrier()
    return rank


@pytest.mark.parametrize(
    ("ending", "message"), [("ends", "rank 0 .*(left|exited)"), ("evaluates", "barrier")]
)
def test_uneven_batches_without_join_are_an_error_and_not_a_hang(ending: str, message: str) -> None:
    outcomes = run(uneven_without_join, 2, ending)
    assert isinstance(outcomes[1].error, RuntimeError), outcomes
    assert re.search(message, str(outcomes[1].error)), outcomes
    assert isinstance(outcomes[0].error, RuntimeError) == (ending == "evaluates"), outcomes


def drop_wrapped_model() -> int:
    rank = dist.get_rank()
    wrapped = DistributedDataParallel(nn.Linear(1, 1))
    n_steps = 0
    with (
        pytest.raises(RuntimeError, match="no more inputs"),
        wrapped.join(throw_on_early_termination=True),
    ):
        for _ in range(1 + rank * 3):
            wrapped(st.ones(1, 1)).sum().backward()
            n_steps += 1
    return n_steps


def test_early_termination_is_thrown_on_all_ranks() -> None:
    assert values(run(drop_wrapped_model, 2)) == [1, 1]


def joined_none() -> None:
    wrapped = DistributedDataParallel(nn.Linear(1, 1))
    with wrapped.join(enable=False):
        wrapped(st.ones(1, 1)).sum().backward()
    assert isinstance(wrapped, dist.Joinable)
    assert isinstance(wrapped.join_hook(), dist.JoinHook)
    with pytest.raises(ValueError, match="nothing to join"):
        dist.Join([])


def test_join_can_be_switched_off() -> None:
    values(run(joined_none, 2))


# ---------------------------------------------------------------- the optimizer in backward


def fused(options: dict[str, Any], schedule: str, is_fused: bool) -> list[Any]:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    x, y = (each[rank * 12 // ranks : (rank + 1) * 12 // ranks] for each in data())
    model = make_model(rank)
    wrapped = DistributedDataParallel(model, **options)
    wrapped._overlaps = schedule == "overlapped"
    only = list(model.parameters())[1:]
    if is_fused:
        wrapped._register_fused_optim(optim.Adam, 0.1, optim_params=only, betas=(0.8, 0.9))
        with pytest.raises(RuntimeError, match="an optimizer already"):
            wrapped._register_fused_optim(optim.SGD, lr=0.1)
    else:
        optimizer = optim.Adam(only, 0.1, betas=(0.8, 0.9))
    inputs = st.tensor(x, requires_grad=True)
    for step in range(4):
        wrapped.zero_grad()
        if step == 1:  # has no effect by itself
            before = model[0].bias.tolist()
            with wrapped.no_sync():
                nn.CrossEntropyLoss()(wrapped(inputs), st.tensor(y)).backward()
            assert model[0].bias.tolist() == before
        nn.CrossEntropyLoss()(wrapped(inputs), st.tensor(y)).backward()
        if not is_fused:
            optimizer.step()
    return [np.array(p.detach().numpy()) for p in [*model.parameters(), inputs.grad]]


@pytest.mark.parametrize(
    ("options", "schedule"),
    [
        ({}, "one bucket"),
        ({"find_unused_parameters": True, "bucket_cap_mb_list": [1e-4, 1]}, "two that look"),
        ({"bucket_cap_mb_list": [1e-4]}, "overlapped"),
    ],
)
def test_an_optimizer_in_backward_is_one_after_it(options: Any, schedule: str) -> None:
    want = values(run(fused, 2, options, schedule, False, start_method="fork"))
    result = values(run(fused, 2, options, schedule, True, start_method="fork"))
    for ours, theirs in zip(result, want, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b)


def test_arguments_and_names_of_torch() -> None:
    dist.init_process_group(rank=0, world_size=1)
    try:
        sizes = []
        for caps in ([1e-4], [1.0], [3 * 8 / 2**20, 1.0]):
            model = DistributedDataParallel(
                make_model(0), bucket_cap_mb_list=caps, batched_grad_copy=True
            )
            sizes.append([b.size() for b in model._buckets])
        assert sizes == [[21, 35, 10], [66], [3, 63]]
        assert DistributedDataParallel(make_model(0)).broadcast_buffers
        model = DistributedDataParallel(make_model(0), forward_sync_buffers=False)
        assert not model.broadcast_buffers
        model._set_static_graph()
        assert model._get_ddp_logging_data()["static_graph"]
        bare = make_model(0)
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(bare, ["0.bias"])
        model = DistributedDataParallel(bare)
        assert sum(b.size() for b in model._buckets) == 59
        for kind in dist.BuiltinCommHookType:
            model = DistributedDataParallel(make_model(0))
            model._register_builtin_comm_hook(kind)
            model(st.ones(1, 5, dtype=st.float64)).sum().backward()
            assert model.module[2].bias.grad.tolist() == [1, 1, 1]
    finally:
        dist.destroy_process_group()


def some_missing(cap: float | None) -> None:
    model = DistributedDataParallel(
        nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)}), bucket_cap_mb=cap
    )
    model.module.forward = model.module["a"].forward
    model(st.ones(1, 2)).sum().backward()
    names = r"left 2 parameters .* find_unused_parameters=True: b\.(weight|bias), b\.(weight|bias)"
    with pytest.raises(RuntimeError, match=names):
        model(st.ones(1, 2))


@pytest.mark.parametrize("cap", [None, 1e-6], ids=["one bucket", "buckets without any gradient"])
def test_parameters_without_a_gradient_are_named(cap: float | None) -> None:
    values(run(some_missing, 2, cap))


def within_a_coalescing_manager() -> list[Any]:
    x = st.full((3,), float(dist.get_rank()))
    wrapped = DistributedDataParallel(nn.Linear(1, 1, bias=False))
    with dist._coalescing_manager():
        dist.all_reduce(x)
        wrapped(st.full((1, 1), 1.0 + dist.get_rank())).sum().backward()
        before = x.tolist()
    return [before, x.tolist(), wrapped.module.weight.grad.item()]


def test_a_coalescing_manager_does_not_defer_gradients() -> None:
    results = values(run(within_a_coalescing_manager, 2))
    assert results == [[[rank] * 3, [1.0] * 3, 1.5] for rank in range(2)]
