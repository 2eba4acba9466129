"""DataLoader with workers, for every start method: batches, errors, deaths, and nothing left."""

from __future__ import annotations

import gc
import multiprocessing as stdlib_multiprocessing
import os
import random
import re
import signal
import time
from collections.abc import Iterator
from functools import partial
from itertools import chain
from multiprocessing import current_process
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.dataloaders import (
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    WorkerInfo,
    get_worker_info,
)
from shmtensor.dataloaders.loader.progress import POSITION, TASK
from shmtensor.errors import PeerLostError

METHODS = ["fork", "forkserver", "spawn"]


class Numbers(Dataset[Any]):
    def __init__(self, n: int = 20) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        return {"x": np.full(3, index, np.float32), "y": index, "name": f"n{index}"}


class Broken(Numbers):
    def __getitem__(self, index: int) -> Any:
        if index == 7:
            raise KeyError(f"sample {index} is broken")
        return super().__getitem__(index)


class Deadly(Numbers):
    """Kills its worker at sample 6."""

    def __init__(self, exit_by: int) -> None:
        super().__init__()
        self.how = exit_by

    def __getitem__(self, index: int) -> Any:
        if index == 6:
            if self.how:
                os.kill(os.getpid(), self.how)
                time.sleep(30)
            os._exit(3)
        return super().__getitem__(index)


class Slow(Numbers):
    def __init__(self, seconds: float, index: int) -> None:
        super().__init__()
        self.seconds, self.index = seconds, index

    def __getitem__(self, index: int) -> Any:
        if index == self.index:
            time.sleep(self.seconds)
        return super().__getitem__(index)


class Random(Numbers):
    """Draws from every generator that a data set may use."""

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        assert isinstance(info, WorkerInfo)
        ours = st.randint(0, 2**62, (1,)).tolist()[0]
        return info.id, info.seed, random.getrandbits(60), int(np.random.randint(2**60)), ours


class Stream(IterableDataset[int]):
    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        assert info is not None
        return iter(range(info.id, self.n, info.num_workers))


def labels(loader: Any) -> list[list[int]]:
    return [batch["y"].tolist() for batch in loader]


def append_self(path: str, worker: int) -> None:
    with open(path, "a") as file:
        file.write(f"{worker}\n")


def fail_to_start(worker: int) -> None:
    raise OSError(f"worker {worker} finds no camera")


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# ------------------------------------------------------------------ batches
def test_batches_equal_those_without_workers(method: str) -> None:
    expected = list(DataLoader(Numbers(), 3))
    loader = DataLoader(Numbers(), 3, num_workers=2, multiprocessing_context=method)
    batches = list(loader)
    assert [b["y"].tolist() for b in batches] == [b["y"].tolist() for b in expected]
    assert [b["x"].tolist() for b in batches] == [b["x"].tolist() for b in expected]
    assert [b["name"] for b in batches] == [b["name"] for b in expected]


def test_batches_are_received_not_copied(method: str) -> None:
    loader = DataLoader(Numbers(), 4, num_workers=1, multiprocessing_context=method)
    list(loader)  # the workers and their queues stay
    before = st.memory.statistics().live_blocks
    batches = list(loader)
    assert all(batch["x"].is_shared() and batch["y"].is_shared() for batch in batches)
    assert st.memory.statistics().live_blocks - before <= len(batches)


def test_columns_reach_workers_as_handles(method: str) -> None:
    dataset = TensorDataset(st.arange(1000), st.arange(1000))
    loader = DataLoader(dataset, 100, num_workers=2, multiprocessing_context=method)
    assert [*chain(*(x.tolist() for x, _ in loader))] == list(range(1000))
    dataset.tensors[0].numpy()[0] = -1  # the same memory in the workers
    assert next(iter(loader))[0].tolist()[0] == -1


def test_a_lambda_collates(method: str) -> None:
    loader = DataLoader(
        Numbers(4),
        2,
        num_workers=1,
        multiprocessing_context=method,
        collate_fn=lambda samples: sum(sample["y"] for sample in samples),
    )
    assert list(loader) == [1, 5]


def test_streams_share_the_work(method: str) -> None:
    loader = DataLoader(Stream(11), 3, num_workers=2, multiprocessing_context=method)
    batches = [batch.tolist() for batch in loader]
    assert batches == [[0, 2, 4], [1, 3, 5], [6, 8, 10], [7, 9]]
    assert [batch.tolist() for batch in loader] == batches


def test_without_batching_samples_come_one_by_one() -> None:
    loader = DataLoader(Numbers(5), None, num_workers=2)
    assert [sample["y"] for sample in loader] == [0, 1, 2, 3, 4]
    assert [int(s) for s in DataLoader(Stream(4), None, num_workers=2)] == [0, 1, 2, 3]


def test_out_of_order_a_slow_sample_holds_nothing_up() -> None:
    loader = DataLoader(Slow(0.5, 0), 1, num_workers=2, in_order=False)
    labels_seen = [*chain(*labels(loader))]
    assert sorted(labels_seen) == list(range(20))
    assert labels_seen[0] != 0


def test_no_more_batches_are_made_than_requested() -> None:
    iterator = iter(DataLoader(Numbers(1000), 1, num_workers=2, prefetch_factor=3))
    next(iterator)
    time.sleep(0.3)
    assert iterator.next_number == 7  # six in flight, and the one that was taken
    del iterator


# ------------------------------------------------------------------ seeds
def test_every_generator_is_seeded_by_worker_and_epoch(method: str) -> None:
    def epochs(persistent: bool) -> list[list[Any]]:
        loader = DataLoader(
            Random(8),
            2,
            num_workers=2,
            multiprocessing_context=method,
            generator=np.random.default_rng(5),
            persistent_workers=persistent,
            collate_fn=list,
        )
        return [[sample[2:] for sample in chain(*loader)] for _ in range(2)]

    first, second = epochs(False), epochs(True)
    assert first == second
    for column in range(3):
        numbers = {sample[column] for epoch in first for sample in epoch}
        assert len(numbers) == 16, "two samples or epochs drew the same"


@pytest.mark.parametrize("seed", [None, 5])
def test_without_a_generator_every_epoch_and_worker_draws_anew(seed: int | None) -> None:
    if seed is not None:
        st.manual_seed(seed)
    loader = DataLoader(Random(8), 2, num_workers=2, collate_fn=list)
    numbers = [sample[2:] for _ in range(3) for sample in chain(*loader)]
    for column in range(3):
        assert len({sample[column] for sample in numbers}) == 24


class OwnGenerator(Numbers):
    """Has its own generator, which is copied to each worker with the data set."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.rng = np.random.default_rng(0)
        self.both = st.multiprocessing.Barrier(2)

    def __getitem__(self, index: int) -> Any:
        self.both.wait(60)  # one sample for each worker
        return int(self.rng.integers(2**60))


def reseed_own(worker: int) -> None:
    info = get_worker_info()
    assert isinstance(info, WorkerInfo)
    info.dataset.rng = np.random.default_rng(info.seed)


@pytest.mark.parametrize(("init", "is_equal"), [(None, True), (reseed_own, False)])
def test_a_generator_of_the_data_set_is_copied_unless_the_worker_seeds_it(
    init: Any, is_equal: bool
) -> None:
    loader = DataLoader(OwnGenerator(2), 1, num_workers=2, worker_init_fn=init, collate_fn=list)
    (first,), (second,) = loader
    assert (first == second) == is_equal


# ------------------------------------------------------------------ workers
def test_an_epoch_left_early_does_not_leak_into_the_next() -> None:
    loader = DataLoader(Numbers(), 2, num_workers=2, persistent_workers=True)
    for batch in loader:
        assert batch["y"].tolist() == [0, 1]
        break
    assert [*chain(*labels(loader))] == list(range(20))
    old = iter(loader)
    next(old)
    new = iter(loader)
    with pytest.raises(RuntimeError, match="another one was started"):
        next(old)
    assert [*chain(*labels(new))] == list(range(20))


def test_init_fn_is_called_once_in_each_worker(method: str, tmp_path: Any) -> None:
    path = str(tmp_path / "calls")
    loader = DataLoader(
        Numbers(),
        5,
        num_workers=2,
        multiprocessing_context=method,
        persistent_workers=True,
        worker_init_fn=partial(append_self, path),
    )
    list(loader)
    list(loader)
    deadline = time.monotonic() + 30  # one of them may not have been used so far
    while len(Path(path).read_text().split()) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    list(loader)
    assert sorted(Path(path).read_text().split()) == ["0", "1"]


def test_worker_info_is_that_of_the_worker() -> None:
    loader = DataLoader(Random(4), 1, num_workers=2, collate_fn=list)
    infos = [batch[0] for batch in loader]
    assert {info[0] for info in infos} <= {0, 1}
    assert len({seed - worker for worker, seed, *_ in infos}) == 1
    assert get_worker_info() is None


# ------------------------------------------------------------------ errors
def test_an_error_comes_with_its_traceback_and_index(method: str) -> None:
    loader = DataLoader(Broken(), 4, num_workers=2, multiprocessing_context=method)
    iterator = iter(loader)
    assert next(iterator)["y"].tolist() == [0, 1, 2, 3]
    with pytest.raises(KeyError) as caught:
        next(iterator)
    message = str(caught.value)
    assert re.search(r"Caught KeyError in DataLoader worker \d, index 7", message)
    assert "in __getitem__" in message
    assert "sample 7 is broken" in message
    assert next(iterator)["y"].tolist() == [8, 9, 10, 11]
    del iterator, caught


def test_an_error_of_init_fn_is_raised() -> None:
    loader = DataLoader(Numbers(), num_workers=1, worker_init_fn=fail_to_start)
    with pytest.raises(OSError, match="worker 0 finds no camera"):
        next(iter(loader))


def test_unpicklable_results_are_an_error() -> None:
    loader = DataLoader(Numbers(), 2, num_workers=1, collate_fn=lambda samples: iter_of(samples))
    with pytest.raises((TypeError, RuntimeError), match="sending the result of"):
        next(iter(loader))


def iter_of(samples: list[Any]) -> Any:
    return (sample for sample in samples)  # a generator cannot be pickled


@pytest.mark.parametrize("exit_by", [signal.SIGKILL, signal.SIGTERM, 0])
def test_a_dead_worker_is_named(method: str, exit_by: int) -> None:
    loader = DataLoader(Deadly(exit_by), 4, num_workers=2, multiprocessing_context=method)
    iterator = iter(loader)
    workers = [process.pid for process in iterator.workers.processes]
    with pytest.raises(PeerLostError) as caught:
        list(iterator)
    message, error = str(caught.value), caught.value
    worker = workers.index(error.pid)
    assert f"worker {worker} (pid {error.pid})" in message
    assert "at index 6 (sample 2 of indices [4, 5, 6, 7])" in message
    assert re.search(r"shared memory in use: \d+ MiB", message)
    assert "likely causes: " in message
    assert (
        f"was killed by {signal.Signals(exit_by).name}" in message
        if exit_by
        else "exit code 3" in message
    )
    assert error.exitcode == (-exit_by if exit_by else 3)
    assert error.name == f"loader worker {worker}"
    del iterator, caught, error


def test_a_worker_killed_from_outside_is_named_within_a_second() -> None:
    iterator = iter(DataLoader(Slow(60, 9), 2, num_workers=2))
    assert [next(iterator)["y"].tolist()[0] for _ in range(4)] == [0, 2, 4, 6]
    while (worker := at_work_on(iterator, 4)) is None:
        time.sleep(0.01)
    os.kill(iterator.workers.processes[worker].pid, signal.SIGKILL)
    start, waited = time.monotonic(), without_a_cpu()
    message = rf"worker {worker} .*SIGKILL \(-9\): it was at index 9 \(sample 1 of indices \[8, 9\]"
    with pytest.raises(PeerLostError, match=message):
        list(iterator)
    assert time.monotonic() - start - (without_a_cpu() - waited) < 1
    del iterator


def without_a_cpu() -> float:
    """The total time in seconds for which this thread was ready to run and had no CPU."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) * 1e-9


def at_work_on(iterator: Any, number: int, place: int = 1) -> int | None:
    """The worker that works on this sample of this batch."""
    for worker, row in enumerate(iterator.rows):
        if (row[TASK], row[POSITION]) == (number + 1, place):
            return worker
    return None


def test_a_worker_killed_while_idle_between_epochs_is_replaced() -> None:
    loader = DataLoader(Numbers(), 4, num_workers=1, persistent_workers=True)
    assert len(list(loader)) == 5
    os.kill(loader._workers.processes[0].pid, signal.SIGKILL)
    with pytest.raises(PeerLostError, match="worker 0"):
        list(loader)
    assert len(list(loader)) == 5


def test_a_timeout_names_worker_and_indices() -> None:
    iterator = iter(DataLoader(Slow(60, 2), 2, num_workers=1, timeout=0.5))
    next(iterator)
    with pytest.raises(RuntimeError, match=r"within the timeout: 0.5 s, worker 0 .*\[2, 3\]"):
        next(iterator)
    del iterator


# ------------------------------------------------------------------ endings
def test_break_ends_the_workers(method: str) -> None:
    for _ in DataLoader(Numbers(), 1, num_workers=2, multiprocessing_context=method):
        break


def test_an_error_in_the_loop_ends_the_workers() -> None:
    def train() -> None:
        for _ in DataLoader(Numbers(), 1, num_workers=2):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train()


def test_dropping_the_loader_ends_persistent_workers() -> None:
    loader = DataLoader(Numbers(), 1, num_workers=2, persistent_workers=True)
    next(iter(loader))
    processes = [process.pid for process in loader._workers.processes]
    del loader
    gc.collect()
    for pid in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_busy_worker_is_not_waited_for_long() -> None:
    iterator = iter(DataLoader(Slow(60, 2), 1, num_workers=1))
    next(iterator)
    start = time.monotonic()
    del iterator
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("daemon", [False, True])
def test_workers_end_when_the_consumer_is_killed(method: str, daemon: bool) -> None:
    """One of them is in the middle of a sample, the other one idle."""
    context = st.multiprocessing.get_context(method)
    queue = context.SimpleQueue()
    consumer = context.Process(target=wait_for_ever, args=(queue, method), daemon=daemon)
    consumer.start()
    workers = queue.get()
    os.kill(consumer.pid, signal.SIGKILL)
    consumer.join()
    deadline = time.monotonic() + 20
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_running, workers))
    consumer.close()
    queue.close()


def wait_for_ever(queue: Any, method: str) -> None:
    loader = DataLoader(Slow(600, 2), 1, num_workers=2, multiprocessing_context=method)
    iterator = iter(loader)
    next(iterator)
    while at_work_on(iterator, 2, 0) is None:
        time.sleep(0.01)
    queue.put([process.pid for process in iterator.workers.processes])
    time.sleep(600)


def labels_by_workers(method: str) -> Any:
    with DataLoader(Numbers(8), 4, num_workers=2, multiprocessing_context=method) as loader:
        return labels(loader), current_process().daemon


@pytest.mark.parametrize(
    ("multiprocessing", "method"),
    [
        (stdlib_multiprocessing, "fork"),
        (stdlib_multiprocessing, "spawn"),
        (st.multiprocessing, "forkserver"),
    ],
)
def test_a_worker_of_a_pool_may_have_a_loader_with_workers(
    multiprocessing: Any, method: str
) -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(labels_by_workers, (method,)) == ([[0, 1, 2, 3], [4, 5, 6, 7]], True)


class Nested(Numbers):
    """Each sample is an epoch of another loader."""

    def __getitem__(self, index: int) -> Any:
        return [label + index for part in labels_by_workers("fork")[0] for label in part]


def test_a_worker_of_a_loader_may_have_a_loader_with_workers() -> None:
    with DataLoader(Nested(2), 1, num_workers=1, collate_fn=list) as loader:
        assert list(loader) == [[list(range(8))], [list(range(1, 9))]]


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_many_epochs_leave_nothing_behind() -> None:
    loader = DataLoader(Numbers(), 4, num_workers=2)
    list(loader)
    before = st.memory.statistics().live_blocks, len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        list(loader)
    gc.collect()
    assert (st.memory.statistics().live_blocks, len(os.listdir("/proc/self/fd"))) == before
