"""Large arrays of samples are copied to the batch's block as soon as each sample exists."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native
from shmtensor.dataloaders import (
    DataLoader,
    Dataset,
    IterableDataset,
    default_collate,
    default_collate_fn_map,
)
from shmtensor.dataloaders.loader import fetch
from shmtensor.dataloaders.loader.batch_block import BlockAllocator
from shmtensor.dataloaders.loader.fetch import SampleRows
from shmtensor.errors import OutOfSharedMemory

SHAPE = (3, 64, 64)


def image(i: int, shape: tuple[int, ...] = SHAPE, dtype: Any = np.float32) -> Any:
    return np.arange(i, i + np.prod(shape)).reshape(shape).astype(dtype)


def turned(i: int) -> Any:
    return image(i, (64, 64, 3)).transpose(2, 0, 1)  # a view of an array that only it refers to


class Made(Dataset[Any]):
    """Samples of a function."""

    def __init__(self, make: Callable[[int], Any], n: int = 10) -> None:
        self.make, self.n = make, n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        return self.make(index)


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        for i in range(10):
            yield image(i), i


KEPT = [(image(i), i) for i in range(10)]
KINDS: dict[str, Callable[[int], Any]] = {
    "tuple": lambda i: (image(i), i),
    "list": lambda i: [i, image(i), image(-i)],
    "dict": lambda i: {"y": i, "x": image(i)} if i % 2 else {"x": image(i), "y": i},
    "array": image,
    "nested": lambda i: (image(i), {"a": image(2 * i), "b": [i, float(i)]}, "text", image(3 * i)),
    "transposed": lambda i: (turned(i), i),
    "reversed": lambda i: (image(i)[:, ::-1], i),
    "other dtype": lambda i: (image(i, dtype=np.float32 if i % 3 else np.float64), i),
    "last dtype": lambda i: (image(i, dtype=np.float64 if i % 3 == 2 else np.float32), i),
    "byte order": lambda i: (image(i, dtype=">f4" if i % 4 else "<f4"), i),
    "view": lambda i: (KEPT[i][0][:], i),
    "kept": lambda i: KEPT[i],
    "sometimes kept": lambda i: KEPT[i] if i % 2 else (image(i), i),
    "small": lambda i: (image(i, (4,)), i),
    "bool": lambda i: (image(i) > 50, np.float32(i)),
    "empty": lambda i: (image(i, (0, 3)), image(i)),
}


def lists(batch: Any) -> Any:
    if isinstance(batch, st.Tensor):
        return batch.dtype, batch.shape, batch.tolist()
    if isinstance(batch, dict):
        return {key: lists(x) for key, x in batch.items()}
    return [lists(x) for x in batch] if isinstance(batch, (list, tuple)) else batch


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers", [0, 1])
def test_batches_are_those_of_default_collate(kind: str, workers: int) -> None:
    make = KINDS[kind]
    loader = DataLoader(Made(make), 4, num_workers=workers)
    expected = [default_collate([make(i) for i in range(k, min(k + 4, 10))]) for k in (0, 4, 8)]
    assert [lists(batch) for batch in loader] == [lists(batch) for batch in expected]


@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_of_a_stream(drop_last: bool) -> None:
    sizes = (4, 4) if drop_last else (4, 4, 2)
    for k, (x, y) in enumerate(DataLoader(Stream(), 4, drop_last=drop_last)):
        assert y.tolist() == list(range(4 * k, 4 * k + sizes[k]))
        assert (x.numpy() == np.stack([image(i) for i in y.tolist()])).all()


class LargeStream(IterableDataset[Any]):
    """A few samples of 4 MB."""

    def __iter__(self) -> Iterator[Any]:
        for i in range(3):
            yield np.full(1 << 20, i, np.float32), i


@pytest.mark.parametrize("workers", [0, 1])
def test_a_stream_that_is_shorter_than_one_batch(workers: int) -> None:
    """No block for ten million samples (40 TB) is allocated."""
    for batch_size in (10**7, 4):
        with DataLoader(LargeStream(), batch_size, num_workers=workers) as loader:
            ((x, y),) = loader
        assert x.shape == (3, 1 << 20)
        assert x[:, 0].tolist() == y.tolist() == [0, 1, 2]


def test_a_stream_is_copied_early_after_a_full_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    begin = SampleRows.begin
    monkeypatch.setattr(
        SampleRows, "begin", lambda self, x, n: (begun.append(n), begin(self, x, n))[1]
    )
    assert [len(y) for _, y in DataLoader(Stream(), 4)] == [4, 4, 2]
    assert begun == [4, 4]  # of the second and the third


def test_a_block_that_does_not_fit_is_left_to_collation(monkeypatch: pytest.MonkeyPatch) -> None:
    allocate, sizes = BlockAllocator.allocate, []

    def fail_once(self: Any, nbytes: int) -> Any:
        sizes.append(nbytes)
        if len(sizes) == 1:
            raise OutOfSharedMemory("no memory")
        return allocate(self, nbytes)

    monkeypatch.setattr(BlockAllocator, "allocate", fail_once)
    x, y = next(iter(DataLoader(Made(KINDS["tuple"]), 4)))
    assert sizes == [sizes[0]] * 2
    assert y.tolist() == [0, 1, 2, 3]
    assert (x.numpy() == np.stack([image(i) for i in range(4)])).all()


def test_references_are_counted_or_nothing_is_copied_early(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fetch.counts_references() is (fetch.TRIES > 0)
    if sys.version_info < (3, 14):
        assert fetch.counts_references()
    for always in (lambda sample, *a: sample, lambda sample, *a: [sample[0]]):
        monkeypatch.setattr(fetch, "copy_to_rows", always)
        assert not fetch.counts_references()


def test_a_new_array_is_copied_at_once_and_freed() -> None:
    part = np.zeros((2, *SHAPE), np.float32)
    sample = (image(1), 5)
    x, y = native.copy_to_rows(sample, [(0, part)], 1)
    assert x.base is part
    assert y == 5
    assert (part[1] == sample[0]).all()
    assert not part[0].any()


def test_an_array_that_something_refers_to_stays() -> None:
    part = np.zeros((2, *SHAPE), np.float32)
    kept = image(1)
    for sample in ((kept, 5), (kept[:], 5), {0: kept}, (image(1, (2, 2)), 5), (None, 5), 7):
        assert native.copy_to_rows(sample, [(0, part)], 0) is sample
    sample = (image(1), 5)
    samples = [sample]  # the data set may change it later
    assert native.copy_to_rows(sample, [(0, part)], 0) is sample
    assert samples
    assert not part.any()


def test_wrong_fields_are_errors() -> None:
    part = np.zeros((2, *SHAPE), np.float32)
    with pytest.raises(ValueError, match=r"copy_to_rows: no row 2 in a contiguous array: \(2, 3"):
        native.copy_to_rows((1,), [(0, part)], 2)
    with pytest.raises(TypeError, match="copy_to_rows: fields is not a list: tuple"):
        native.copy_to_rows((1,), ((0, part),), 0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="copy_to_rows: a field is not a pair: int"):
        native.copy_to_rows((1,), [0], 0)  # type: ignore[list-item]


def test_an_array_that_is_written_over_is_collated_last() -> None:
    """As in PyTorch: all samples are the one array, as its last sample left it."""
    buffer = np.zeros(SHAPE, np.float32)

    def overwrite(i: int) -> Any:
        buffer[...] = i
        return buffer, i

    (x, _), *_ = DataLoader(Made(overwrite), 4)
    assert x[:, 0, 0, 0].tolist() == [3, 3, 3, 3]


def test_a_batch_has_one_block() -> None:
    batches = iter(DataLoader(Made(KINDS["list"]), 4))
    next(batches)
    before = st.memory.statistics().live_blocks
    batch = next(batches)
    assert st.memory.statistics().live_blocks == before + 1
    del batch


def test_an_error_of_a_sample_drops_the_block() -> None:
    def fail(i: int) -> Any:
        return (image(i), 1 // (2 - i))

    before = st.memory.statistics().live_blocks
    with pytest.raises(ZeroDivisionError):
        list(DataLoader(Made(fail), 4))
    assert st.memory.statistics().live_blocks == before


def test_shapes_that_differ_are_the_error_of_collate() -> None:
    loader = DataLoader(Made(lambda i: (image(i, (3, 64, 64 + i)), i)), 4)
    with pytest.raises(RuntimeError, match=r"shapes differ .* at \[0\]: \(3, 64, 64\) at sample 0"):
        list(loader)


def test_a_data_set_that_collates_does_not_get_the_block() -> None:
    def nested(i: int) -> Any:
        inner = default_collate([image(k, (4, 16, 16)) for k in range(4)]).numpy()
        return inner + i, i

    (x, _), *_ = DataLoader(Made(nested), 4)
    assert (x.numpy() == np.stack([nested(i)[0] for i in range(4)])).all()


def test_a_changed_map_of_functions_is_not_called_early(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def count(arrays: Any, *, collate_fn_map: Any) -> int:
        sizes.append(len(arrays))
        return len(arrays)

    monkeypatch.setitem(default_collate_fn_map, np.ndarray, count)
    assert [x for x, _ in DataLoader(Made(KINDS["tuple"]), 5)] == [5, 5]
    assert sizes == [5, 5]


def test_a_custom_collate_fn_gets_the_samples_themselves() -> None:
    seen: list[Any] = []
    loader = DataLoader(Made(KINDS["tuple"]), 4, collate_fn=seen.extend)
    list(loader)
    assert [type(sample) for sample in seen] == [tuple] * 10
    assert all(x.flags.owndata or x.base.flags.owndata for x, _ in seen)
