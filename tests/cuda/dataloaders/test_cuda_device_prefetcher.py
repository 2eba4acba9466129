"""Batches on a GPU: the right values in any order of the streams, and one copy ahead."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.dataloaders import DataLoader, Dataset, DevicePrefetcher, TensorDataset

BATCH = 16
N = 6


class Images(Dataset[Any]):
    def __len__(self) -> int:
        return N * BATCH

    def __getitem__(self, index: int) -> Any:
        return {"x": np.full((80, 100), index, np.float32), "name": str(index)}


@dataclass
class Pair:
    x: Any
    note: str


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("pin_memory", [False, True])
def test_values_are_right_whenever_copies_run(cp: Any, workers: int, pin_memory: bool) -> None:
    with DataLoader(
        Images(), BATCH, num_workers=workers, pin_memory=pin_memory, pin_memory_device="cuda"
    ) as loader:
        feed = DevicePrefetcher(loader)
        assert len(feed) == N
        for _ in range(2):
            uses = []
            for batch in feed:
                assert batch["x"].device == st.device("cuda:0")
                uses.append(batch["x"] * 1)
                assert batch["name"][0] == str((len(uses) - 1) * BATCH)
                del batch  # its memory is free again, while its use may still be queued
            expected = np.arange(N * BATCH).reshape(N, BATCH)
            values = [use.cpu().numpy() for use in uses]
            assert [use[:, 3, 4].tolist() for use in values] == expected.tolist()
            assert all((use == use[:, :1, :1]).all() for use in values)
        if pin_memory:
            assert loader._pool is not None
            assert loader._pool.blocks
    del uses, feed


def test_on_the_callers_stream_and_on_another_device(cp: Any, last_device: str) -> None:
    st.zeros(1, device=last_device)  # the allocator is there
    stream = st.cuda.Stream(last_device)
    number = stream.device.index
    with st.cuda.stream(stream):
        totals = [
            batch["x"].sum(dim=(1, 2))
            for batch in DevicePrefetcher(DataLoader(Images(), BATCH), number)
        ]
    assert {total.device for total in totals} == {st.device(last_device)}
    stream.synchronize()
    got = [x for total in totals for x in total.tolist()]
    assert got == [8000.0 * i for i in range(N * BATCH)]
    del totals, stream
    gc.collect()


def test_one_batch_is_ahead_and_its_copy_is_not_waited_for(cp: Any, late_work: Any) -> None:
    consumed = []

    def batches() -> Iterator[Any]:
        for n in range(4):
            consumed.append(n)
            yield np.full((2, 3), n)

    ahead = []
    for n, batch in enumerate(DevicePrefetcher(batches())):
        ahead.append(len(consumed) - n)
        assert batch.tolist() == [[n] * 3] * 2
    assert ahead == [2, 2, 2, 1]


def test_structures_layouts_and_other_objects(cp: Any) -> None:
    pixels = np.arange(2 * 4 * 5 * 3).reshape(2, 4, 5, 3)
    there = st.ones(2, device="cuda:0")
    batch = {
        "last": st.from_numpy(pixels.transpose(0, 3, 1, 2)),
        "gaps": np.arange(20).reshape(4, 5)[:, ::2],
        "pair": Pair(np.arange(3), "as it is"),
        "list": [st.tensor(2.0), ("a", None)],
        "text": np.array(["x"]),
        "there": there,
    }
    (result,) = DevicePrefetcher([batch])
    assert result["last"].shape == (2, 3, 4, 5)
    assert (result["last"].cpu().numpy() == pixels.transpose(0, 3, 1, 2)).all()
    assert result["last"].array.strides == pixels.transpose(0, 3, 1, 2).strides
    assert result["gaps"].tolist() == np.arange(20).reshape(4, 5)[:, ::2].tolist()
    assert result["pair"].x.tolist() == [0, 1, 2]
    assert result["pair"].note == "as it is"
    assert result["list"][0].tolist() == 2.0
    assert result["list"][1] == ["a", None]
    assert result["text"] is batch["text"]
    assert result["there"].data_ptr() == there.data_ptr()
    (result,) = DevicePrefetcher([st.ones(2, dtype=st.bfloat16)])
    assert (result.dtype, result.tolist()) == (st.bfloat16, [1, 1])


def test_its_state_is_that_of_the_batches_it_has_given(cp: Any) -> None:
    loader = DataLoader(Images(), BATCH, shuffle=True, generator=st.Generator().manual_seed(1))
    feed = DevicePrefetcher(loader)
    names = [batch["name"] for batch in loader]
    loader.generator.manual_seed(1)  # type: ignore[union-attr]
    for n, batch in enumerate(feed):
        assert batch["name"] == names[n]
        if n == 3:
            break
    state = feed.state_dict()
    later = DataLoader(Images(), BATCH, shuffle=True, generator=st.Generator())
    later.load_state_dict(state)
    assert [batch["name"] for batch in DevicePrefetcher(later)] == names[4:]
    assert DevicePrefetcher([]).state_dict() is None


def test_an_error_comes_after_the_batches_before_it(cp: Any) -> None:
    def batches() -> Iterator[Any]:
        yield np.zeros(2)
        yield np.ones(2)
        raise ValueError("broken")

    uses = []
    with pytest.raises(ValueError, match="broken"):
        for batch in DevicePrefetcher(batches()):
            uses.append(batch.tolist())
    assert uses == [[0, 0], [1, 1]]


def test_pinned_batches_copied_by_to_are_right(cp: Any) -> None:
    """`to(non_blocking=True)` of a block that the next batch is written to."""
    with DataLoader(Images(), BATCH, num_workers=2, pin_memory=True) as loader:
        for _ in range(2):
            uses = []
            for batch in loader:
                uses.append(batch["x"].to("cuda", non_blocking=True))
                del batch
            values = np.concatenate([use.cpu().numpy() for use in uses])
            assert (values == np.arange(N * BATCH).reshape(-1, 1, 1)).all()
    back = uses[0].to("cpu", non_blocking=True)
    assert (back.numpy() == np.arange(BATCH).reshape(-1, 1, 1)).all()
    del uses


class OnGpu(Dataset[Any]):
    def __init__(self) -> None:
        self.rows = st.arange(12.0).reshape(6, 2).to("cuda")

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        return self.rows[index], index


@pytest.mark.parametrize("device", ["cuda:0", "cuda:1"])
def test_samples_on_a_gpu_are_stacked_there(cp: Any, device: str, last_device: str) -> None:
    if device > last_device:
        pytest.skip(f"the last CUDA device is {last_device}")
    dataset = OnGpu()
    dataset.rows = dataset.rows.to(device)
    expected = np.arange(12.0).reshape(6, 2)
    for data in (dataset, TensorDataset(dataset.rows, st.arange(6))):
        batches = list(DataLoader(data, 4))
        assert {x.device for x, _ in batches} == {st.device(device)}
        assert (np.concatenate([x.cpu().numpy() for x, _ in batches]) == expected).all()
        assert [i for _, index in batches for i in index.tolist()] == list(range(6))


def test_forked_workers_of_data_on_a_gpu_say_what_to_do(cp: Any) -> None:
    with (
        DataLoader(OnGpu(), 2, num_workers=1, multiprocessing_context="fork") as loader,
        pytest.raises(RuntimeError, match="'spawn' or 'forkserver'"),
    ):
        list(loader)
