"""A rank killed at every step of training: named within a second, and the model's weights are
consistent or reported as torn.
"""

from __future__ import annotations

import _thread
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shmtensor import multiprocessing, native, nn, optim
from shmtensor.dataloaders import DataLoader
from shmtensor.errors import CollectiveTimeout, PeerLostError, TornWeights
from shmtensor.trainer import EMA, Callback, Schedule, Trainer, ranks
from shmtensor.trainer.gradients import Gradients
from shmtensor.trainer.rank_step import RankStep
from shmtensor.trainer.ranks import Ranks
from shmtensor.trainer.run import Member
from shmtensor.trainer.weights import OneProcess, Sharded
from tests.environment import environment

from .kills import Handed, run
from .test_same_numbers import Scaled
from .test_trainer import make_data, make_model, make_trainer, weights

VICTIM, AT = 1, 3  # the rank and the step that it dies in


def is_victim() -> bool:
    """Whether this process is rank 1."""
    return native.describe(*native.row())[0].startswith("rank 1")


def is_due(when: str) -> bool:
    """Whether the victim dies when it reaches this point now."""
    once = os.environ.get("VICTIM_ONCE")  # a file that exists from the first death on
    return (
        os.environ.get("VICTIM_PLACE") == when
        and is_victim()
        and counts.get(when, 0) == AT - 1
        and not (once and Path(once).exists())
    )


def die(when: str) -> None:
    """Kills the victim when it reaches this point for the AT-th time."""
    if is_due(when):
        if once := os.environ.get("VICTIM_ONCE"):
            Path(once).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if is_victim():
        counts[when] = counts.get(when, 0) + 1


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
TORN = {"before update", "mid update"}  # between the two changes of its word


class Deadly:
    """Wraps the methods of a rank, only in the forked child."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
        monkeypatch.setenv("VICTIM_PLACE", place)
        train, update, complete = RankStep.train, RankStep.update, Gradients.complete
        update_shard = Sharded.update_shard

        def dying_train(self: Any, *arguments: Any) -> None:
            die("before forward")
            train(self, *arguments)
            die("after step")

        def dying_complete(self: Any, is_zero: bool) -> int:
            missing = complete(self, is_zero)
            die("after backward")
            return missing

        def dying_update(self: Any) -> None:
            die("between")
            update(self)

        def dying_update_shard(self: Any, rank: int) -> None:
            die("before update")
            if is_due("mid update"):
                for i, runs in enumerate(self.runs):
                    begin, end = self.ranges[i][rank]
                    self.gradients.reduce(i, begin, end, self.factor)
                    self.optimizer.step_part(i, runs, begin, (begin + end) // 2)
            die("mid update")
            update_shard(self, rank)
            die("after update")

        monkeypatch.setattr(RankStep, "train", dying_train)
        monkeypatch.setattr(RankStep, "update", dying_update)
        monkeypatch.setattr(Gradients, "complete", dying_complete)
        monkeypatch.setattr(Sharded, "update_shard", dying_update_shard)


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
        trainer = make_trainer(2, start_method="fork", snapshots=1000)
        with pytest.raises(PeerLostError):
            trainer.fit(make_data(), epochs=2)
    assert trainer.step == 0
    trainer.fit(make_data(), epochs=2)
    assert is_equal(weights(trainer), weights(uninterrupted))


def half_of_a_model(**options: Any) -> tuple[Trainer, Any]:
    """A trainer whose optimizer lacks the last layer, and a function that adds it."""
    model = make_model()
    adam = optim.Adam(model[0].parameters(), lr=0.01)
    options = {"nprocs": 2, "progress": False, "check_parameters": False, **options}
    trainer = Trainer(model, adam, nn.CrossEntropyLoss(), **options)
    return trainer, lambda: adam.add_param_group({"params": model[3].parameters(), "lr": 0.02})


def test_a_rank_dies_while_a_callback_adds_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next meeting is the one that ends the pass, because the ranks are set up anew."""

    def trained() -> Trainer:
        trainer, add_group = half_of_a_model(start_method="fork")

        def on_step(step: int) -> None:
            if step == AT:
                add_group()

        trainer.fit(make_data(), 2, on_step=on_step, max_restarts=1)
        return trainer

    undisturbed = trained()
    meet = Member.meet

    def dying_meet(self: Any, *arguments: Any) -> int:
        if is_victim() and not (tmp_path / "dead").exists():
            counts["meet"] = counts.get("meet", 0) + 1
            if counts["meet"] == 2 * AT + 1:  # a step has two: the update, and complete weights
                (tmp_path / "dead").touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return meet(self, *arguments)

    monkeypatch.setattr(Member, "meet", dying_meet)
    with pytest.warns(RuntimeWarning, match=r"rank 1 .*SIGKILL(?s:.*)started again, 0 restarts"):
        trainer = trained()
    assert is_equal(weights(trainer), weights(undisturbed))
    assert trainer.history["loss"] == undisturbed.history["loss"]


def test_torn_weights_of_groups_that_the_snapshot_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    Deadly(monkeypatch, "mid update")

    class Adds(Callback):  # at once: it does not wait for complete weights
        def on_step(self, trainer: Any) -> None:
            if trainer.step == AT:
                add_group()

    options = {"start_method": "fork", "snapshots": 100, "callbacks": [Adds()]}
    trainer, add_group = half_of_a_model(**options)
    with pytest.raises(TornWeights, match="the optimizer has changed since the snapshot"):
        trainer.fit(make_data(), 2, max_restarts=1)


@pytest.mark.parametrize("place", ["before forward", "between", "after update"])
def test_figures_of_the_step_of_a_death(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another `fit` goes on after it, with all figures of the epoch so far."""
    uninterrupted = make_trainer(2)
    uninterrupted.fit(make_data(), epochs=1)
    with monkeypatch.context() as patch:
        Deadly(patch, place)
        trainer = make_trainer(2, start_method="fork")
        with pytest.raises(PeerLostError):
            trainer.fit(make_data(), epochs=1)
    trainer.fit(make_data(), epochs=1)
    ours, theirs = trainer.history.epochs[0], uninterrupted.history.epochs[0]
    assert (ours.loss, ours.accuracy) == (theirs.loss, theirs.accuracy)
    assert ours.samples == theirs.samples == 50


@pytest.mark.parametrize("point", ["published", "arrived", "met"])
@pytest.mark.parametrize("nth", [2, 3, 4, 5])
def test_rank_killed_in_a_barrier(point: str, nth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    states = undisturbed()
    original = RankStep.train

    def arming(self: Any, *arguments: Any) -> None:
        if self.rank == 1 and not counts.get("armed"):
            counts["armed"] = 1
            native.arm_fault(f"group.{point}:{nth}")
        original(self, *arguments)

    monkeypatch.setattr(RankStep, "train", arming)
    trainer = make_trainer(2, start_method="fork")
    with pytest.raises(PeerLostError, match="rank 1"):
        trainer.fit(make_data(), epochs=1)
    assert is_equal(weights(trainer), states[trainer.step])


@pytest.mark.parametrize("place", PLACES)
def test_a_rank_is_replaced(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends with the bits of an undisturbed one."""
    uninterrupted = make_trainer(2, dropout=0.3)
    uninterrupted.fit(make_data(), epochs=2, eval=make_data(20))
    monkeypatch.setenv("VICTIM_ONCE", str(tmp_path / "dead"))
    Deadly(monkeypatch, place)
    trainer = make_trainer(2, start_method="fork", dropout=0.3)
    with pytest.warns(RuntimeWarning, match=r"rank 1 .*SIGKILL(?s:.*)started again, 0 restarts"):
        trainer.fit(make_data(), epochs=2, eval=make_data(20), max_restarts=1)
    assert is_equal(weights(trainer), weights(uninterrupted))
    assert trainer.step == uninterrupted.step
    for name in ("eval_loss", "loss"):
        assert trainer.history[name] == uninterrupted.history[name]


def test_batches_that_are_given_again_survive_a_second_death(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 0 hands over the batches. The first death, in step 3, leaves torn weights, so that the
    steps are made again from the beginning; the second one is in the first of these."""
    uninterrupted = make_trainer(2)
    uninterrupted.fit(Handed(make_data()), epochs=2)
    deaths, update_shard = tmp_path / "deaths", Sharded.update_shard

    def dying(self: Any, rank: int) -> None:
        if is_victim():
            counts["updates"] = counts.get("updates", 0) + 1
            before = len(deaths.read_bytes()) if deaths.exists() else 0
            if (before, counts["updates"]) in ((0, 3), (1, 1)):
                deaths.write_bytes(bytes(before + 1))
                os.kill(os.getpid(), signal.SIGKILL)
        update_shard(self, rank)

    monkeypatch.setattr(Sharded, "update_shard", dying)
    trainer = make_trainer(2, start_method="fork", snapshots=1000)
    with pytest.warns(RuntimeWarning, match="started again"):
        trainer.fit(Handed(make_data()), epochs=2, max_restarts=2)
    assert len(deaths.read_bytes()) == 2
    assert trainer.step == uninterrupted.step == 8
    assert is_equal(weights(trainer), weights(uninterrupted))


def test_a_snapshot_has_the_optimizers_that_rank_0_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two optimizers one has a hook, so it is not sharded; the other one's weights are torn."""

    def make() -> Trainer:
        model, loss = make_model(), nn.CrossEntropyLoss()
        optimizers = [
            optim.Adam(model[0].parameters(), lr=0.01),
            optim.Adam(model[3].parameters(), lr=0.01),
        ]
        optimizers[1].register_step_pre_hook(lambda *arguments: None)

        def step(model: Any, batch: Any, i: int) -> Any:
            return loss(model(batch[0]), batch[1])

        return Trainer(
            model, optimizers, nprocs=2, training_step=step, snapshots=1000, progress=False,
            start_method="fork",
        )  # fmt: skip

    uninterrupted = make()
    uninterrupted.fit(make_data(), 2)
    monkeypatch.setenv("VICTIM_ONCE", str(tmp_path / "dead"))
    Deadly(monkeypatch, "mid update")
    trainer = make()
    with pytest.warns(RuntimeWarning, match=r"torn(?s:.*)started again"):
        trainer.fit(make_data(), 2, max_restarts=1)
    assert is_equal(weights(trainer), weights(uninterrupted))


def test_the_rate_of_an_epoch_that_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot is that of the end of epoch 1, whose record has another learning rate."""

    def make() -> Trainer:
        trainer = make_trainer(2, start_method="fork", snapshots=1000)
        schedule = optim.lr_scheduler.ExponentialLR(trainer.optimizer, 0.9)
        trainer.scheduler = Schedule(schedule, interval="step")
        return trainer

    uninterrupted = make()
    uninterrupted.fit(make_data(), 3)
    monkeypatch.setenv("VICTIM_ONCE", str(tmp_path / "dead"))
    monkeypatch.setitem(counts, "mid update", -4)  # in step 7, the third of epoch 2
    Deadly(monkeypatch, "mid update")
    trainer = make()
    with pytest.warns(RuntimeWarning, match=r"torn(?s:.*)snapshot at step 4; started again"):
        trainer.fit(make_data(), 3, max_restarts=1)
    assert trainer.history["lr"] == uninterrupted.history["lr"]
    assert is_equal(weights(trainer), weights(uninterrupted))


def test_a_data_set_that_changes_after_a_death() -> None:
    """The rank that replaces another one gets the data set as it is in the next epoch, too."""
    fits = []
    for kills in (0, 1):
        data, trainer = Scaled(0), make_trainer(2, start_method="fork")

        def change(record: Any, data: Scaled = data) -> None:
            data.factor *= 1.5

        def kill(step: int, kills: int = kills) -> None:
            if step == 1 and kills:
                os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trainer.fit(DataLoader(data, 8), 2, on_epoch=change, on_step=kill, max_restarts=1)
        assert len(caught) == kills
        fits.append(weights(trainer))
    assert is_equal(*fits)


def test_a_snapshot_has_no_averages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data set that is too large to be sent is had by new ranks, which start while the model has
    the averages that are evaluated; then a death leaves torn weights."""

    def fit(trainer: Trainer, **options: Any) -> None:
        with DataLoader(Scaled(8 << 20), 8) as held_out:
            trainer.fit(make_data(), 1, held_out, eval_every=1, **options)

    uninterrupted = make_trainer(2, callbacks=[EMA(0.5)], start_method="fork")
    fit(uninterrupted)
    trainer = make_trainer(2, callbacks=[EMA(0.5)], start_method="fork", snapshots=1000)
    update_shard, dead = Sharded.update_shard, tmp_path / "dead"

    def dying(self: Any, rank: int) -> None:
        if is_victim() and trainer.step == 2 and not dead.exists():  # started after step 2
            dead.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        update_shard(self, rank)

    monkeypatch.setattr(Sharded, "update_shard", dying)
    with pytest.warns(RuntimeWarning, match=r"torn(?s:.*)started again"):
        fit(trainer, max_restarts=1)
    assert dead.exists()
    assert is_equal(weights(trainer), weights(uninterrupted))


def test_ctrl_c_leaves_whole_weights() -> None:
    data, states = make_data() * 5, [weights(make_trainer(2))]
    recorded = make_trainer(2)
    recorded.fit(data, 1, on_step=lambda step: states.append(weights(recorded)))
    interrupted = 0
    for after in (0.004, 0.007, 0.01, 0.013):
        trainer = make_trainer(2)
        started: list[threading.Timer] = []

        def interrupt(step: int, after: float = after, timers: Any = started) -> None:
            if step == 1:
                timers.append(threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT)))
                timers[0].start()

        try:
            trainer.fit(data, 1, on_step=interrupt)
            started[0].join()  # the training was faster
        except KeyboardInterrupt:
            interrupted += 1
        assert is_equal(weights(trainer), states[trainer.step])
    assert interrupted


@pytest.mark.parametrize("is_pressed_again", [False, True])
@pytest.mark.parametrize("nprocs", [1, 2])
def test_ctrl_c_in_an_update_is_taken_after_it(
    nprocs: int, is_pressed_again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this thread blocks the signal, another one gets it: `interrupt_main` does the same."""
    expected = make_trainer(nprocs)
    expected.fit(make_data(), 1, max_steps=2)
    trainer = make_trainer(nprocs, snapshots=False)
    kind = OneProcess if nprocs == 1 else Sharded
    update, parent = kind.update, os.getpid()

    def interrupting(self: Any, missing: Any, factor: float) -> None:
        if os.getpid() == parent and trainer.step == 1:
            _thread.interrupt_main()
        update(self, missing, factor)

    monkeypatch.setattr(kind, "update", interrupting)
    if is_pressed_again:
        close = Ranks.close

        def interrupted(self: Any, error: Any = None) -> None:
            if error is not None:
                _thread.interrupt_main()
            close(self, error)

        monkeypatch.setattr(Ranks, "close", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(make_data(), 1)
    assert trainer.step == 2
    assert is_equal(weights(trainer), weights(expected))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    monkeypatch.undo()
    for each in (trainer, expected):
        each.fit(make_data(), 1)
    ours, theirs = trainer.history.epochs[0], expected.history.epochs[0]
    assert (ours.loss, ours.samples) == (theirs.loss, theirs.samples)


PROGRAM = """
import os, sys
import numpy as np
import shmtensor as st
from shmtensor import nn, optim
from shmtensor.trainer import EMA, Callback, Schedule, Trainer

model = nn.Linear(4, 2)
data = [(st.ones(8, 4), st.zeros(8, dtype=st.int64))]
trainer = Trainer(model, optim.SGD(model.parameters(), 0.1), nn.CrossEntropyLoss(), nprocs=3,
                  progress=False, start_method=sys.argv[1])
if __name__ == "__main__":
    trainer.fit(data, 10**9, on_epoch=lambda record: record.epoch == 3 and print("on", flush=True))
"""


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_the_ranks_end_with_the_program(start_method: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    env = environment()
    with subprocess.Popen(
        [sys.executable, str(path), start_method], stdout=subprocess.PIPE, env=env, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "on\n"
        children = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
        assert len(children) >= 2
        program.kill()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}/stat").exists() for pid in children):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_rank_that_dies_between_two_passes_is_named() -> None:
    trainer = make_trainer(2)
    victims: list[int] = []

    def kill(record: Any) -> None:
        (child,) = multiprocessing.active_children()
        victims.append(child.pid or 0)
        os.kill(victims[0], signal.SIGKILL)

    with pytest.raises(
        PeerLostError, match=r"Trainer: rank 1 .*SIGKILL.*whole at step 4"
    ) as caught:
        trainer.fit(make_data(), 3, on_epoch=kill)
    assert caught.value.pid == victims[0]
    assert (trainer.epoch, trainer.step) == (1, 4)


def test_a_rank_0_that_cannot_join_leaves_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    make_weights = Member.make_weights

    def failing(self: Any, i: int) -> Any:
        if self.rank == 0:
            raise MemoryError("no memory")
        return make_weights(self, i)

    monkeypatch.setattr(Member, "make_weights", failing)
    with pytest.raises(MemoryError, match="no memory"):
        make_trainer(2, start_method="fork").fit(make_data(), 1)
    assert not multiprocessing.active_children()


def test_a_callback_whose_state_fails_leaves_no_child() -> None:
    class Failing(Callback):
        def state_dict(self) -> Any:
            raise OSError("no state")

    with pytest.raises(OSError, match="no state"):
        make_trainer(2, callbacks=[Failing()]).fit(make_data(), 1)
    assert not multiprocessing.active_children()


def test_random_kills() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    assert run(5, seed, 3)[0] == 5


def test_a_rank_that_does_not_come_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names it, and says how the weights are."""
    monkeypatch.setattr(ranks, "GRACE", 0.2)
    original = RankStep.train

    def hang(self: Any, *arguments: Any) -> None:
        if self.rank == 1 and self.number == 1:
            time.sleep(60)
        original(self, *arguments)

    monkeypatch.setattr(RankStep, "train", hang)
    trainer = make_trainer(2, start_method="fork")
    trainer.timeout = 0.5
    text = r"^Trainer: barrier: timed out .*rank 1 .* has not come.*; weights are whole at step 2$"
    with pytest.raises(CollectiveTimeout, match=text):
        trainer.fit(make_data(), epochs=1)
    assert trainer.step == 2


@pytest.mark.parametrize("nprocs", [1, 2])
def test_the_handler_of_ctrl_c_is_the_programs_after_fit(nprocs: int) -> None:
    former = signal.getsignal(signal.SIGINT)
    make_trainer(nprocs).fit(make_data(), 1)
    assert signal.getsignal(signal.SIGINT) is former


def test_ctrl_c_reaches_a_handler_that_a_callback_sets() -> None:
    calls = []

    def on_step(step: int) -> None:
        if step == 2:
            signal.signal(signal.SIGINT, lambda *_: calls.append(trainer.step))
        if step in (2, 4):
            os.kill(os.getpid(), signal.SIGINT)

    trainer, former = make_trainer(1), signal.getsignal(signal.SIGINT)
    try:
        trainer.fit(make_data(), 1, on_step=on_step)
    finally:
        signal.signal(signal.SIGINT, former)
    assert calls == [2, 4]
