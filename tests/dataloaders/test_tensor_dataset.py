"""TensorDataset: columns gathered in one call."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor.dataloaders import TensorDataset, default_collate
from shmtensor.dataloaders.tensor_dataset import Rows


def columns() -> tuple[st.Tensor, st.Tensor]:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    return st.as_tensor(x), st.as_tensor(np.array([5, 6, 7, 8]))


def test_a_sample_is_a_row_of_each_column() -> None:
    dataset = TensorDataset(*columns())
    x, y = dataset[2]
    assert x.tolist() == [6, 7, 8]
    assert y.item() == 7
    assert len(dataset) == 4


def test_a_batch_is_gathered_at_once_into_one_block() -> None:
    rows = TensorDataset(*columns()).__getitems__([3, 0, -1])
    assert isinstance(rows, Rows)
    x, y = default_collate(rows)
    assert x.tolist() == [[9, 10, 11], [0, 1, 2], [9, 10, 11]]
    assert y.tolist() == [8, 5, 8]
    assert x.dtype == np.float32
    assert y.dtype == np.int64
    assert x.numpy().base is y.numpy().base


def test_gathered_rows_are_a_sequence_of_samples() -> None:
    rows = TensorDataset(*columns()).__getitems__([1, 2])
    assert len(rows) == 2
    assert [y.item() for _, y in rows] == [6, 7]
    assert rows[-1][1].item() == 7
    assert [x.tolist() for x, _ in rows[:1]] == [[3, 4, 5]]
    with pytest.raises(IndexError, match="2 of 2 samples"):
        rows[2]


@pytest.mark.parametrize("index", [4, -5])
def test_an_index_out_of_range_is_refused(index: int) -> None:
    with pytest.raises(IndexError, match=f"index is out of range: {index} of 4 samples"):
        TensorDataset(*columns()).__getitems__([0, index])


def test_columns_of_different_lengths_are_refused() -> None:
    x, y = columns()
    with pytest.raises(
        ValueError, match=r"first dimensions differ: \(4, 3\) and \(2,\) \(tensor 1\)"
    ):
        TensorDataset(x, y[:2])
    with pytest.raises(ValueError, match="at least one tensor"):
        TensorDataset()


def test_arrays_are_moved_into_shared_memory_and_tensors_are_unchanged() -> None:
    foreign, shared = st.from_numpy(np.zeros((3, 2))), st.zeros(3)
    copy, left, same = TensorDataset(np.zeros((3, 2)), foreign, shared).tensors
    assert copy.is_shared()
    assert left is foreign
    assert not left.is_shared()
    assert same is shared
    assert same.is_shared()
