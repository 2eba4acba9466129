"""A process killed, or stopped, at each point of each protocol: nobody hangs, no data is lost or
overwritten, every survivor's `check()` holds, and everything that the dead one had comes back.

The extension lists its points. The scenarios are run once to record which points each one passes;
then once more for each point, with a fault in the process that reaches it. A point that no scenario
passes is an error: it has no test.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from memory.fresh import fresh
from memory.test_room import needs_mounts

from shmtensor import native

from .run_scenarios import count_points, rowless_by_name, run

# A /dev/shm of its own, in which the larger blocks have no room: the second volume takes over.
SMALL = (
    "unshare", "-m", "sh", "-c",
    'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$@"', "sh",
)  # fmt: skip

# Scenarios in which a stopped victim holds up others because they wait for it by name, until their
# timeout (a group's ranks), or because this process stops and continues the victim itself.
NOT_STOPPED = {
    "group", "making", "joining", "taking_over", "rescuing", "spoiled_reclaim", "spoiled_orphan",
    "refused", "entering", "giving_up",
}  # fmt: skip

# Whoever dies before its row is written into the group is unknown to the other ranks.
ENTERING = ("group.marked", "group.sized", "group.joining")
# In the other scenarios of a group the victim sleeps only if it came first.
ALONE = ("group.waiting",)

POINTS = sorted(native.fault_points())

# `make faults-process`: all of this with liveness by pid and start time.
BY_PROCESS = os.environ.get("SHMTENSOR_LIVENESS") == "process"
WITHOUT_A_ROW = ("fork.frozen", "fork.rowless")

# A death in each of these, in an interpreter of its own, where the kernel's locks are not used.
WITHOUT_LOCKS = [
    ("heap", "export.pinned:1"),
    ("heap", "reclaim.marked:1"),
    ("receiver", "receive.bit:1"),
    ("receiver", "receive.validated:1"),
    ("taking_over", "sweep.bits:1"),
    ("rescuing", "receive.bit:1"),
    *(("forking", f"{point}:1") for point in
      ("row.claimed", "fork.born", "fork.copied", "fork.ready", "fork.parent")),
    ("channel", "channel.put.writing:1"),
    ("channel", "channel.get.claimed:1"),
    ("ending", "channel.shutdown.said:1"),
    ("locks", "lock.taken:1"),
    ("slots", "slot.claimed:1"),
    ("guest_by_name", "guest.joined:1"),
]  # fmt: skip


class Outcomes:
    """The scenarios of all points, run in as few interpreters as possible."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        fresh(count_points, str(folder / "survey"), prefix=SMALL)
        self.passes: dict[str, dict[str, int]] = json.loads((folder / "survey").read_text())
        self.failures: dict[str, str] = {}
        self.pending = [case for point in POINTS for case in self.cases(point)]
        while self.pending and len(self.failures) < 10:
            self.run_all()

    def cases(self, point: str) -> list[tuple[str, str]]:
        """Killed at its first time in one scenario, at its last in another; stopped in one."""
        result = [(name, counts[point]) for name, counts in self.passes.items() if point in counts]
        if not point.startswith(("group.", "send.", "recv.", "trail.message.")):
            # A rank that dies before it has entered is unknown to the others: they wait in vain.
            result = [(name, n) for name, n in result if name != "group"]
        if point in ENTERING:
            result = [(name, n) for name, n in result if name == "entering"]
        if point in ALONE:
            result = [(name, n) for name, n in result if name == "giving_up"]
        if not point.startswith(("guest.", "fork.", "join.", "row.obtained")):
            # What else it passes depends on when its sweeps are due.
            result = [(name, n) for name, n in result if not name.startswith("guest")]
        cases = [(name, f"{point}:1") for name, _ in result[:1]]
        cases += [
            (name, f"{point}:{n}") for name, n in result[-1:] if (name, n) != (result[0][0], 1)
        ]
        still = [name for name, _ in result if name not in NOT_STOPPED]
        return cases + [(name, f"{point}:1:stop") for name in still[:1]]

    def run_all(self) -> None:
        path = self.folder / f"done{len(self.failures)}"
        path.touch()
        text = ""
        try:
            fresh(run, json.dumps(self.pending), str(path), prefix=SMALL, timeout=400)
        except AssertionError as error:
            text = str(error)
        n_run = len(path.read_text().splitlines())
        if n_run < len(self.pending):
            name, specification = self.pending[n_run]
            self.failures[specification.partition(":")[0]] = f"{name} {specification}\n{text}"
        self.pending = self.pending[n_run + 1 :]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    needs_mounts()
    return Outcomes(tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize("point", POINTS)
def test_death_at(point: str, outcomes: Outcomes) -> None:
    if BY_PROCESS and point in WITHOUT_A_ROW:
        pytest.skip("in test_a_child_without_a_row_where_the_kernel_has_no_locks")
    assert outcomes.cases(point), f"no scenario of tests/faults passes {point}: it has no test"
    assert point not in outcomes.failures, outcomes.failures[point]
    remaining: Sequence[tuple[str, str]] = [
        c for c in outcomes.pending if c[1].split(":")[0] == point
    ]
    assert not remaining, f"not run, too much failed before: {remaining}"


def test_deaths_where_the_kernel_has_no_locks(tmp_path: Path) -> None:
    path = tmp_path / "done"
    env = {"SHMTENSOR_LIVENESS": "process"}
    fresh(run, json.dumps(WITHOUT_LOCKS), str(path), env=env, timeout=400)
    assert len(path.read_text().splitlines()) == len(WITHOUT_LOCKS)


@pytest.mark.parametrize("point", WITHOUT_A_ROW)
@pytest.mark.parametrize("how", ["1", "1:stop"])
def test_a_child_without_a_row_where_the_kernel_has_no_locks(point: str, how: str) -> None:
    fresh(rowless_by_name, f"{point}:{how}", env={"SHMTENSOR_LIVENESS": "process"})


def test_unknown_point_is_refused() -> None:
    with pytest.raises(ValueError, match=r"arm_fault: no such point: no\.such\.point"):
        native.arm_fault("no.such.point")
