"""Batches on a device: the right values in any order of the streams, and one copy ahead."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from fake_cuda import FakeCuda, installed

import shmtensor as st
from dataloaders import DataLoader, Dataset, DevicePrefetcher

BATCH = 16
N = 12


class Images(Dataset[Any]):
    def __len__(self) -> int:
        return N * BATCH

    def __getitem__(self, index: int) -> Any:
        return {"x": np.full((80, 100), index, np.float32), "name": str(index)}


@dataclass
class Pair:
    x: Any
    note: str


@pytest.fixture(params=["late", "early"])
def cuda(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    with installed(monkeypatch, eager=request.param == "early") as fake:
        yield fake


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("pin_memory", [False, True])
def test_values_are_right_whenever_copies_run(
    cuda: FakeCuda, workers: int, pin_memory: bool
) -> None:
    loader = DataLoader(Images(), BATCH, num_workers=workers, pin_memory=pin_memory)
    feed = DevicePrefetcher(loader)
    assert len(feed) == N
    for _ in range(2):
        uses = []
        for batch in feed:
            uses.append(cuda.use(batch["x"]))
            assert batch["name"][0] == str((len(uses) - 1) * BATCH)
            del batch  # its memory is free again, while its use may still be queued
        cuda.current.synchronize()
        expected = np.arange(N * BATCH).reshape(N, BATCH)
        assert [use[0][:, 3, 4].tolist() for use in uses] == expected.tolist()
        assert all((use[0] == use[0][:, :1, :1]).all() for use in uses)
    loader.close()
    assert not cuda.pinned


def test_one_batch_is_ahead_and_its_copy_is_not_waited_for(monkeypatch: Any) -> None:
    consumed = []

    def batches() -> Iterator[Any]:
        for n in range(4):
            consumed.append(n)
            yield np.full((2, 3), n)

    with installed(monkeypatch) as cuda:
        ahead = []
        for n, batch in enumerate(DevicePrefetcher(batches())):
            ahead.append(len(consumed) - n)
            assert len(cuda.copied) == len(consumed)
            cuda.use(batch)
            if n == 0:
                assert (batch.memory == 77).all()  # only the stream waits
                cuda.current.synchronize()
                assert (batch.memory == 0).all()
        assert ahead == [2, 2, 2, 1]


def test_structures_layouts_and_other_objects(cuda: FakeCuda) -> None:
    pixels = np.arange(2 * 4 * 5 * 3).reshape(2, 4, 5, 3)
    batch = {
        "last": st.from_numpy(pixels.transpose(0, 3, 1, 2)),
        "gaps": np.arange(20).reshape(4, 5)[:, ::2],
        "pair": Pair(np.arange(3), "as it is"),
        "list": [st.tensor(2.0), ("a", None)],
        "text": np.array(["x"]),
    }
    (result,) = DevicePrefetcher([batch])
    cuda.current.synchronize()
    assert result["last"].shape == (2, 3, 4, 5)
    assert (result["last"].memory == pixels.transpose(0, 3, 1, 2)).all()
    assert result["last"].memory.strides == pixels.transpose(0, 3, 1, 2).strides
    assert result["gaps"].memory.tolist() == np.arange(20).reshape(4, 5)[:, ::2].tolist()
    assert result["pair"].x.memory.tolist() == [0, 1, 2]
    assert result["pair"].note == "as it is"
    assert result["list"][0].memory.tolist() == 2.0
    assert result["list"][1] == ["a", None]
    assert result["text"] is batch["text"]


def test_its_state_is_that_of_the_batches_it_has_given(cuda: FakeCuda) -> None:
    loader = DataLoader(Images(), BATCH, shuffle=True, generator=st.Generator().manual_seed(1))
    feed = DevicePrefetcher(loader)
    names = [batch["name"] for batch in loader]
    loader.generator.manual_seed(1)
    for n, batch in enumerate(feed):
        assert batch["name"] == names[n]
        if n == 4:
            break
    state = feed.state_dict()
    later = DataLoader(Images(), BATCH, shuffle=True, generator=st.Generator())
    later.load_state_dict(state)
    assert [batch["name"] for batch in DevicePrefetcher(later)] == names[5:]
    assert DevicePrefetcher([]).state_dict() is None


def test_an_error_comes_after_the_batches_before_it(cuda: FakeCuda) -> None:
    def batches() -> Iterator[Any]:
        yield np.zeros(2)
        yield np.ones(2)
        raise ValueError("broken")

    uses = []
    with pytest.raises(ValueError, match="broken"):
        for batch in DevicePrefetcher(batches()):
            uses.append(cuda.use(batch))
    cuda.current.synchronize()
    assert [use[0].tolist() for use in uses] == [[0, 0], [1, 1]]


def test_without_cupy_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(RuntimeError, match=r"shmtensor\[cuda12\]"):
        DevicePrefetcher([])


def test_on_a_gpu() -> None:
    """The real driver; skipped where there is none."""
    cupy = pytest.importorskip("cupy")
    if not cupy.cuda.is_available():
        pytest.skip("CuPy finds no device")
    loader = DataLoader(Images(), BATCH, num_workers=2, pin_memory=True)
    for _ in range(3):
        total = cupy.zeros((), cupy.float64)
        for batch in DevicePrefetcher(loader):
            total += batch["x"].sum(dtype=cupy.float64)
        assert float(total) == 8000 * sum(range(N * BATCH))
    assert loader._pool is not None
    assert loader._pool.blocks
    loader.close()
