"""DistributedDataParallel with sparse gradients: n ranks on n parts give what one process gives on
the whole, with dense gradients as the oracle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import nn, optim
from shmtensor.distributed import DistributedDataParallel
from shmtensor.distributed.algorithms.ddp_comm_hooks import default_hooks as hooks

from ..run_ranks import run, values

N = 12
WORDS = np.random.default_rng(1).integers(0, 9, (N, 4))
TARGETS = np.random.default_rng(2).normal(size=(N, 3))


class Words(nn.Module):
    """Two tables, the second used only if `both`; and a layer above them."""

    def __init__(self, seed: int, sparse: bool) -> None:
        super().__init__()
        st.manual_seed(seed)
        self.bags = nn.EmbeddingBag(9, 5, mode="sum", sparse=sparse)
        self.words = nn.Embedding(9, 5, sparse=sparse)
        self.layer = nn.Linear(5, 3)

    def forward(self, words: Any, both: bool = True) -> Any:
        out = self.bags(words)
        return self.layer(out + self.words(words[:, 0]) if both else out)


def part(rank: int, ranks: int) -> tuple[Any, Any]:
    rows = slice(rank * N // ranks, (rank + 1) * N // ranks)
    return st.tensor(WORDS[rows]), st.tensor(TARGETS[rows])


def loss(out: Any, y: Any) -> Any:
    return ((out - y) ** 2).mean()


def rows(model: Any) -> list[Any]:
    return [
        np.array((g.to_dense() if g.is_sparse else g).numpy())
        for g in (p.grad for p in model.parameters())
    ]


def train(options: dict[str, Any], hook: Any, kind: str, in_backward: bool) -> tuple[Any, Any]:
    """Gradients of the first step, and parameters after three.

    Args:
        in_backward: the optimizer steps there.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = Words(rank, True).double()
    wrapped = DistributedDataParallel(model, **options)
    if hook is not None:
        wrapped.register_comm_hook(None, hook)
    optimizer: Any = None
    if in_backward:
        wrapped._register_fused_optim(getattr(optim, kind), lr=0.1)
    else:
        optimizer = getattr(optim, kind)(model.parameters(), lr=0.1)
    first: Any = None
    for _ in range(3):
        wrapped.zero_grad()
        x, y = part(rank, ranks)
        loss(wrapped(x), y).backward()
        if first is None:
            assert [p.grad.is_sparse for p in model.parameters()] == [True, True, False, False]
            first = rows(model)
        if optimizer is not None:
            optimizer.step()
    return first, [np.array(p.detach().numpy()) for p in model.parameters()]


def train_alone(kind: str = "SGD") -> tuple[Any, Any]:
    model = Words(0, False).double()
    optimizer = getattr(optim, kind)(model.parameters(), lr=0.1)
    first: Any = None
    for _ in range(3):
        optimizer.zero_grad()
        x, y = part(0, 1)
        loss(model(x), y).backward()
        first = first or rows(model)
        optimizer.step()
    return first, [np.array(p.detach().numpy()) for p in model.parameters()]


@pytest.mark.parametrize(
    ("ranks", "options", "hook", "kind", "in_backward"),
    [
        (1, {}, None, "SGD", False),
        (2, {"gradient_as_bucket_view": True}, None, "Adagrad", False),
        (3, {"find_unused_parameters": True}, None, "SGD", False),
        (2, {"static_graph": True}, None, "SGD", False),
        (2, {}, hooks.allreduce_hook, "SGD", False),
        (4, {"bucket_cap_mb": 1e-5}, None, "SGD", False),
        (2, {}, None, "SGD", True),
    ],
)
def test_ranks_train_like_one_process(
    ranks: int, options: Any, hook: Any, kind: str, in_backward: bool
) -> None:
    results = values(run(train, ranks, options, hook, kind, in_backward))
    for ours, theirs in zip(results[0], train_alone(kind), strict=True):
        for x, y in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
    for other in results[1:]:  # the same bits
        for ours, theirs in zip(results[0], other, strict=True):
            for x, y in zip(ours, theirs, strict=True):
                assert np.array_equal(x, y)


def accumulate() -> list[Any]:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    wrapped = DistributedDataParallel(Words(rank, True).double())
    x, y = part(rank, ranks)
    with wrapped.no_sync():
        loss(wrapped(x), y).backward()
        nnz = wrapped.module.bags.weight.grad._nnz()
        assert nnz == x.numel()  # nothing of the others
    loss(wrapped(x), y).backward()
    return rows(wrapped.module)


def test_no_sync_adds_up_and_the_next_backward_averages() -> None:
    expected = train_alone()[0]
    for results in values(run(accumulate, 3)):
        for x, y in zip(results, expected, strict=True):
            np.testing.assert_allclose(x, 2 * y, rtol=1e-9, atol=1e-12)


def unused() -> list[Any]:
    """The second table is used on rank 1 alone, then on no rank."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    wrapped = DistributedDataParallel(Words(0, True).double(), find_unused_parameters=True)
    x, y = part(rank, ranks)
    table = wrapped.module.words.weight
    loss(wrapped(x, rank == 1), y).backward()
    gradient = np.array(table.grad.to_dense().numpy())
    table.grad = None
    loss(wrapped(x, False), y).backward()
    return [gradient, table.grad is None]


def test_a_table_that_some_or_no_ranks_use() -> None:
    model = Words(0, False).double()
    loss(model(*part(1, 2)[:1]), part(1, 2)[1]).backward()
    for gradient, was_left in values(run(unused, 2)):
        np.testing.assert_allclose(gradient, rows(model)[1] / 2, rtol=1e-9, atol=1e-12)
        assert was_left


def uneven() -> list[Any]:
    """Rank r has r + 1 batches."""
    rank = dist.get_rank()
    wrapped = DistributedDataParallel(Words(0, True).double())
    optimizer = optim.SGD(wrapped.parameters(), lr=0.1)
    with wrapped.join(divide_by_initial_world_size=False):
        for _ in range(rank + 1):
            optimizer.zero_grad()
            x, y = part(rank, 2)
            loss(wrapped(x), y).backward()
            optimizer.step()
    return [np.array(p.detach().numpy()) for p in wrapped.parameters()]


def test_ranks_with_different_numbers_of_batches() -> None:
    model = Words(0, False).double()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for x, y in (part(0, 1), part(1, 2)):  # both ranks' batches, then the second one of rank 1
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
    for results in values(run(uneven, 2)):
        for x, p in zip(results, model.parameters(), strict=True):
            np.testing.assert_allclose(x, p.detach().numpy(), rtol=1e-9, atol=1e-12)


class Tied(Words):
    """The bags' table is used densely, too."""

    def forward(self, words: Any, both: bool = True) -> Any:
        return super().forward(words) * self.bags.weight.sum()


def tied(sparse: bool) -> None:
    wrapped = DistributedDataParallel(Tied(0, sparse))
    wrapped(part(0, 2)[0]).sum().backward()


def looked_up_by_hand() -> list[Any]:
    """A sparse gradient that no module has announced is averaged as a dense one."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = Words(0, False).double()
    wrapped = DistributedDataParallel(model)
    model.bags.sparse = model.words.sparse = True
    x, y = part(rank, ranks)
    loss(wrapped(x), y).backward()
    return rows(model)


def test_unannounced_sparse_gradients() -> None:
    for outcome in run(tied, 2, True):
        assert isinstance(outcome.error, RuntimeError)
        assert "Expected a sparse gradient" in str(outcome.error)
    for results in values(run(looked_up_by_hand, 2)):
        for x, y in zip(results, train_alone()[0], strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
