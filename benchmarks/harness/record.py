"""The committed results: a file per kind of machine, a line per case.

A file holds runs: a line with the machine, the commit and the regular expression of `--only`, then
the run's cases: minimum, median and maximum of each party, the ratio and the share, not the single
repeats. The first run is the last complete one. Later runs of some cases follow; each case is only
in the last run that measured it.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
from pathlib import Path
from typing import Any

from .case import OURS
from .measure import Result

RESULTS = Path(__file__).parents[1] / "results"
Run = dict[str, Any]


def save(results: list[Result], machine: dict[str, Any], only: str) -> Path:
    """Writes a run into the file of its kind of machine.

    Args:
        only: the regular expression of the cases that ran; "": all, which replaces the file.
    """
    cases = [summary(result) for result in results]
    run = {"machine": machine, "commit": commit(), "only": only, "cases": cases}
    kind = f"{machine['processor']} {machine['cores']} cores".lower()
    path = RESULTS / (re.sub("[^a-z0-9]+", "-", kind) + ".jsonl")
    names = {case["name"] for case in cases}
    runs = load(path) if only and path.exists() else []
    for earlier in runs:
        earlier["cases"] = [case for case in earlier["cases"] if case["name"] not in names]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text([*(earlier for earlier in runs if earlier["cases"]), run]))
    return path


def load(path: Path) -> list[Run]:
    """The runs of a file, the complete one first."""
    runs: list[Run] = []
    for line in path.read_text().splitlines():
        record = json.loads(line)
        if "machine" in record:
            runs.append({**record, "cases": []})
        else:
            runs[-1]["cases"].append(record)
    return runs


def text(runs: list[Run]) -> str:
    """The text of a file that `load` reads."""
    records = []
    for run in runs:
        records += [{key: value for key, value in run.items() if key != "cases"}, *run["cases"]]
    return "".join(json.dumps(record) + "\n" for record in records)


def summary(result: Result) -> dict[str, Any]:
    """A case without its single repeats; `ratios` are those to each rival."""
    return {
        "name": result.name,
        "ratio": rounded(result.ratio),
        "target": result.target,
        "against": result.against,
        "unit": result.unit,
        "share": rounded(result.share),
        "ratios": {
            party: rounded(result.ratio_to(party)) for party in result.seconds if party != OURS
        },
        "seconds": {
            party: [rounded(x) for x in (min(times), statistics.median(times), max(times))]
            for party, times in result.seconds.items()
        },
    }


def rounded(x: float | None) -> float | None:
    """Seven digits, so that a figure with three digits is rounded once."""
    return None if x is None else float(f"{x:.7g}")


def commit() -> str:
    """The commit of the sources; with "-dirty" if they differ from it, "unknown" outside of git."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    folder = Path(__file__).parent
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return process.stdout.strip() or "unknown"
