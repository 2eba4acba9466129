"""Workers killed at any moment: an error names them, and received batches stay intact."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.dataloaders import DataLoader, Dataset
from shmtensor.errors import PeerLostError

ROUNDS = 12


class Images(Dataset[Any]):
    """Large enough that a batch has its own block, small enough to be quick."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        return {"x": np.full((64, 64), index, np.float32), "y": index}


def check(batch: Any) -> None:
    assert (batch["x"].numpy()[:, 0, 0] == batch["y"].numpy()).all()
    assert (batch["x"].numpy() == batch["x"].numpy()[:, :1, :1]).all()


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:  # the epoch was over first, and the worker reaped
        return


@pytest.mark.parametrize("in_order", [True, False])
def test_workers_killed_at_random_moments_are_named_and_leave_nothing(in_order: bool) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    gc.collect()
    before = st.memory.statistics().live_blocks
    deaths: list[tuple[int, int, int | None]] = []
    for _ in range(ROUNDS):
        iterator = iter(DataLoader(Images(400_000), 8, num_workers=2, in_order=in_order))
        victim = iterator.workers.processes[rng.randrange(2)].pid
        killer = threading.Timer(rng.uniform(0, 0.15), kill, (victim,))
        killer.start()
        batches = []
        try:
            for batch in iterator:
                check(batch)
                batches = [*batches[-3:], batch]
        except PeerLostError as error:
            deaths.append((victim, error.pid, error.exitcode))
        finally:
            killer.cancel()
            killer.join()
        for batch in batches:
            check(batch)  # received batches stay intact, whichever worker made them
        del iterator, batches
        batch = None
        st.memory.check()
    assert deaths
    assert all(victim == pid and code == -signal.SIGKILL for victim, pid, code in deaths)
    gc.collect()
    deadline = time.monotonic() + 5
    while st.memory.statistics().live_blocks > before and time.monotonic() < deadline:
        st.native.sweep(True)
    assert st.memory.statistics().live_blocks <= before


def test_batches_outlive_their_workers() -> None:
    batches = list(DataLoader(Images(64), 8, num_workers=2))
    for batch in batches:
        check(batch)
    assert sum(batch["y"].tolist()[0] for batch in batches) == 8 * sum(range(8))


def test_a_slow_consumer_does_not_make_memory_grow() -> None:
    loader = DataLoader(Images(2000), 8, num_workers=2, persistent_workers=True)
    list(loader)
    for turn, batch in enumerate(loader):
        check(batch)
        if turn % 50 == 0:
            time.sleep(0.05)
            statistics = st.memory.statistics()
            assert statistics.held_blocks <= 8
    del batch
    loader._workers.close()


def test_running_out_of_memory_in_a_worker_is_named() -> None:
    loader = DataLoader(Images(4), 2, num_workers=1, collate_fn=ask_for_too_much)
    with pytest.raises(MemoryError, match="Caught OutOfSharedMemory in DataLoader worker 0"):
        next(iter(loader))


def ask_for_too_much(samples: list[Any]) -> Any:
    return st.native.allocate(1 << 50)


LOOP = """
import signal
import time
import numpy as np

# Whoever runs the tests in the background of a shell has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

from shmtensor.dataloaders import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 10_000
    def __getitem__(self, index):
        time.sleep(0.01)
        return np.zeros(3)

for turn, batch in enumerate(DataLoader(Slow(), 2, num_workers=2)):
    if turn == 2:
        print("running", flush=True)
"""


def test_ctrl_c_ends_all_at_once_with_one_traceback() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    child = subprocess.Popen(
        [sys.executable, "-c", LOOP],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "running\n"
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does
    errors = child.communicate(timeout=30)[1]
    assert child.returncode == -signal.SIGINT
    assert errors.count("Traceback") == 1, errors
    assert errors.rstrip().endswith("KeyboardInterrupt")
