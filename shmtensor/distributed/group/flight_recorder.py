"""The flight recorder: the last calls of each rank of a group, and how far each call came.

```
rank 0   #40 done   #41 done   #42 called      it waits there
rank 1   #40 done   #41 done                   it died before #42: its record is still there
```

Every collective writes a step into the group's shared block
(native/ipc/process_group/flight_recorder.cc). The recorder is always on, and each rank sees the
steps of all ranks, also of dead ones. If TORCH_FR_DUMP_TEMP_FILE is set, a rank that ends by an
error writes all steps to the file of that name followed by its rank;
`python -m shmtensor.distributed.group.flight_recorder FILE` says which ranks are behind.
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

VARIABLE = "TORCH_FR_DUMP_TEMP_FILE"


def dump(group: ProcessGroup | None = None) -> dict[str, Any]:
    """The last 256 collectives and 64 messages of each rank of a group, as this rank sees them. The
    result can be written as JSON.

    Returns:
        "rank": the rank that called this; "time": when; "ranks": for each rank of the group a list
        of steps, the oldest first: "number", "state" ("called": the rank came; "met": all ranks
        had come; "done"), "call", "nbytes", and "began" and "ended" in seconds since the epoch
        (None: not yet); "messages": the same for the messages that each rank sent and received,
        which are numbered separately.

    Raises:
        NotImplementedError: the backend has no flight recorder.
    """
    pg = group_of("flight_recorder.dump", group)
    record_of = getattr(pg.native, "flight_record", None)
    if record_of is None:
        raise NotImplementedError(
            f"flight_recorder.dump: the backend has no flight recorder: {pg.name()!r}, only shm "
            "has one"
        )
    now = time.time()
    zero = now - time.monotonic()

    def steps_of(record_of: Any, rank: int) -> list[dict[str, Any]]:
        return [
            {
                "number": number,
                "state": state,
                "call": call,
                "nbytes": nbytes,
                "began": zero + began,
                "ended": zero + ended if ended else None,
            }
            for number, state, call, nbytes, began, ended in record_of(rank)
        ]

    ranks = [steps_of(record_of, rank) for rank in range(pg.size())]
    messages = [steps_of(pg.native.messages, rank) for rank in range(pg.size())]
    head = {"rank": pg.rank(), "time": now, "group": pg.ranks}
    return {**head, "ranks": ranks, "messages": messages}


def analyse(record: dict[str, Any]) -> str:
    """Which ranks are behind, and in which collective: a line for each rank and a summary line."""
    lines, lasts = [], []
    for rank, steps in enumerate(record["ranks"]):
        last = steps[-1] if steps else None
        lasts.append((last["number"], last["state"] == "done") if last else (0, True))
        if last is None:
            lines.append(f"rank {rank}: has called nothing")
            continue
        age = record["time"] - (last["ended"] or last["began"])
        how = {"called": "waits in", "met": "works in", "done": "has completed"}[last["state"]]
        lines.append(f"rank {rank}: {how} #{last['number']} {last['call']} since {age:.3f} s")
    for rank, steps in enumerate(record.get("messages", ())):
        for step in steps:
            if step["state"] != "done":
                age = record["time"] - step["began"]
                lines.append(f"rank {rank}: waits in {step['call']} since {age:.3f} s")
    ahead = max(number for number, _ in lasts)
    behind = [rank for rank, (number, _) in enumerate(lasts) if number < ahead]
    calls = {
        steps[-1]["call"] for steps in record["ranks"] if steps and steps[-1]["number"] == ahead
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
    """Writes `dump()` to the file that TORCH_FR_DUMP_TEMP_FILE names, followed by the rank."""
    name = os.environ.get(VARIABLE)
    if not name:
        return None
    record = dump(group)
    path = Path(f"{name}{record['rank']}")
    path.write_text(json.dumps(record))
    return path


def main(argv: Sequence[str] | None = None) -> None:
    """Analyses files that `write_dump` has written."""
    parser = argparse.ArgumentParser(
        prog="python -m shmtensor.distributed.group.flight_recorder", description=main.__doc__
    )
    parser.add_argument("files", nargs="+", type=Path)
    for path in parser.parse_args(argv).files:
        record = json.loads(path.read_text())
        print(f"{path}: as rank {record['rank']} saw it", analyse(record), sep="\n")


if __name__ == "__main__":
    main()
