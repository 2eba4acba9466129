"""DistributedDataParallel: n ranks on n parts give the gradients of one process on the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import nn, optim
from shmtensor.distributed import DistributedDataParallel
from shmtensor.errors import CollectiveMismatch

from .crowd import START_METHODS, run, values


def data() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    return rng.standard_normal((12, 5)), rng.integers(0, 3, 12)


def make_model(seed: int) -> nn.Module:
    st.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3)).double()


def train(steps: int, cap: float | None, before: bool) -> list[Any]:
    """Every rank has other weights at first; rank 0's count. `before`: the optimizer is older than
    the wrapper.
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


def alone(steps: int) -> list[Any]:
    x, y = data()
    model = make_model(0)
    optimizer = optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.CrossEntropyLoss()(model(st.tensor(x)), st.tensor(y)).backward()
        optimizer.step()
    return [p.detach().numpy() for p in model.parameters()]


@pytest.mark.parametrize("before", [False, True], ids=["optimizer after", "optimizer before"])
@pytest.mark.parametrize("cap", [None, 1e-4], ids=["one bucket", "many buckets"])
def test_ranks_train_like_one_process(cap: float | None, before: bool) -> None:
    results = values(run(train, 2, 5, cap, before))
    for parameters in results:
        for got, want, first in zip(parameters, alone(5), results[0], strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10)
            np.testing.assert_array_equal(got, first)


@pytest.mark.parametrize("start_method", START_METHODS)
def test_every_start_method(start_method: str) -> None:
    values(run(train, 2, 1, None, False, start_method=start_method))


def accumulate() -> list[Any]:
    rank = dist.get_rank()
    x, y = (st.tensor(each[rank * 6 : rank * 6 + 6]) for each in data())
    wrapped = DistributedDataParallel(make_model(0))
    with wrapped.no_sync():
        nn.CrossEntropyLoss()(wrapped(x), y).backward()
    own = np.array(next(wrapped.parameters()).grad.numpy())
    nn.CrossEntropyLoss()(wrapped(x), y).backward()
    return [own, np.array(next(wrapped.parameters()).grad.numpy())]


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
    """A model that forked children inherit is one memory; wrapped, every rank has its own."""
    wrapped = DistributedDataParallel(model)
    dist.barrier()
    if dist.get_rank() == 1:
        next(wrapped.parameters()).array[...] = 9
    dist.barrier()
    return bool((next(wrapped.parameters()).array == 9).any())


def test_an_inherited_model_gets_memory_of_its_own() -> None:
    model = make_model(0)
    assert values(run(inherited, 2, model, start_method="fork")) == [False, True]


def test_wrong_use() -> None:
    dist.init_process_group(rank=0, world_size=1)
    try:
        with pytest.raises(RuntimeError, match="no parameter that requires"):
            DistributedDataParallel(nn.ReLU())
        with pytest.raises(NotImplementedError, match="find_unused_parameters"):
            DistributedDataParallel(nn.Linear(1, 1), find_unused_parameters=True)
    finally:
        dist.destroy_process_group()
