"""Arguments that a loader refuses, as PyTorch's does."""

from __future__ import annotations

import multiprocessing
from typing import Any

import pytest

import shmtensor as st
from shmtensor.dataloaders import DataLoader


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"multiprocessing_context": "fork"}, "multiprocessing_context needs workers: 'fork'"),
        ({"multiprocessing_context": "tea", "num_workers": 1}, "not a start method: 'tea'"),
        ({"restart_workers": -1, "num_workers": 1}, "restart_workers is a number of workers: -1"),
        ({"restart_workers": 1}, "restart_workers is a number of workers: 1 with num_workers=0"),
        ({"stall_warning": 0}, "stall_warning is not a number of seconds: 0"),
        ({"snapshot_every_n_steps": 0}, "snapshot_every_n_steps is not positive: 0"),
        ({"num_workers": -1}, "num_workers is negative: -1"),
        ({"timeout": -1}, "timeout is negative: -1"),
        ({"prefetch_factor": 2}, "prefetch_factor needs workers"),
        ({"prefetch_factor": 0, "num_workers": 1}, "prefetch_factor is not positive: 0"),
        ({"persistent_workers": True}, "persistent_workers needs workers"),
        ({"sampler": [1], "shuffle": True}, "exclude each other"),
        ({"batch_sampler": [[1]], "batch_size": 2}, "batch_sampler excludes"),
        ({"batch_sampler": [[1]], "drop_last": True}, "batch_sampler excludes"),
        ({"batch_size": None, "drop_last": True}, "drop_last needs batches"),
        ({"batch_size": 0}, "batch_size is not a positive whole number: 0"),
    ],
)
def test_invalid_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataLoader(range(4), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": "2"}, "num_workers is not a whole number: '2'"),
        ({"num_workers": 1.5}, r"num_workers is not a whole number: 1\.5"),
        ({"timeout": "9"}, "timeout is not a number of seconds: '9'"),
        ({"collate_fn": "pad"}, "collate_fn cannot be called: 'pad'"),
        ({"worker_init_fn": 3, "num_workers": 1}, "worker_init_fn cannot be called: 3"),
        ({"sampler": 5}, "sampler is not iterable: 5"),
        (
            {"batch_sampler": 5},
            "batch_sampler is not iterable: 5, it gives indices of samples, a list",
        ),
        ({"generator": 5, "shuffle": True}, "generator is not a Generator: 5"),
    ],
)
def test_arguments_of_another_class_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        DataLoader(range(4), **options)


class WithoutLength:
    def __getitem__(self, i: int) -> int:
        return i


def test_a_data_set_has_samples_and_a_length() -> None:
    for wrong in (None, 5):
        with pytest.raises(TypeError, match=f"is no data set: {wrong}, it needs __getitem__"):
            DataLoader(wrong)  # type: ignore[arg-type]
    for shuffle in (False, True):
        with pytest.raises(TypeError, match="WithoutLength has no __len__"):
            DataLoader(WithoutLength(), shuffle=shuffle)  # type: ignore[arg-type]
    loader: Any = DataLoader(WithoutLength(), sampler=[3, 1])  # type: ignore[arg-type]
    assert [x.item() for x in loader] == [3, 1]


def test_a_context_is_a_name_or_a_context() -> None:
    for context in (
        "spawn",
        multiprocessing.get_context("spawn"),
        st.multiprocessing.get_context("spawn"),
    ):
        loader: Any = DataLoader(range(4), num_workers=1, multiprocessing_context=context)  # type: ignore[arg-type]
        assert loader.multiprocessing_context == "spawn"
    with pytest.raises(TypeError, match="neither a start method nor a context: 3"):
        DataLoader(range(4), num_workers=1, multiprocessing_context=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["dataset", "batch_size", "sampler", "persistent_workers"])
def test_attributes_of_a_loader_cannot_change(name: str) -> None:
    loader: Any = DataLoader(range(4))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"DataLoader: {name} cannot be set once"):
        setattr(loader, name, None)
    loader.collate_fn = list
    assert list(loader) == [[0], [1], [2], [3]]
