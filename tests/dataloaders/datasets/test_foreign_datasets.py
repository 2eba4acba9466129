"""Frames, tables and columns of other libraries as data sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.dataloaders import DataLoader, Subset, random_split
from shmtensor.dataloaders.datasets import TableDataset
from shmtensor.dataloaders.foreign_datasets import ColumnDataset, as_dataset

pandas = pytest.importorskip("pandas")
arrow = pytest.importorskip("pyarrow")

COLUMNS = {"x": [0.5, 1.5, 2.5, 3.5], "y": [0, 1, 2, 3], "name": ["a", "b", "c", None]}


def frame() -> Any:
    return pandas.DataFrame(COLUMNS, index=[7, 5, 3, 1])


def table() -> Any:
    return arrow.table(COLUMNS)


@pytest.mark.parametrize("make", [frame, table])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_rows_of_a_frame_or_table_are_dicts(make: Any, num_workers: int) -> None:
    source = make()
    loader: Any = DataLoader(source, 2, num_workers=num_workers)
    with loader:
        batches = list(loader)
    assert loader.dataset is source
    assert len(loader) == len(batches) == 2
    assert [batch["x"].tolist() for batch in batches] == [[0.5, 1.5], [2.5, 3.5]]
    assert [batch["y"].tolist() for batch in batches] == [[0, 1], [2, 3]]
    assert [batch["name"] for batch in batches] == [["a", "b"], ["c", None]]
    assert batches[0]["x"].dtype == st.float64
    assert batches[0]["y"].dtype == st.int64


def test_the_order_of_a_frame_is_positional_and_may_be_shuffled() -> None:
    generator = st.Generator().manual_seed(1)
    loader: Any = DataLoader(frame(), 4, shuffle=True, generator=generator)
    (batch,) = loader
    assert sorted(batch["y"].tolist()) == [0, 1, 2, 3]
    assert batch["x"].tolist() == [y + 0.5 for y in batch["y"].tolist()]


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_column_is_a_data_set(num_workers: int) -> None:
    for column, expected in (
        (frame()["y"], [0, 1, 2, 3]),
        (table()["y"], [0, 1, 2, 3]),
        (arrow.array([0, 1, 2, 3]), [0, 1, 2, 3]),
        (pandas.Series(["a", "b", "c", "d"]), ["a", "b", "c", "d"]),
    ):
        with DataLoader(column, 4, num_workers=num_workers) as loader:
            (batch,) = loader
        assert (batch if isinstance(batch, list) else batch.tolist()) == expected  # type: ignore[attr-defined]
    assert ColumnDataset(frame()["x"])[1].item() == 1.5
    assert len(ColumnDataset(frame()["x"])) == 4


def test_without_batches_rows_come_one_by_one() -> None:
    rows: Any = list(DataLoader(table(), batch_size=None))
    assert [(row["y"].item(), row["name"]) for row in rows] == [
        (0, "a"), (1, "b"), (2, "c"), (3, None),
    ]  # fmt: skip


def test_parts_of_a_frame_are_parts_of_its_rows() -> None:
    part = Subset(frame(), [3, 0])
    (batch,) = DataLoader(part, 2)  # type: ignore[misc]
    assert batch["y"].tolist() == [3, 0]
    for half in random_split(table(), [2, 2], generator=st.Generator()):
        (batch,) = DataLoader(half, 2)  # type: ignore[misc]
        assert batch["x"].tolist() == [y + 0.5 for y in batch["y"].tolist()]


def test_a_collate_fn_gets_a_list_of_rows() -> None:
    def last_two(samples: Any) -> Any:
        assert type(samples) is list
        samples.sort(key=lambda row: -row["y"].item())
        return [row["name"] for row in samples[:2]]

    assert list(DataLoader(frame(), 4, collate_fn=last_two)) == [[None, "c"]]
    column: Any = DataLoader(frame()["y"], 4, collate_fn=lambda samples: samples + samples)
    assert [x.item() for x in next(iter(column))] == [0, 1, 2, 3] * 2


def test_the_indices_of_a_part_of_a_frame_may_change() -> None:
    part = Subset(Subset(frame(), [3, 2, 1, 0]), [3, 0])
    loader: Any = DataLoader(part, 2)
    batches = iter(loader)
    part.indices = [1, 2]
    assert next(batches)["y"].tolist() == [2, 1]
    with DataLoader(part, 2, num_workers=1) as loader:
        assert [batch["y"].tolist() for batch in loader] == [[2, 1]]
        part.indices = [0, 1]
        assert [batch["y"].tolist() for batch in loader] == [[3, 2]]
    kind, (rows, indices) = as_dataset(part).__reduce__()
    assert kind is Subset
    assert indices == [0, 1]
    assert type(rows.dataset) is TableDataset, "the rows are sent, not the frame"


def test_other_data_sets_stay_as_they_are() -> None:
    for dataset in ([1, 2], np.arange(3), Subset([1, 2], [0])):  # type: ignore[arg-type]
        assert as_dataset(dataset) is dataset


def test_an_iterable_without_getitem_is_a_stream() -> None:
    class Lines:
        def __iter__(self) -> Any:
            return iter(range(5))

    loader: Any = DataLoader(Lines(), 2)  # type: ignore[arg-type]
    assert loader.is_stream
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4]]
    with pytest.raises(ValueError, match="an IterableDataset has its own order"):
        DataLoader(Lines(), shuffle=True)  # type: ignore[arg-type]
