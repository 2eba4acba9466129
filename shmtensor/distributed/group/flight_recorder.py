"""The flight recorder: what each rank of a group called lately, and how far it came in it.

```
rank 0   #40 done   #41 done   #42 called      it waits there
rank 1   #40 done   #41 done                   it has died before #42: its trail is still there
```

Every collective leaves a step in the group's shared block
(native/ipc/process_group/flight_recorder.cc), always: there is nothing to switch on, and one rank
sees the steps of all, those of the dead, too. With the variable TORCH_FR_DUMP_TEMP_FILE a rank that
ends by an error writes them to the file of that name with its rank behind it, and
`python -m shmtensor.distributed.group.flight_recorder FILE` says who is behind.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .process_group import ProcessGroup
from .world import group_of

__all__ = ["analyse", "dump", "main", "write_dump"]

VARIABLE = "TORCH_FR_DUMP_TEMP_FILE"


def dump(group: ProcessGroup | None = None) -> dict[str, Any]:
    """The last 256 collectives and 64 messages of each rank of a group, as this rank sees them: to
    be kept as JSON.

    Returns:
        "rank": who looked; "time": when; "ranks": of each rank of the group a list of steps, the
        oldest first: "number", "state" ("called": it came; "met": all had come; "done"), "call",
        "nbytes", and "began" and "ended" in seconds since the epoch (None: not yet); "messages":
        the same of what each rank sent and received, counted by itself.

    Raises:
        NotImplementedError: the backend keeps no trails.
    """
    found = group_of("flight_recorder.dump", group)
    trail = getattr(found.native, "flight_record", None)
    if trail is None:
        raise NotImplementedError(
            f"flight_recorder.dump: the backend keeps no trails: {found.name()!r}, shm does"
        )
    now = time.time()
    zero = now - time.monotonic()

    def steps_of(trail: Any, rank: int) -> list[dict[str, Any]]:
        return [
            {
                "number": number,
                "state": state,
                "call": call,
                "nbytes": nbytes,
                "began": zero + began,
                "ended": zero + ended if ended else None,
            }
            for number, state, call, nbytes, began, ended in trail(rank)
        ]

    ranks = [steps_of(trail, rank) for rank in range(found.size())]
    messages = [steps_of(found.native.messages, rank) for rank in range(found.size())]
    head = {"rank": found.rank(), "time": now, "group": found.ranks}
    return {**head, "ranks": ranks, "messages": messages}


def analyse(dumped: dict[str, Any]) -> str:
    """Who is behind, and in which collective: a line for each rank and one that sums up."""
    lines, lasts = [], []
    for rank, steps in enumerate(dumped["ranks"]):
        last = steps[-1] if steps else None
        lasts.append((last["number"], last["state"] == "done") if last else (0, True))
        if last is None:
            lines.append(f"rank {rank}: has called nothing")
            continue
        age = dumped["time"] - (last["ended"] or last["began"])
        how = {"called": "waits in", "met": "works in", "done": "has completed"}[last["state"]]
        lines.append(f"rank {rank}: {how} #{last['number']} {last['call']} since {age:.3f} s")
    for rank, steps in enumerate(dumped.get("messages", ())):
        for step in steps:
            if step["state"] != "done":
                age = dumped["time"] - step["began"]
                lines.append(f"rank {rank}: waits in {step['call']} since {age:.3f} s")
    ahead = max(number for number, _ in lasts)
    behind = [rank for rank, (number, _) in enumerate(lasts) if number < ahead]
    calls = {
        steps[-1]["call"] for steps in dumped["ranks"] if steps and steps[-1]["number"] == ahead
    }
    if behind:
        who = ", ".join(f"rank {rank}" for rank in behind)
        lines.append(f"behind: {who}: never came to #{ahead} {' / '.join(sorted(calls))}")
    elif len(calls) > 1:
        lines.append(f"differ: #{ahead} is not the same call everywhere")
    elif not all(done for _, done in lasts):
        who = ", ".join(f"rank {rank}" for rank, (_, done) in enumerate(lasts) if not done)
        lines.append(f"under way: all came to #{ahead}, not done: {who}")
    else:
        lines.append("nobody is behind")
    return "\n".join(lines)


def write_dump(group: ProcessGroup | None = None) -> Path | None:
    """Writes `dump` to the file that TORCH_FR_DUMP_TEMP_FILE names, with the rank behind it."""
    name = os.environ.get(VARIABLE)
    if not name:
        return None
    dumped = dump(group)
    path = Path(f"{name}{dumped['rank']}")
    path.write_text(json.dumps(dumped))
    return path


def main(argv: Sequence[str] | None = None) -> None:
    """Says what is in files that `write_dump` has written."""
    parser = argparse.ArgumentParser(
        prog="python -m shmtensor.distributed.group.flight_recorder", description=main.__doc__
    )
    parser.add_argument("files", nargs="+", type=Path)
    for path in parser.parse_args(argv).files:
        dumped = json.loads(path.read_text())
        print(f"{path}: as rank {dumped['rank']} saw it", analyse(dumped), sep="\n")


if __name__ == "__main__":
    main()
