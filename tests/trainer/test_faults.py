"""A rank killed at every step of training: named within a second, and the model's weights are
consistent or reported as torn.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import numpy as np
import pytest

from shmtensor import native
from shmtensor.errors import PeerLostError, TornWeights
from shmtensor.trainer import Trainer
from shmtensor.trainer import sharded_optimizer as shard
from shmtensor.trainer.rank_step import Replica

from .test_trainer import make_data, make_trainer, weights

VICTIM, AT = 1, 3  # the rank and the step that it dies in


def die(when: str) -> None:
    """Kills the victim when it reaches this point for the AT-th time."""
    if os.environ.get("VICTIM_PLACE") == when and native.describe(*native.row())[0].startswith(
        "rank 1"
    ):
        counts[when] = counts.get(when, 0) + 1
        if counts[when] == AT:
            os.kill(os.getpid(), signal.SIGKILL)


counts: dict[str, int] = {}

PLACES = [
    "before forward",
    "after backward",
    "between",
    "before update",
    "mid update",
    "after update",
    "after step",
]
TORN = {"mid update"}


class Deadly:
    """Wraps the methods of a rank, only in the forked child."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
        monkeypatch.setenv("VICTIM_PLACE", place)
        train, wait_for_ranks, update = Replica.train, Replica.wait_for_ranks, shard.Shards.update
        complete, reduce = shard.Shards.complete_gradients, shard.Shards.reduce

        def dying_train(self: Any, batch: Any) -> None:
            die("before forward")
            train(self, batch)
            die("after step")

        def dying_complete(self: Any) -> None:
            complete(self)
            die("after backward")

        def dying_reduce(self: Any, rank: int) -> None:
            die("between")
            reduce(self, rank)
            die("before update")

        def dying_update(self: Any, rank: int) -> None:
            if os.environ["VICTIM_PLACE"] == "mid update":
                for i, before in enumerate(self.initial_steps):
                    begin, end = self.range(i, rank)
                    middle = (begin + end) // 2
                    self.optimizer.step_range(i, begin, middle, before + self.n_steps + 1)
                    die("mid update")
            update(self, rank)
            die("after update")

        monkeypatch.setattr(Replica, "train", dying_train)
        monkeypatch.setattr(Replica, "wait_for_ranks", wait_for_ranks)
        monkeypatch.setattr(shard.Shards, "complete_gradients", dying_complete)
        monkeypatch.setattr(shard.Shards, "reduce", dying_reduce)
        monkeypatch.setattr(shard.Shards, "update", dying_update)


def states_of(trainer: Trainer, steps: int) -> list[Any]:
    """The weights after each of the first steps of an undisturbed run."""
    data = make_data()
    states = [weights(trainer)]
    for n in range(1, steps + 1):
        fresh = make_trainer(2)
        fresh.fit(data[:n], epochs=1)
        states.append(weights(fresh))
    return states


cache: list[Any] = []


def undisturbed() -> list[Any]:
    if not cache:
        cache.extend(states_of(make_trainer(2), 4))
    return cache


def is_equal(x: list[Any], y: list[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(x, y, strict=True))


@pytest.mark.parametrize("place", PLACES)
def test_rank_killed_in_a_step(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    states = undisturbed()
    Deadly(monkeypatch, place)
    trainer = make_trainer(2, start_method="fork")
    begin = time.monotonic()
    with pytest.raises(PeerLostError, match=r"rank 1 \(pid \d+\) was killed by SIGKILL") as caught:
        trainer.fit(make_data(), epochs=1)
    assert time.monotonic() - begin < 10
    assert (caught.value.name, caught.value.exitcode) == ("rank 1", -signal.SIGKILL)
    text = str(caught.value)
    # The weights are as the message says: complete at the step, or those of the snapshot.
    assert is_equal(weights(trainer), states[trainer.step]), text
    assert f"step {trainer.step}" in text
    if place in TORN:
        assert "snapshot" in text


def test_without_snapshots_torn_weights_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    Deadly(monkeypatch, "mid update")
    trainer = make_trainer(2, start_method="fork", snapshots=False)
    with pytest.raises(
        TornWeights, match=r"rank 1 .*torn between steps 2 and 3.*load a checkpoint"
    ):
        trainer.fit(make_data(), epochs=1)


def test_training_can_go_on_after_a_death(monkeypatch: pytest.MonkeyPatch) -> None:
    uninterrupted = make_trainer(2)
    uninterrupted.fit(make_data(), epochs=2)
    with monkeypatch.context() as patch:
        Deadly(patch, "mid update")
        trainer = make_trainer(2, start_method="fork")
        with pytest.raises(PeerLostError):
            trainer.fit(make_data(), epochs=2)
    assert trainer.step == 0
    trainer.fit(make_data(), epochs=2)
    assert is_equal(weights(trainer), weights(uninterrupted))


@pytest.mark.parametrize("point", ["published", "arrived", "met"])
@pytest.mark.parametrize("nth", [2, 3, 4, 5])
def test_rank_killed_in_a_barrier(point: str, nth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    states = undisturbed()
    original = Replica.train

    def arming(self: Any, batch: Any) -> None:
        if self.rank == 1 and not counts.get("armed"):
            counts["armed"] = 1
            native.arm_fault(f"group.{point}:{nth}")
        original(self, batch)

    monkeypatch.setattr(Replica, "train", arming)
    trainer = make_trainer(2, start_method="fork")
    with pytest.raises(PeerLostError, match="rank 1"):
        trainer.fit(make_data(), epochs=1)
    assert is_equal(weights(trainer), states[trainer.step])
