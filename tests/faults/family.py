"""The interpreter in which the scenes are played, one after the other, and what it writes down."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable

from shmtensor import memory, native

from . import scenes, words
from .stage import NotReachedError, Stage, Witness, perform, until

SCENES: dict[str, Callable[[Stage], None]] = {**scenes.SCENES, **words.SCENES}


def begin() -> Witness:
    """The domain, with counts that children share, and a witness."""
    native.domain_ensure()
    assert native.arm_fault("?") is None
    native.arm_fault(None)
    return Witness()


def survey(path: str) -> None:
    """Plays every scene once without a death; how often it passes each point goes to `path`."""
    witness = begin()
    result = {}
    for name, scene in SCENES.items():
        if name == "rowless" and memory.statistics().liveness == "process":
            continue  # it leaves a row for ever: played by `rowless_by_name`
        counts = perform(scene, witness, "?")
        result[name] = {point: n for point, n in counts.items() if n}
    with open(path, "w") as file:
        json.dump(result, file)


def reach(name: str, witness: Witness, specification: str) -> None:
    """Plays a scene until its victim comes to the point: which of several processes sweeps, and so
    what the victim finds to do, is a matter of who looks first.
    """
    for _ in range(9):
        try:
            perform(SCENES[name], witness, specification)
        except NotReachedError:
            continue
        return
    perform(SCENES[name], witness, specification)


def rowless_by_name(specification: str) -> None:
    """A fork without a row where rows name their processes: what its parent had stays until the
    domain ends (docs/known-limits.md), and nothing else."""
    witness = begin()
    stage = Stage(witness, specification)
    scenes.rowless(stage)
    assert stage.reached()

    def quiet() -> bool:
        native.sweep(True)
        s = memory.statistics()
        return (s.processes, s.zombies, s.unread_messages) == (3, 0, 0)

    until(quiet, "the parent's row alone is left")
    memory.check()
    witness.ask(b"c")


def play(cases: str, path: str) -> None:
    """Plays scenes with their victim killed or stopped; a line for each that went well."""
    witness = begin()
    with open(path, "a", buffering=1) as file:
        for name, specification in json.loads(cases):
            print(f"{name} {specification}", flush=True)
            start = time.monotonic()
            try:
                reach(name, witness, specification)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                sys.stdout.flush()
                os._exit(1)  # what was left would disturb the next
            file.write(json.dumps([name, specification, time.monotonic() - start]) + "\n")
