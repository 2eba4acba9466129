"""Persistent workers: reused, restarted with new settings, replaced and ended."""

from __future__ import annotations

import gc
import os
import re
import signal
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.dataloaders import DataLoader, Dataset, IterableDataset, get_worker_info
from shmtensor.dataloaders.loader.progress import BATCHES
from shmtensor.dataloaders.loader.worker_pool import WorkerPool
from shmtensor.errors import PeerLostError

METHODS = ["fork", "forkserver", "spawn"]


class Numbers(Dataset[Any]):
    def __init__(self, n: int = 12) -> None:
        self.n = n
        self.offset = 0

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        return self.offset + index


class Unsendable(Numbers):
    def __init__(self) -> None:
        super().__init__()
        self.stream = (i for i in range(3))  # cannot be pickled


class Gate(Numbers):
    """Sample 0 waits until all others of the epoch were made."""

    def __init__(self, folder: Path) -> None:
        super().__init__(8)
        self.folder = folder

    def __getitem__(self, index: int) -> Any:
        if index:
            (self.folder / str(index)).touch()
        else:
            deadline = time.monotonic() + 30
            while len(list(self.folder.iterdir())) < 5 and time.monotonic() < deadline:
                time.sleep(0.01)
        return index, len(list(self.folder.iterdir()))


class Mortal(Numbers):
    """Kills its worker once per file that it can remove."""

    def __init__(self, folder: Path, at: int) -> None:
        super().__init__(20)
        self.folder, self.at = folder, at

    def __getitem__(self, index: int) -> Any:
        if index == self.at:
            die_once(self.folder)
        return index, np.random.rand()


class MortalStream(IterableDataset[Any]):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        worker = info.id if info else 0
        for index in range(10):
            if worker == 0 and index == 6 and info is not None:
                die_once(self.folder)
            yield 100 * worker + index, np.random.rand()


class Slow(Numbers):
    def __getitem__(self, index: int) -> Any:
        time.sleep(1.0 if index == 5 else 0.0)
        return index


class SlowStream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        for index in range(8):
            time.sleep(1.0 if index == 5 else 0.1)
            yield index


class Names(Dataset[str]):
    def __init__(self, names: Any) -> None:
        self.names = names

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> str:
        return str(self.names[index])


def die_once(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)


def pids(loader: Any) -> list[int]:
    return [process.pid for process in loader._workers.processes]


def plain(samples: list[Any]) -> list[Any]:
    return list(samples)


def numbers(loader: Any) -> list[int]:
    return [int(n) for batch in loader for n in batch]


# ------------------------------------------------------------------ between epochs
@pytest.mark.parametrize("method", METHODS)
def test_workers_stay_and_see_what_was_changed(method: str) -> None:
    dataset = Numbers()
    with DataLoader(dataset, 3, num_workers=1, multiprocessing_context=method) as loader:
        assert numbers(loader) == list(range(12))
        first = pids(loader)
        dataset.offset = 50
        assert numbers(loader) == list(range(50, 62))
        assert pids(loader) == first
    assert loader._workers is None
    with pytest.raises(ProcessLookupError):
        os.kill(first[0], 0)


def test_a_closed_loader_starts_again() -> None:
    loader = DataLoader(Numbers(), 3, num_workers=1)
    for _ in range(2):
        assert numbers(loader) == list(range(12))
        loader.close()


@pytest.mark.parametrize("method", METHODS)
def test_persistent_workers_stay_and_keep_their_copy(method: str) -> None:
    dataset = Numbers()
    options: Any = {"persistent_workers": True, "multiprocessing_context": method}
    loader = DataLoader(dataset, 3, num_workers=2, **options)
    list(loader)
    first = pids(loader)
    dataset.offset = 50
    assert numbers(loader) == list(range(12))
    assert pids(loader) == first


def test_unpicklable_datasets_are_forked_again() -> None:
    dataset = Unsendable()
    loader = DataLoader(dataset, 3, num_workers=1, multiprocessing_context="fork")
    list(loader)
    first = pids(loader)
    dataset.offset = 50
    assert numbers(loader) == list(range(50, 62))
    assert pids(loader) != first


def test_large_datasets_are_forked_again_and_shared_arrays_are_not() -> None:
    for column, is_kept in ((np.zeros(1 << 20), False), (st.zeros(1 << 20), True)):
        dataset = Names(column)
        loader = DataLoader(dataset, 3, num_workers=1, multiprocessing_context="fork")
        list(loader)
        first = pids(loader)
        list(loader)
        assert (pids(loader) == first) == is_kept


def test_init_fn_sees_each_data_set(tmp_path: Path) -> None:
    def note(worker: int) -> None:
        info = get_worker_info()
        assert info is not None
        with open(tmp_path / "calls", "a") as file:
            file.write(f"{worker} {info.dataset.offset}\n")  # type: ignore[attr-defined]

    dataset = Numbers()
    loader = DataLoader(
        dataset, 3, num_workers=1, worker_init_fn=note, multiprocessing_context="forkserver"
    )
    list(loader)
    dataset.offset = 7
    list(loader)
    assert (tmp_path / "calls").read_text().split("\n") == ["0 0", "0 7", ""]


def test_two_iterators_do_not_disturb_each_other() -> None:
    loader = DataLoader(Numbers(), 3, num_workers=1)
    for both in zip(loader, loader, strict=True):
        assert both[0].tolist() == both[1].tolist()
    assert numbers(loader) == list(range(12))


def test_a_kept_worker_that_died_idle_is_replaced_silently() -> None:
    loader = DataLoader(Numbers(), 3, num_workers=2)
    list(loader)
    victim = loader._workers.processes[0]
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()
    assert numbers(loader) == list(range(12))


def test_an_abandoned_epoch_is_not_finished() -> None:
    loader = DataLoader(Numbers(1000), 1, num_workers=1, prefetch_factor=2)
    for _ in loader:
        break
    for _ in loader:
        break
    assert numbers(loader) == list(range(1000))
    assert sum(w.batches for w in loader.statistics().workers) == 1000


# ------------------------------------------------------------------ hand-out
def test_a_slow_sample_delays_only_its_batch(tmp_path: Path) -> None:
    loader = DataLoader(Gate(tmp_path), 1, num_workers=2, prefetch_factor=4, collate_fn=plain)
    batches = dict(batch[0] for batch in loader)
    # While sample 0 waited its neighbour made five others: with lists dealt out beforehand it
    # could have made three (its own are 1, 3, 5, 7; 1 to 5 are needed here).
    assert list(batches) == list(range(8))
    assert batches[0] >= 5


# ------------------------------------------------------------------ faults
def test_the_first_worker_works_while_the_others_are_forked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts: list[float] = []
    start = WorkerPool.start

    def late(workers: WorkerPool, worker: int) -> Any:
        deadline = time.monotonic() + 30
        while worker and not workers.rows[0][BATCHES] and time.monotonic() < deadline:
            time.sleep(0.01)
        counts.append(workers.rows[0][BATCHES])
        return start(workers, worker)

    monkeypatch.setattr(WorkerPool, "start", late)
    loader = DataLoader(Numbers(), 3, num_workers=2, multiprocessing_context="fork")
    assert numbers(loader) == list(range(12))
    assert counts[0] == 0
    assert counts[1] >= 1


def test_a_lost_worker_is_replaced_and_its_batch_recomputed(tmp_path: Path) -> None:
    expected = list(DataLoader(Mortal(tmp_path, 9), 4, generator=np.random.default_rng(1)))
    (tmp_path / "1").touch()
    loader = DataLoader(
        Mortal(tmp_path, 9), 4, num_workers=2, restart_workers=1, generator=np.random.default_rng(1)
    )
    with pytest.warns(
        RuntimeWarning, match=r"index 9 .*SIGKILL|SIGKILL.* index 9 .*replaced, 1 of"
    ):
        batches = list(loader)
    assert [[x.tolist() for x in batch] for batch in batches] == [
        [x.tolist() for x in batch] for batch in expected
    ]
    assert loader.statistics().restarts == 1


def test_a_lost_stream_resumes_at_the_consumers_position(tmp_path: Path) -> None:
    def loader(restarts: int) -> Any:
        return DataLoader(
            MortalStream(tmp_path), 2, num_workers=2, restart_workers=restarts,
            generator=np.random.default_rng(1), collate_fn=plain,
        )  # fmt: skip

    expected = list(loader(0))
    (tmp_path / "1").touch()
    with pytest.warns(RuntimeWarning, match="SIGKILL"):
        assert list(loader(1)) == expected


def test_more_deaths_than_restarts_are_an_error(tmp_path: Path) -> None:
    for name in "123":
        (tmp_path / name).touch()
    loader = DataLoader(Mortal(tmp_path, 3), 2, num_workers=1, restart_workers=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with pytest.raises(PeerLostError, match=r"SIGKILL .*at index 3 \(sample 1 of indices"):
            list(loader)
    assert not list(tmp_path.iterdir())
    assert len(list(loader)) == 10


def test_a_sample_that_takes_long_is_named() -> None:
    loader = DataLoader(Slow(), 4, num_workers=1, stall_warning=0.3)
    message = (
        r"worker 0 \(pid \d+\): a sample takes long: .* s at index 5 \(sample 1 of indices \[4,"
    )
    with pytest.warns(RuntimeWarning, match=message) as caught:
        list(loader)
    assert len([w for w in caught if w.category is RuntimeWarning]) == 1
    with pytest.warns(RuntimeWarning, match=r"a sample takes long: .* s at index 5, ") as caught:
        list(DataLoader(Slow(), 4, stall_warning=0.3))
    assert len([w for w in caught if w.category is RuntimeWarning]) == 1


def test_many_quick_samples_are_not_a_slow_one() -> None:
    with pytest.warns(RuntimeWarning, match="at sample 5 of the stream, ") as caught:
        list(DataLoader(SlowStream(), 4, stall_warning=0.35))  # a batch takes longer than that, too
    assert len([w for w in caught if w.category is RuntimeWarning]) == 1


# ------------------------------------------------------------------ memory
def test_plain_columns_are_warned_about_with_the_remedy() -> None:
    names = [str(i) for i in range(100_000)]
    message = r"dataset\.names is a list of 100000 Python objects.*st\.SharedList\(dataset\.names\)"
    loader = DataLoader(Names(names), num_workers=1)
    with pytest.warns(UserWarning, match=message):
        list(loader)
    list(loader)  # once
    nested: Any = Names(dict(enumerate(names)))
    with pytest.warns(UserWarning, match=r"dataset\.datasets\[1\]\.names is a dict .*SharedDict"):
        list(DataLoader(nested + nested, num_workers=1))
    for harmless in (st.SharedList(names), names[:99_999], np.zeros(100_000)):
        list(DataLoader(Names(harmless), num_workers=1))
    list(DataLoader(Names(names)))


def proportional(pid: int) -> int:
    """The proportional set size of a process in bytes: shared pages count in part."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(n) for n in re.findall(r"^Pss: +(\d+)", text, re.MULTILINE)) * 1024


def test_workers_that_read_a_shared_list_take_no_memory() -> None:
    n = 200_000
    names = st.SharedList(f"image-{i:08d}.png" for i in range(n))

    def private_bytes(column: Any) -> int:
        all_workers = st.multiprocessing.Barrier(4)

        def read(_: Any) -> int:
            all_workers.wait(60)  # so that no worker takes two of the four samples
            return sum(map(len, column))

        loader = DataLoader(
            Names(column), None, num_workers=4, sampler=range(4), persistent_workers=True,
            collate_fn=read,
        )  # fmt: skip
        assert set(loader) == {18 * n}
        gc.collect()
        return sum(proportional(pid) for pid in [os.getpid(), *pids(loader)])

    shared = private_bytes(names)
    plain_list = list(names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bare = private_bytes(plain_list)
    one = n * 75  # bytes of an element: a string of 67, a pointer of 8
    assert bare - shared > 2.5 * one, "the plain list should have been copied by each worker"


class Collecting(Numbers):
    """The growth of a worker's private memory by a collection."""

    def __getitem__(self, index: int) -> Any:
        before = private()
        gc.collect()
        return private() - before


def private() -> int:
    text = Path("/proc/self/smaps_rollup").read_text()
    return sum(int(n) for n in re.findall(r"^Private_Dirty: +(\d+)", text, re.MULTILINE)) * 1024


def test_a_collection_in_a_worker_does_not_copy_what_it_inherited() -> None:
    inherited = [[i] for i in range(200_000)]  # a collection writes to the head of each
    loader = DataLoader(Collecting(1), None, num_workers=1, multiprocessing_context="fork")
    (growth,) = loader
    assert growth < 8 * len(inherited), f"{growth} bytes"


# ------------------------------------------------------------------ what travels
def test_arrays_of_a_collate_fn_are_allocated_in_shared_memory() -> None:
    loader = DataLoader(
        Numbers(), 4, num_workers=1, collate_fn=lambda samples: np.array(samples, np.float64)
    )
    for batch in loader:
        assert type(batch) is np.ndarray
        assert st.memory.is_shared(batch)


def test_ragged_samples_travel_as_their_collate_fn_leaves_them() -> None:
    dataset = Ragged()
    loader = DataLoader(dataset, 3, num_workers=2, collate_fn=plain)
    arrays = [array.tolist() for batch in loader for array, _ in batch]
    assert arrays == [dataset[i][0].tolist() for i in range(len(dataset))]
    assert all(st.memory.is_shared(array) for batch in loader for array, _ in batch)


class Ragged(Numbers):
    def __getitem__(self, index: int) -> Any:
        return np.arange(1, index + 2), {"name": f"n{index}", "any": Thing(index)}


class Thing:
    def __init__(self, number: int) -> None:
        self.number = number
