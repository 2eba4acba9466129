"""A worker that writes to its data set's shared tensors warns, once, and names the line."""

from __future__ import annotations

import linecache
import operator
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.dataloaders import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    default_collate,
)
from shmtensor.dataloaders.loader.batch_block import allocate_parts
from shmtensor.dataloaders.loader.worker_warning import WorkerWarning, show_once

METHODS = ["fork", "forkserver", "spawn"]


def fill(x: st.Tensor) -> None:
    x.fill_(2)


WRITES: list[Callable[[st.Tensor], Any]] = [
    lambda x: operator.imul(x, 2),
    lambda x: st.add(x, 1, out=x),
    lambda x: st.add(st.ones(3, dtype=st.float64), 1, out=x),
    lambda x: operator.setitem(x, 1, 2),
    lambda x: operator.setitem(x, x > 0, 2),
    lambda x: x.unsqueeze(0)[:, 1:].copy_(st.zeros(1, 2)),
    lambda x: x.uniform_(),
    lambda x: x.index_add_(0, st.tensor([0]), st.ones(1)),
    lambda x: np.add(x, 1, out=x),
    lambda x: x.mul_(st.ones(3, requires_grad=True)),
    lambda x: st.nn.functional.batch_norm(st.rand(4, 3), x, st.ones(3), training=True),
]


class Writer(Dataset[Any]):
    """Writes to a tensor that it holds."""

    def __init__(self, write: Callable[[st.Tensor], Any] = fill) -> None:
        self.x = st.ones(6, 3)
        self.write = write

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        self.write(self.x[index])
        return index


class InList(Writer):
    def __init__(self) -> None:
        self.items = [{"x": st.ones(3)} for _ in range(6)]

    def __getitem__(self, index: int) -> Any:
        self.items[index]["x"].mul_(2)
        return index


class Cache(Writer):
    """Stores what it has computed, for all workers and epochs."""

    def __getitem__(self, index: int) -> Any:
        self.x[index] = index
        return self.x[index].clone()


class InStream(IterableDataset[int]):
    def __init__(self) -> None:
        self.x = st.ones(3)

    def __iter__(self) -> Iterator[int]:
        self.x.add_(1)
        return iter(range(6))


SHARED = st.ones(3)


class InGlobal(Writer):
    def __init__(self) -> None:
        pass

    def __getitem__(self, index: int) -> Any:
        SHARED.add_(1)
        return index


class OfItsOwn(Writer):
    """Writes to tensors that the worker made."""

    def __getitem__(self, index: int) -> Any:
        x = self.x[index].clone()
        x.mul_(2)
        x[0] = 1
        if index == 0:
            self.mine = st.zeros(6, 3)
        elif "mine" in self.__dict__:
            self.mine[index].copy_(x)
            self.mine += 1
        st.add(self.x[index], 1, out=x)
        return x


def double(samples: list[Any]) -> Any:
    batch = default_collate(samples)
    batch.mul_(2)
    (block,) = allocate_parts([((3,), np.dtype(np.float32))])
    st.from_numpy(block).fill_(1)
    return batch


def notices(dataset: Any, epochs: int = 1, **arguments: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with DataLoader(dataset, 2, **{"num_workers": 1, **arguments}) as loader:
            for _ in range(epochs):
                for _ in loader:
                    continue
    # Python 3.12 and newer warn of each fork of a process with threads.
    return [warning for warning in caught if "multi-threaded" not in str(warning.message)]


def line_of(notice: warnings.WarningMessage) -> str:
    return linecache.getline(notice.filename, notice.lineno).strip()


@pytest.mark.parametrize("method", METHODS)
def test_the_first_write_is_warned_of_with_its_line_and_clone(method: str) -> None:
    (notice,) = notices(InList(), 3, multiprocessing_context=method)
    assert line_of(notice) == 'self.items[index]["x"].mul_(2)'
    text = str(notice.message)
    assert f"{notice.filename}, line {notice.lineno}, in __getitem__" in text
    assert "worker 0" in text
    assert "InList" in text
    assert "clone()" in text
    assert "write_warning=False" in text
    assert notice.category is UserWarning


@pytest.mark.parametrize("write", WRITES)
def test_each_way_to_write_is_seen(write: Any) -> None:
    (notice,) = notices(Writer(write))
    assert (notice.filename, notice.lineno) == (__file__, write.__code__.co_firstlineno)
    assert "in <lambda>: lambda x: " in str(notice.message)


def closure() -> Any:
    x = st.ones(3)

    class InClosure(Writer):
        def __init__(self) -> None:
            pass

        def __getitem__(self, index: int) -> Any:
            x.sub_(1)
            return index

    return InClosure()


@pytest.mark.parametrize(
    "make",
    [
        lambda: ConcatDataset([Subset(Writer(), [1, 2]), Writer()]),
        InStream,
        InGlobal,
        closure,
        lambda: Subset(Subset(InList(), [0, 1]), [1]),
    ],
)
def test_it_is_seen_wherever_the_data_set_has_the_tensor(make: Any) -> None:
    assert len(notices(make(), multiprocessing_context="fork")) == 1


def collate_globally(samples: list[Any]) -> Any:
    SHARED.add_(1)
    return samples


def start_globally(worker: int) -> None:
    SHARED.add_(1)


def test_a_write_of_other_functions_of_the_loader_is_seen() -> None:
    plain = list(range(6))
    for arguments in ({"collate_fn": collate_globally}, {"worker_init_fn": start_globally}):
        (notice,) = notices(plain, multiprocessing_context="fork", **arguments)
        assert line_of(notice) == "SHARED.add_(1)"


@pytest.mark.parametrize(
    ("method", "persistent"), [("fork", False), ("fork", True), ("spawn", False)]
)
def test_several_workers_and_epochs_warn_once(method: str, persistent: bool) -> None:
    cache = Cache()
    seen = notices(
        cache, 3, num_workers=2, multiprocessing_context=method, persistent_workers=persistent
    )
    assert len(seen) == 1
    assert cache.x[:, 0].tolist() == list(range(6))  # the writes were done, for everybody


def test_an_argument_silences_it() -> None:
    assert not notices(Cache(), 2, write_warning=False)


@pytest.mark.parametrize("method", METHODS)
def test_clones_batches_and_the_workers_own_tensors_are_not_warned_of(method: str) -> None:
    for collate in (None, double):
        assert not notices(OfItsOwn(), 2, collate_fn=collate, multiprocessing_context=method)


def test_without_workers_nothing_is_warned_of() -> None:
    assert not notices(Writer(), num_workers=0)


def test_a_warning_that_is_an_error_loses_no_batch() -> None:
    with warnings.catch_warnings(), DataLoader(InList(), 2, num_workers=1) as loader:
        warnings.simplefilter("error")
        batches = iter(loader)
        with pytest.raises(UserWarning, match="clone"):
            next(batches)
        assert [x for batch in batches for x in batch.tolist()] == list(range(6))


def test_one_of_each_kind_is_shown() -> None:
    shown: set[str] = set()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for kind in ("a", "b", "a"):
            show_once(WorkerWarning(kind, f"text {kind}"), shown)
    assert [str(notice.message) for notice in caught] == ["text a", "text b"]
    assert caught[0].filename == __file__


def test_a_loader_with_warnings_shown_can_be_pickled() -> None:
    loader = DataLoader(Writer(), 2, write_warning=False)
    assert pickle.loads(pickle.dumps(loader)).write_warning is False
