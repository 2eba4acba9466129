"""Ranks killed at random moments: they are replaced, and the run ends with the bits of an
undisturbed one.

python -m tests.trainer.kills [--kills 300] [--seed 1] [--nprocs 3]
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import shmtensor as st
from shmtensor import multiprocessing, nn, optim
from shmtensor.trainer import EMA, Schedule, Trainer

from .test_trainer import make_data


class Handed:
    """Batches that rank 0 hands over, drawn anew in each epoch."""

    def __init__(self, batches: list[Any]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        for i in st.randperm(len(self.batches)).tolist():
            yield self.batches[i]


class Run(NamedTuple):
    """What is trained, and how; drawn at random."""

    epochs: int
    is_handed_over: bool
    has_two_optimizers: bool
    has_hook: bool  # of the second: rank 0 steps it alone
    options: dict[str, Any]
    fit_options: dict[str, Any]

    @classmethod
    def draw(cls, rng: random.Random) -> Run:
        two = rng.random() < 0.3
        options = {
            "accumulate": rng.choice([1, 1, 2, 3]),
            "clip_grad_norm": rng.choice([None, 0.5]),
            "snapshots": rng.choice([True, True, 3]),
        }
        fit_options = {"eval_every": None if two else rng.choice([None, 4])}
        handed_over, hook = rng.random() < 0.4, rng.random() < 0.5
        return cls(rng.randrange(3, 12), handed_over, two, hook, options, fit_options)

    def make(self, nprocs: int) -> Trainer:
        st.manual_seed(1)
        first = [nn.Linear(6, 33), nn.BatchNorm1d(33), nn.ReLU(), nn.Dropout(0.2)]
        model = nn.Sequential(*first, nn.Linear(33, 3)).double()
        loss = nn.CrossEntropyLoss()
        optimizers: list[Any] = [optim.Adam(model.parameters(), lr=0.01)]
        step = None
        if self.has_two_optimizers:
            layers = list(model)
            optimizers = [
                optim.Adam(layers[0].parameters(), lr=0.01),
                optim.SGD([*layers[1].parameters(), *layers[4].parameters()], lr=0.1, momentum=0.9),
            ]

            if self.has_hook:
                optimizers[1].register_step_pre_hook(lambda *arguments: None)

            def step(model: Any, batch: Any, i: int) -> Any:
                return {"loss": loss(model(batch[0]), batch[1]), "index": i}

        schedule = optim.lr_scheduler.ExponentialLR(optimizers[0], 0.99)
        callbacks = [EMA(decay=0.9), Schedule(schedule, interval="step")]
        return Trainer(
            model, optimizers, loss, nprocs=nprocs, progress=False, training_step=step,
            callbacks=callbacks, **self.options,
        )  # fmt: skip

    def fit(self, trainer: Trainer, data: Any, **options: Any) -> None:
        held_out = None if self.has_two_optimizers else data[:2]
        train = Handed(data) if self.is_handed_over else data
        trainer.fit(train, self.epochs, eval=held_out, **self.fit_options, **options)


class Killer(threading.Thread):
    """Kills a random child again and again, at random moments."""

    def __init__(self, rng: random.Random, kills: int, longest: float) -> None:
        super().__init__(daemon=True)
        self.rng = rng
        self.remaining = kills
        self.longest = longest  # seconds between two
        self.is_over = False

    def run(self) -> None:
        while self.remaining and not self.is_over:
            time.sleep(self.rng.uniform(0.0, self.longest))
            children = [child for child in multiprocessing.active_children() if child.pid]
            if children:
                victim = self.rng.choice(children).pid
                assert victim is not None
                try:
                    os.kill(victim, signal.SIGKILL)
                except ProcessLookupError:  # it has just been reaped
                    continue
                self.remaining -= 1


def run(kills: int, seed: int, nprocs: int, checkpoint: str | None = None) -> tuple[int, int]:
    """Trains with kills, and compares; returns the number of kills and of restarts."""
    rng, data = random.Random(seed), make_data(200)
    done = restarts = 0
    while done < kills:
        this = Run.draw(rng)
        undisturbed = this.make(nprocs)
        began = time.perf_counter()
        this.fit(undisturbed, data)
        took = time.perf_counter() - began
        trainer = this.make(nprocs)
        killer = Killer(rng, min(20, kills - done), took)
        n = killer.remaining
        killer.start()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            this.fit(trainer, data, checkpoint=checkpoint, max_restarts=10**6)
        killer.is_over = True
        killer.join()
        done += n - killer.remaining
        restarts += sum("started again" in str(each.message) for each in caught)
        where = f"seed {seed}, {this}"
        states = [
            {**each.model.state_dict(), **each.callbacks[0].averaged.state_dict()}
            for each in (trainer, undisturbed)
        ]
        for name, x in states[0].items():
            np.testing.assert_array_equal(
                x.numpy(), states[1][name].numpy(), err_msg=f"{name}, {where}"
            )
        for name in ("loss", "eval_loss", "accuracy", "lr"):
            assert trainer.history[name] == undisturbed.history[name], (name, where)
        assert trainer.step == undisturbed.step, where
    return done, restarts


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--nprocs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    kills, restarts = run(options.kills, options.seed, options.nprocs)
    print(f"{kills} kills, {restarts} restarts: the bits of undisturbed runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
