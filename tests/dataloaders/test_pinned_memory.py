"""Pinned batches: registered once, not overwritten while in use, unregistered."""

from __future__ import annotations

import gc
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_cuda import FakeCuda, installed

import shmtensor as st
from shmtensor.dataloaders import (
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    default_collate,
)
from shmtensor.dataloaders.cuda.pinned_memory import PinnedPool, RuntimeOfTorch

SHAPE = (80, 100)
BATCH = 16


class Images(Dataset[Any]):
    """Batches of 512,000 bytes."""

    def __init__(self, n: int = 20 * BATCH) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        return np.full(SHAPE, index, np.float32), index


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return (Images()[index] for index in range(10 * BATCH))


class Mortal(Images):
    """Kills its worker once."""

    def __init__(self, mark: Path) -> None:
        super().__init__()
        self.mark = mark

    def __getitem__(self, index: int) -> Any:
        if index == 9 * BATCH and self.mark.exists():
            self.mark.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    with installed(monkeypatch) as fake:
        yield fake
        gc.collect()
        assert not fake.pinned, "something is still registered"


def check(batch: Any, expected: list[int] | None = None) -> None:
    """Checks that a batch is intact and has the expected labels."""
    images, labels = batch
    assert (images.numpy() == labels.numpy()[:, None, None]).all()
    assert expected is None or labels.tolist() == expected


def checked(loader: Any, cuda: FakeCuda | None = None) -> tuple[list[int], int]:
    """The labels of an epoch, and how many of its batches are pinned."""
    labels: list[int] = []
    pinned = 0
    for batch in loader:
        check(batch)
        labels += batch[1].tolist()
        pinned += cuda is not None and all(cuda.is_pinned(x.numpy()) for x in batch)
    return labels, pinned


def in_fork(test: Any) -> bool:
    """What a function returns in a forked child."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            code = int(not test())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def options(workers: int, method: str | None = None) -> dict[str, Any]:
    return {"num_workers": workers, "pin_memory": True, "multiprocessing_context": method}


def collate_and_double(samples: list[Any]) -> Any:
    images, labels = default_collate(samples)
    images.mul_(2)
    return images, labels.mul_(2)


def test_a_batch_may_be_written_in_place(cuda: FakeCuda) -> None:
    """Its pinned memory is the loading process's, which is no reason for the loader's warning."""
    with (
        warnings.catch_warnings(),
        DataLoader(Images(), BATCH, collate_fn=collate_and_double, **options(1)) as loader,
    ):
        warnings.simplefilter("error")
        assert checked(loader, cuda)[1] > 10


@pytest.mark.parametrize(
    ("workers", "method"), [(0, None), (2, "fork"), (2, "forkserver"), (2, "spawn")]
)
def test_batches_lie_in_memory_that_is_registered_once(
    cuda: FakeCuda, workers: int, method: str | None
) -> None:
    loader = DataLoader(Images(), BATCH, **options(workers, method))
    epochs = [checked(loader, cuda) for _ in range(3)]
    assert [labels for labels, _ in epochs] == [list(range(20 * BATCH))] * 3
    # The first batches show how large a block must be.
    assert sum(pinned for _, pinned in epochs) >= 60 - 3 * 5
    assert 1 <= cuda.registered() == len(cuda.pinned) <= 2 * workers + 4
    loader.close()
    assert not cuda.pinned
    assert {name for name, _ in cuda.calls[cuda.registered() :]} == {"unregister"}
    check(next(iter(loader)))  # it can be iterated over again
    loader.close()


KEPT: list[Any] = []  # in the worker: its latest batch


class Rewriting(Images):
    """At the start of a batch, writes into the previous one, which the consumer has by then."""

    def __getitem__(self, index: int) -> Any:
        if index % BATCH == 0 and KEPT:
            KEPT[0][0].numpy()[:] += 1000
        return super().__getitem__(index)


def keep(samples: Any) -> Any:
    KEPT[:] = [default_collate(samples)]
    return KEPT[0]


def test_pinning_copies_nothing(cuda: FakeCuda) -> None:
    """The consumer reads the worker's writes, in registered memory."""
    loader = DataLoader(Rewriting(), BATCH, collate_fn=keep, **options(1))
    pinned, before = 0, None
    for images, labels in loader:
        if before is not None:  # of one worker's: this batch has been begun, so that one rewritten
            pinned += cuda.is_pinned(before[0].numpy())
            check((before[0] - 1000, before[1]))
        before = images, labels
    assert pinned > 10
    del images, labels, before
    loader.close()


def reverse(samples: Any) -> Any:
    return default_collate(samples[::-1])


@pytest.mark.parametrize("workers", [0, 1])
def test_a_collate_fn_of_gathered_samples_makes_pinned_batches(
    cuda: FakeCuda, workers: int
) -> None:
    labels = np.arange(20 * BATCH)
    images = np.broadcast_to(labels[:, None, None], (len(labels), 8, 10)).astype(np.float32)
    loader = DataLoader(
        TensorDataset(images, labels), BATCH, collate_fn=reverse, **options(workers)
    )
    assert checked(loader, cuda)[1] >= 15
    loader.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_that_the_consumer_keeps_are_not_overwritten(cuda: FakeCuda, workers: int) -> None:
    loader = DataLoader(Images(), BATCH, shuffle=True, **options(workers))
    batches: list[Any] = []
    for turn in range(3):
        for batch in loader:
            if len(batches) % 3 == 0:  # a view is enough
                batch = batch[0][1:3], batch[1][1:3]
            batches.append((batch, batch[1].tolist()))
            if turn:
                batches.pop(0)
            for other in batches:
                check(*other)
    assert len(cuda.pinned) <= 2 * workers + 4
    loader.close()
    for other in batches:
        check(*other)


def test_batches_sent_to_another_process_are_not_overwritten(cuda: FakeCuda) -> None:
    loader = DataLoader(Images(), BATCH, **options(2))
    queue = st.multiprocessing.get_context("fork").Queue()
    sent_labels: list[list[int]] = []
    for turn in range(2):
        for batch in loader:
            if turn and cuda.is_pinned(batch[0].numpy()) and len(sent_labels) < 3:
                sent_labels.append(batch[1].tolist())
                queue.put(batch)  # nothing here refers to it any more, but the message does
            del batch
    assert len(sent_labels) == 3
    for labels in sent_labels:
        batch = queue.get()
        check(batch, labels)
        for other in loader:
            check(other)
            check(batch, labels)  # returned through the caller's queue
        del batch, other
    queue.close()
    loader.close()


def test_streams_and_early_ends(cuda: FakeCuda) -> None:
    loader = DataLoader(Stream(), BATCH, **options(1))
    for _ in range(4):
        for turn, batch in enumerate(loader):
            check(batch)
            if turn == 5:
                break
    for batch in loader:
        check(batch)
        last = batch
    assert cuda.is_pinned(last[0].numpy())
    del loader, batch
    gc.collect()
    check(last)


def test_a_worker_that_is_replaced_takes_nothing_along(cuda: FakeCuda, tmp_path: Path) -> None:
    mark = tmp_path / "once"
    mark.touch()
    loader = DataLoader(Mortal(mark), BATCH, restart_workers=1, **options(2))
    with pytest.warns(RuntimeWarning, match="SIGKILL"):
        assert checked(loader)[0] == list(range(20 * BATCH))
    assert checked(loader, cuda)[1] > 10
    loader.close()


def test_a_forked_child_leaves_the_driver_alone(cuda: FakeCuda) -> None:
    loader = DataLoader(Images(), BATCH, **options(0))
    list(loader)
    calls = len(cuda.calls)
    assert cuda.pinned

    def leaves_it_alone() -> bool:
        checked(loader)
        loader.close()
        return len(cuda.calls) == calls

    assert in_fork(leaves_it_alone)
    loader.close()


def test_a_forked_child_lends_nothing(cuda: FakeCuda) -> None:
    pool = PinnedPool(cuda.module.cuda.runtime, 2)
    first = pool.reserve(1000)
    assert first is not None
    first.is_reserved = False
    assert in_fork(lambda: pool.reserve(1000) is None and pool.reserve(1 << 20) is None)
    pool.close()


def test_blocks_that_are_too_small_are_given_back(cuda: FakeCuda) -> None:
    pool = PinnedPool(cuda.module.cuda.runtime, 2)
    assert pool.reserve(0) is None
    first = pool.reserve(1000)
    second = pool.reserve(1000)
    assert first is not None
    assert second is not None
    assert first is not second
    assert pool.reserve(1000) is None  # as many as there may be
    first.is_reserved = False
    assert pool.reserve(1000) is first
    first.is_reserved = False
    third = pool.reserve(1 << 20)
    assert third is not None
    assert third.array.nbytes == 1 << 20
    assert len(cuda.pinned) == 2
    pool.close()
    assert pool.reserve(1000) is None


def test_a_refusing_driver_is_reported_once(cuda: FakeCuda) -> None:
    cuda.refuses = True
    loader = DataLoader(Images(), BATCH, **options(0))
    with pytest.warns(RuntimeWarning, match="cannot be pinned: .*cudaErrorMemory") as caught:
        checked(loader)
    assert len(caught) == 1


@pytest.mark.parametrize("reason", ["CuPy is not installed", "CuPy finds no device"])
def test_without_a_gpu_it_warns_and_continues(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    with installed(monkeypatch) as fake:
        fake.module.cuda.is_available = lambda: False
        if "installed" in reason:
            monkeypatch.setitem(sys.modules, "cupy", None)
        with pytest.warns(UserWarning, match=f"pin_memory is set, but there is no GPU.*{reason}"):
            batches = list(DataLoader(Images(), BATCH, pin_memory=True))
        assert len(batches) == 20
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            list(DataLoader(Images(), BATCH))
        assert not fake.calls


def test_the_warning_comes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    loader: Any = DataLoader(Images(2 * BATCH), BATCH, pin_memory=True)
    with pytest.warns(UserWarning, match="there is no GPU") as caught:
        assert len(list(loader)) == len(list(loader)) == 2
    assert len(caught) == 1


class FakeTorch:
    """What `make_pool` uses of PyTorch, over the stand-in for CuPy's runtime."""

    def __init__(self, fake: FakeCuda) -> None:
        self.cuda, self.runtime = self, fake.module.cuda.runtime
        self.default_generator = None

    def is_available(self) -> bool:
        return True

    def cudart(self) -> FakeTorch:
        return self

    def cudaHostRegister(self, address: int, nbytes: int, flags: int) -> int:
        try:
            self.runtime.hostRegister(address, nbytes, flags)
        except RuntimeError:
            return 2
        return 0

    def cudaHostUnregister(self, address: int) -> int:
        self.runtime.hostUnregister(address)
        return 0

    def check_error(self, code: int) -> None:
        if code:
            raise RuntimeError(f"CUDA error: {code}")


@pytest.fixture
def cuda_of_torch(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(cuda))  # type: ignore[arg-type]
    return cuda


@pytest.mark.parametrize("num_workers", [0, 2])
def test_pytorch_registers_where_cupy_is_missing(cuda_of_torch: FakeCuda, num_workers: int) -> None:
    with DataLoader(Images(), BATCH, **options(num_workers)) as loader:
        checked(loader)
        assert cuda_of_torch.pinned
        assert isinstance(loader._pool.cuda, RuntimeOfTorch)  # type: ignore[union-attr]


def test_pytorchs_refusal_is_reported(cuda_of_torch: FakeCuda) -> None:
    cuda_of_torch.refuses = True
    loader: Any = DataLoader(Images(), BATCH, pin_memory=True)
    with pytest.warns(RuntimeWarning, match="cannot be pinned: .*CUDA error: 2"):
        checked(loader)
