"""The history is a table by epoch, and survives a checkpoint."""

from __future__ import annotations

import time
from typing import Any

import pytest

from shmtensor.trainer import Epoch, History, TrainerStatistics

from .test_trainer import make_data, make_trainer


def make_epoch(number: int) -> Epoch:
    return Epoch(number, 1.0 / number, 0.5, None, None, lr=0.1, samples=100, seconds=4.0)


def test_columns_and_length() -> None:
    history = History([make_epoch(1), make_epoch(2)])
    assert len(history) == 2
    assert history["loss"] == [1.0, 0.5]
    assert history["epoch"] == [1, 2]
    assert history.epochs[0].samples_per_second == 25.0


def test_state_is_plain_data() -> None:
    history, other = History([make_epoch(3)]), History()
    other.load_state_dict(history.state_dict())
    assert other == history


def test_samples_per_second_of_nothing_is_zero() -> None:
    assert TrainerStatistics(0, 0, 0.0, 0).samples_per_second == 0.0
    assert TrainerStatistics(2, 10, 5.0, 0).samples_per_second == 2.0


@pytest.mark.parametrize("nprocs", [1, 2])
def test_waits_are_parts_of_the_seconds_of_training(nprocs: int) -> None:
    class Slow:
        def __iter__(self) -> Any:
            for batch in make_data():
                time.sleep(0.05)
                yield batch

    trainer = make_trainer(nprocs)
    trainer.fit(make_data(), 1, eval=Slow())
    statistics = trainer.statistics()
    assert 0 < statistics.seconds_of_data + statistics.seconds_waited < statistics.seconds
    assert "100% waits" not in str(statistics)
