"""Runs scenarios one after the other in a new interpreter, and writes down the results."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable

from memory.fresh import until

from shmtensor import memory, native

from . import ipc_scenarios, memory_scenarios
from .harness import Harness, NotReachedError, Witness, perform

SCENARIOS: dict[str, Callable[[Harness], None]] = {
    **memory_scenarios.SCENARIOS,
    **ipc_scenarios.SCENARIOS,
}


def begin() -> Witness:
    """The domain, with counts that children share, and a witness."""
    native.domain_ensure()
    assert native.arm_fault("?") is None
    native.arm_fault(None)
    return Witness()


def count_points(path: str) -> None:
    """Runs each scenario once without a death; writes how often it passes each point to `path`."""
    witness = begin()
    result = {}
    for name, scenario in SCENARIOS.items():
        if name == "rowless" and memory.statistics().liveness == "process":
            continue  # it leaves a row for ever: see `rowless_by_name`
        counts = perform(scenario, witness, "?")
        result[name] = {point: n for point, n in counts.items() if n}
    with open(path, "w") as file:
        json.dump(result, file)


def run_until_reached(name: str, witness: Witness, specification: str) -> None:
    """Runs a scenario until its victim reaches the point. It may not at first: which of several
    processes sweeps, and so what the victim has to do, depends on timing.
    """
    for _ in range(9):
        try:
            perform(SCENARIOS[name], witness, specification)
        except NotReachedError:
            continue
        return
    perform(SCENARIOS[name], witness, specification)


def rowless_by_name(specification: str) -> None:
    """A fork without a row in liveness mode "process": its parent's blocks, and nothing else, stay
    until the domain ends (docs/known-limits.md)."""
    witness = begin()
    harness = Harness(witness, specification)
    memory_scenarios.rowless(harness)
    assert harness.reached()

    def quiet() -> bool:
        native.sweep(True)
        s = memory.statistics()
        return (s.processes, s.zombies, s.unread_messages) == (3, 0, 0)

    until(quiet, "the parent's row alone is left")
    memory.check()
    witness.ask(b"c")


def run(cases: str, path: str) -> None:
    """Runs scenarios with their victim killed or stopped; a line for each that went well."""
    witness = begin()
    with open(path, "a", buffering=1) as file:
        for name, specification in json.loads(cases):
            print(f"{name} {specification}", flush=True)
            start = time.monotonic()
            try:
                run_until_reached(name, witness, specification)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                sys.stdout.flush()
                os._exit(1)  # its remains would disturb the next
            file.write(json.dumps([name, specification, time.monotonic() - start]) + "\n")
