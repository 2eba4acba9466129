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
from typing import Any

import numpy as np

import shmtensor as st
from shmtensor import multiprocessing, nn, optim
from shmtensor.trainer import Trainer

from .test_trainer import make_data


def make_trainer(nprocs: int, max_restarts: int = 0) -> Trainer:
    st.manual_seed(1)
    first = [nn.Linear(6, 33), nn.BatchNorm1d(33), nn.ReLU(), nn.Dropout(0.2)]
    model = nn.Sequential(*first, nn.Linear(33, 3)).double()
    adam = optim.Adam(model.parameters(), lr=0.01)
    loss = nn.CrossEntropyLoss()
    return Trainer(model, adam, loss, nprocs=nprocs, progress=False, max_restarts=max_restarts)


def fit(trainer: Trainer, data: Any, epochs: int, checkpoint: str | None = None) -> None:
    trainer.fit(data, epochs, eval=data[:2], checkpoint=checkpoint)


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
        epochs = rng.randrange(3, 12)
        undisturbed = make_trainer(nprocs)
        began = time.perf_counter()
        fit(undisturbed, data, epochs)
        took = time.perf_counter() - began
        trainer = make_trainer(nprocs, 10**6)
        killer = Killer(rng, min(20, kills - done), took)
        n = killer.remaining
        killer.start()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit(trainer, data, epochs, checkpoint)
        killer.is_over = True
        killer.join()
        done += n - killer.remaining
        restarts += sum("started again" in str(each.message) for each in caught)
        for name, x in trainer.model.state_dict().items():
            expected = undisturbed.model.state_dict()[name].numpy()
            np.testing.assert_array_equal(x.numpy(), expected, err_msg=f"{name}, seed {seed}")
        for name in ("loss", "eval_loss", "accuracy"):
            assert trainer.history[name] == undisturbed.history[name], (seed, name)
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
