"""Gradients are written, averaged and read in the same memory."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import native, nn, optim
from shmtensor.autograd.engine.grad_buffer import in_grad_buffer
from shmtensor.distributed import DistributedDataParallel
from shmtensor.distributed.algorithms.ddp_comm_hooks import default_hooks as hooks
from shmtensor.distributed.ddp.bucket import Bucket
from shmtensor.native import GradientBuffer

from ..run_ranks import run, values


def make(gaps: bool = True, **options: Any) -> Any:
    """A model with the same weights on all ranks; `gaps`: not all sizes are multiples of 64 B."""
    st.manual_seed(0)
    widths = (9, 5, 3) if gaps else (16, 32, 16)
    layers = [nn.Linear(widths[0], widths[1]), nn.ReLU(), nn.Linear(widths[1], widths[2])]
    model = nn.Sequential(*layers)
    return DistributedDataParallel(model, gradient_as_bucket_view=True, **options)


def batch(n: int, rank: int) -> Any:
    x = np.random.default_rng(rank).standard_normal((4, n)).astype(np.float32)
    return st.tensor(x)


def backward(model: Any, rank: int | None = None) -> None:
    n = next(model.parameters()).shape[1]
    model(batch(n, dist.get_rank() if rank is None else rank)).square().sum().backward()


def gradients(model: Any) -> list[Any]:
    return [p.grad.numpy().copy() for p in model.parameters()]


def averages(gaps: bool = True) -> list[Any]:
    """The expected result on every rank: the average of both ranks' gradients."""
    model = make(gaps)
    parts = []
    for rank in range(dist.get_world_size()):
        model.zero_grad()
        with model.no_sync():
            backward(model, rank)
        parts.append(gradients(model))
    return [sum(gs) / len(gs) for gs in zip(*parts, strict=True)]


def expect(model: Any, want: list[Any]) -> None:
    for g, w in zip(gradients(model), want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)


def n_copied(model: Any) -> int:
    """Bytes of gradients that were copied so far, in this process."""
    staged: int = model.process_group.statistics().bytes_staged
    copied: int = model._get_ddp_logging_data()["gradient_bytes_copied"]
    return staged + copied


def pointer(x: Any) -> int:
    place: int = getattr(x, "array", x).__array_interface__["data"][0]
    return place


def are_views(model: Any) -> bool:
    """Whether every gradient is a view of the reduced array."""
    return all(
        in_grad_buffer(p.accumulate_grad, p.grad.array)
        and pointer(p.grad) == pointer(bucket.gradient_block) + at * p.array.itemsize
        for bucket in model._buckets
        for p, at in zip(bucket.parameters, bucket.offsets, strict=True)
    )


def views(optimizer: str, cap: float | None) -> None:
    want = averages()
    early = optimizer == "before"
    inner = make().module
    step = optim.SGD(inner.parameters(), lr=0.0) if early else None
    model = DistributedDataParallel(inner, gradient_as_bucket_view=True, bucket_cap_mb=cap)
    if optimizer == "after":
        step = optim.SGD(model.parameters(), lr=0.0)
    in_buffers: list[bool] = []
    for p in model.parameters():
        if p.ndim == 2:
            p.register_hook(
                lambda g, p=p: in_buffers.append(
                    pointer(g) == p.accumulate_grad.grad_buffer.address
                )
            )
    before = n_copied(model)
    for _ in range(3):
        model.zero_grad()
        backward(model)
        expect(model, want)
        assert are_views(model)
        if step is not None:
            step.step()
    assert in_buffers == [True] * 6
    assert n_copied(model) == before


@pytest.mark.parametrize("cap", [None, 1e-4], ids=["one bucket", "many buckets"])
@pytest.mark.parametrize("optimizer", ["before", "after", "none"])
def test_gradients_are_views_of_the_bucket_and_nothing_is_copied(
    optimizer: str, cap: float | None
) -> None:
    values(run(views, 2, optimizer, cap))


def replaced(ranks: list[int]) -> None:
    """Some ranks replace a gradient by another tensor, as manual clipping does."""
    want = averages()
    model = make()
    optimizer = optim.SGD(model.parameters(), lr=0.0)
    for _ in range(2):
        model.zero_grad()
        before = n_copied(model)
        with model.no_sync():
            backward(model)
        if dist.get_rank() in ranks:
            for p in model.parameters():
                p.grad = p.grad.clone()
        mine = [p.grad for p in model.parameters()]
        backward(model)  # accumulates
        expect(model, [2 * w for w in want])
        assert all(p.grad is g for p, g in zip(model.parameters(), mine, strict=True))
        assert are_views(model) == (dist.get_rank() not in ranks)
        assert (n_copied(model) == before) == (dist.get_rank() not in ranks)
        mine = []
        optimizer.step()
    model.zero_grad()
    before = n_copied(model)
    backward(model)
    expect(model, want)
    assert are_views(model)
    assert n_copied(model) == before


@pytest.mark.parametrize("ranks", [[0, 1], [1]], ids=["both ranks", "one rank"])
def test_a_gradient_that_was_replaced_is_averaged_where_it_is(ranks: list[int]) -> None:
    values(run(replaced, 2, ranks))


def accumulated() -> None:
    want = averages()
    model = make()
    optimizer = optim.SGD(model.parameters(), lr=0.0)
    before = n_copied(model)
    for set_to_none in (True, False, True):
        optimizer.zero_grad(set_to_none)
        with model.no_sync():
            backward(model)
            backward(model)
            assert are_views(model)
        backward(model)
        expect(model, [3 * w for w in want])
        assert are_views(model)
    assert n_copied(model) == before


def test_accumulation_stays_in_the_bucket() -> None:
    values(run(accumulated, 2))


def check_kept_blocks() -> None:
    want = averages()
    model = make()
    optimizer = optim.SGD(model.parameters(), lr=0.0)
    backward(model)
    old = [p.grad for p in model.parameters()]
    optimizer.step()
    for _ in range(2):
        model.zero_grad()
        model(st.zeros(4, 9)).sum().backward()
        optimizer.step()
    for g, w in zip(old, want, strict=True):
        np.testing.assert_allclose(g.numpy(), w, rtol=1e-5, atol=1e-6)


def test_a_gradient_that_is_kept_does_not_change() -> None:
    values(run(check_kept_blocks, 2))


def uneven(gaps: bool) -> None:
    """One rank's optimizer has another layout than the bucket: the order of the module, or (gaps)
    two blocks, for weights and biases, as for weight decay."""
    want = averages(gaps)
    model = make(gaps)
    parameters = list(model.parameters())
    kinds = [[p for p in parameters if p.ndim == n] for n in (2, 1)] if gaps else [parameters]
    if dist.get_rank() == 1:
        optimizer = optim.SGD([{"params": each} for each in kinds], lr=0.0)
        assert len(optimizer.param_groups) == len(kinds)
    for _ in range(2):
        model.zero_grad()
        backward(model)
        expect(model, want)
        assert gaps or are_views(model)


@pytest.mark.parametrize("gaps", [False, True])
def test_ranks_reduce_the_same_wherever_their_gradients_lie(gaps: bool) -> None:
    values(run(uneven, 2, gaps))


def test_neighbours_in_two_blocks_are_not_one_array() -> None:
    bucket = Bucket([nn.Parameter(st.zeros(16)) for _ in range(2)])
    block: Any = native.allocate(128)
    first, second = (GradientBuffer(np.ndarray(16, np.float32, block, at)) for at in (0, 64))
    joined_block = bucket.block_over([first, second])
    assert joined_block is not None
    assert joined_block.size == 32
    assert pointer(joined_block) == first.address
    elsewhere = np.lib.stride_tricks.as_strided(np.frombuffer(block, np.float32)[16:])
    other = GradientBuffer(elsewhere)  # the same address, but another owner
    assert other.address == second.address
    assert bucket.block_over([first, other]) is None
    assert bucket.block_over([second, first]) is None


def hooked(gaps: bool) -> None:
    want = averages(gaps)
    model = make(gaps)
    buffers: list[int] = []

    def hook(state: Any, bucket: dist.GradBucket) -> dist.Future:
        buffers.append(pointer(bucket.buffer()))
        for g, p in zip(bucket.gradients(), bucket.parameters(), strict=True):
            np.testing.assert_array_equal(g.numpy(), p.grad.numpy())
        assert bucket.buffer().numel() == sum(p.numel() for p in bucket.parameters())
        return hooks.allreduce_hook(None, bucket)

    model.register_comm_hook(None, hook)
    before = n_copied(model)
    for _ in range(2):
        model.zero_grad()
        backward(model)
        expect(model, want)
    assert (n_copied(model) == before) == (not gaps)
    if not gaps:
        assert buffers == [pointer(p.grad) for p in model.module[0].parameters()][:1] * 2


@pytest.mark.parametrize("gaps", [True, False])
def test_a_hook_gets_the_gradients_themselves_if_they_are_adjacent(gaps: bool) -> None:
    values(run(hooked, 2, gaps))


def test_a_forked_child_has_separate_gradients() -> None:
    dist.init_process_group(rank=0, world_size=1)
    try:
        model = make()
        backward(model)
        blocks = [
            np.frombuffer(bucket.grad_buffers[0].memory, np.uint8) for bucket in model._buckets
        ]
        copies = [block.copy() for block in blocks]
        model.zero_grad()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                with model.no_sync():
                    (model(batch(9, 0)).square().sum() * 7).backward()
                code = 0 if all(p.grad.array.any() for p in model.parameters()) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        for block, before in zip(blocks, copies, strict=True):
            np.testing.assert_array_equal(block, before)
    finally:
        dist.destroy_process_group()
