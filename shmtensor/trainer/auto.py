"""How many ranks: `nprocs="auto"` measures a few steps on one process and on ranks.

The measured steps train copies of the model, the optimizers, the loss and an iterable of batches,
and the random states of the program are put back, so they leave no trace but in a loader's data set
that keeps a state of its own.
"""

from __future__ import annotations

import ast
import copy
import os
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import multiprocessing, native
from ..device import Device
from .lead import Lead
from .plan import states_kept
from .run import serve
from .setup import start_children

STEPS = 8  # measured, after two
LONGEST = 1.5  # seconds of measuring one form, unless three steps take longer
SHORT_STEP = 1e-3  # seconds: meeting costs more than ranks can save
SHORT_RUN = 2.0  # seconds: starting ranks costs more
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
GAIN = 0.97  # ranks must take less than this share of one process's time


def choose_nprocs(trainer: Any, plan: Any, device: Device) -> tuple[int, str]:
    """The number of ranks, and a sentence that says why; printed if the trainer shows progress."""
    n, why = choose(trainer, plan, device)
    sentence = f"nprocs={n}: {why}"
    if trainer.progress:
        print(f"Trainer: {sentence}", file=sys.stderr, flush=True)
    return n, sentence


def choose(trainer: Any, plan: Any, device: Device) -> tuple[int, str]:
    ranks = len(os.sched_getaffinity(0))
    obstacle = reason_for_one(trainer, plan, device, ranks)
    if obstacle:
        return 1, obstacle
    try:
        one = seconds_of_step(trainer, plan, device, 1)
    except Exception as error:  # the model cannot be copied, or its step fails: fit will tell
        return 1, f"a step could not be measured: {type(error).__name__}: {error}"
    steps = trainer.total_steps
    left = None if steps is None else (steps - trainer.step) * one
    text = f"a step takes {1e3 * one:.3g} ms on one process"
    if one < SHORT_STEP:
        return 1, f"{text}, less than ranks can save"
    if left is not None and left < SHORT_RUN:
        return 1, f"{text}, and the run {left:.1f} s, less than starting ranks takes"
    try:
        several = seconds_of_step(trainer, plan, device, ranks)
    except Exception as error:  # of any kind: what is sent, or run on a rank, is the program's
        first = str(error).partition("\n")[0].rstrip(":")
        return 1, f"{text}, and ranks could not start: {type(error).__name__}: {first}"
    text += f", {1e3 * several:.3g} ms on {ranks} ranks"
    return (ranks, text) if several < GAIN * one else (1, text)


def reason_for_one(trainer: Any, plan: Any, device: Device, ranks: int) -> str:
    """Why there can be no further rank, or no use of one; else ""."""
    if device.type != "cpu":
        return "on GPUs pass a number to use several"
    if ranks == 1:
        return "this process may use one processor"
    if multiprocessing.current_process().daemon:
        return "a daemonic process can start no ranks"
    if iter(plan.train) is plan.train:
        return "the data can be iterated only once, so steps cannot be measured"
    method = multiprocessing.get_context(trainer.start_method).get_start_method()
    if method != "fork" and not is_guarded():
        return (
            f"{method!r} runs the program again in each rank, and it calls fit outside of `if "
            '__name__ == "__main__":`'
        )
    return ""


def is_guarded() -> bool:
    """Whether a child that imports the program's main file does not come to this call again."""
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "__main__":
            break
        frame = frame.f_back
    path = None if frame is None else frame.f_globals.get("__file__")
    if path is None or not Path(path).is_file():  # a notebook, or called from a thread
        return True
    line = frame.f_lineno
    return any(
        isinstance(node, ast.If)
        and "__name__" in ast.dump(node.test)
        and node.lineno <= line <= (node.end_lineno or 0)
        for node in ast.parse(Path(path).read_text()).body
    )


def seconds_of_step(trainer: Any, plan: Any, device: Device, ranks: int) -> float:
    """The median time of a step of a copy of the trainer's model."""
    twin = copy.copy(trainer)
    twin.model, twin.optimizers, twin.scaler, twin.steps = copy.deepcopy(
        (trainer.model, trainer.optimizers, trainer.scaler, trainer.steps)
    )
    for module in twin.model.modules():
        for name in HOOKS:
            getattr(module, name).clear()
    data = plan.train
    if not isinstance(data, (list, tuple)) and not hasattr(data, "batch_sampler"):
        data = copy.deepcopy(data)
    times = [time.perf_counter()]
    per_step = len(twin.optimizers)

    def after(updates: int) -> bool:
        if updates % per_step == 0:
            times.append(time.perf_counter())
        n = len(times) - 1
        return n >= STEPS + 2 or (n >= 3 and times[-1] - times[0] > LONGEST)

    threads = native.get_num_threads()
    with states_kept(data):
        if ranks > 1:
            native.share_threads(ranks)
        try:
            start = partial(start_children, twin, ranks, [data], device, serve)
            lead = Lead([data], start, 0)
            try:
                times[0] = time.perf_counter()
                lead.run_pass(data, True, 1, 0, limit=plan.limit_train_batches, after=after)
                lead.stop(None)
            except BaseException as error:
                lead.ranks.close(error)
                raise
            finally:
                lead.ranks.close()
                lead.close()
        finally:
            native.set_num_threads(threads)
    steps = np.diff(times)
    return float(statistics.median(steps[2:] if len(steps) > 4 else steps[-2:]))
