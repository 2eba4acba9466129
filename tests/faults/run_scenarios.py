"""The interpreter that runs the scenarios one after the other, and the results that it writes."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable

from shmtensor import memory, native

from . import block_scenarios, scenarios
from .stage import NotReachedError, Stage, Witness, perform, until

SCENARIOS: dict[str, Callable[[Stage], None]] = {**scenarios.SCENARIOS, **block_scenarios.SCENARIOS}


def begin() -> Witness:
    """The domain, with counts that children share, and a witness."""
    native.domain_ensure()
    assert native.arm_fault("?") is None
    native.arm_fault(None)
    return Witness()


def survey(path: str) -> None:
    """Runs every scenario once without a death; writes how often it passes each point to `path`."""
    witness = begin()
    counts_by_name = {}
    for name, scenario in SCENARIOS.items():
        if name == "rowless" and memory.statistics().liveness == "process":
            continue  # it never frees a row: run by `rowless_by_name`
        counts = perform(scenario, witness, "?")
        counts_by_name[name] = {point: n for point, n in counts.items() if n}
    with open(path, "w") as file:
        json.dump(counts_by_name, file)


def reach(name: str, witness: Witness, specification: str) -> None:
    """Runs a scenario until its victim reaches the point: which of several processes sweeps, and
    so which steps the victim takes, depends on which one looks first.
    """
    for _ in range(9):
        try:
            perform(SCENARIOS[name], witness, specification)
        except NotReachedError:
            continue
        return
    perform(SCENARIOS[name], witness, specification)


def rowless_by_name(specification: str) -> None:
    """A fork without a row where rows name their processes: only its parent's blocks stay until
    the domain ends (docs/known-limits.md)."""
    witness = begin()
    stage = Stage(witness, specification)
    scenarios.rowless(stage)
    assert stage.is_reached()

    def quiet() -> bool:
        native.sweep(True)
        s = memory.statistics()
        return (s.processes, s.zombies, s.unread_messages) == (3, 0, 0)

    until(quiet, "the parent's row alone is left")
    memory.check()
    witness.ask(b"c")


def run_cases(cases: str, path: str) -> None:
    """Runs scenarios with their victim killed or stopped; writes a line for each that passed."""
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
                os._exit(1)  # leftovers would disturb the next scenario
            file.write(json.dumps([name, specification, time.monotonic() - start]) + "\n")
