"""docs/comparisons.md and its pictures, from the newest results (performance_page.py writes them).

Each comparison has a picture, cost against size or bars of ratios, and a table of all parties.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..comparisons import AUTOGRAD, HAND
from .bar_chart import Bar, draw_bars
from .case import OURS
from .line_chart import Line, draw_chart
from .machine import PACKAGES
from .record import Run
from .report import format_amount

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
NAMES = {
    "pytorch": "PyTorch", "numpy": "NumPy", "autograd": "HIPS autograd", "jax": "JAX",
    "multiprocessing.shared_memory": "shared_memory", "ray": "Ray",
}  # fmt: skip
Case = dict[str, Any]
LEAST_SQUARES, TO_NUMPY = r"comparison/least squares, d = (\d+)", r"comparison/to NumPy.* n = (\d+)"
PROGRAM = r"program/(.*)"


def name_of(party: str) -> str:
    return NAMES.get(party, party)


def found(runs: list[Run], pattern: str) -> dict[str, tuple[Run, Case]]:
    """The cases whose names match, by the pattern's group, each with its run."""
    result = {}
    for run in runs:
        for case in run["cases"]:
            if match := re.fullmatch(pattern, case["name"]):
                result[match[match.re.groups]] = run, case
    return result


def by_size(runs: list[Run], pattern: str) -> dict[int, Case]:
    return {int(size): case for size, (_, case) in found(runs, pattern).items()}


def parties_of(cases: Sequence[Case]) -> list[str]:
    return list(dict.fromkeys(party for case in cases for party in case["seconds"]))


def cost_chart(cases: dict[int, Case], title: str, x_label: str) -> str:
    """Medians against sizes."""
    lines = [
        Line(name_of(party), [(n, c["seconds"][party][1]) for n, c in cases.items()
                              if party in c["seconds"]])
        for party in parties_of(list(cases.values()))
    ]  # fmt: skip
    return draw_chart(lines, title, x_label, "median time of a call", format_amount, False)


def cost_table(cases: dict[int, Case], letter: str) -> list[str]:
    """A row for each size: the medians, and the range of our ratio to each rival over the sizes."""
    parties = parties_of(list(cases.values()))
    table = [
        f"| {letter} | " + " | ".join(map(name_of, parties)) + " |",
        "|---" * (1 + len(parties)) + "|",
    ]
    for n, case in cases.items():
        times = (case["seconds"].get(party) for party in parties)
        cells = [format_amount(t[1]) if t else "" for t in times]
        table.append(f"| {n:,} | " + " | ".join(cells) + " |")
    spans = []
    for party in parties:
        ratios = [r for c in cases.values() if (r := c["ratios"].get(party)) is not None]
        ends = dict.fromkeys(map(brief, (min(ratios), max(ratios)))) if ratios else ()
        spans.append(" to ".join(ends))
    return [*table, "| **our time over it** | " + " | ".join(spans) + " |"]


def brief(ratio: float) -> str:
    """Two digits."""
    return f"{ratio:.2g}" if ratio >= 0.001 else "< 0.001"


def ratio_table(cases: list[tuple[str, Case]]) -> list[str]:
    """A row for each case and rival."""
    table = ["| what | shmtensor | rival | its time | ratio |", "|---|---|---|---|---|"]
    for what, case in cases:
        for party, ratio in ratios_of(case).items():
            times = (format_amount(case["seconds"][each][1]) for each in (OURS, party))
            ours, theirs = times
            table.append(f"| {what} | {ours} | {name_of(party)} | {theirs} | {ratio:.2g} |")
    return table


def ratios_of(case: Case) -> dict[str, float]:
    """Our time over each rival's; a run of an earlier version has that to PyTorch only."""
    if "ratios" in case:
        return {party: ratio for party, ratio in case["ratios"].items() if ratio is not None}
    return {} if case["ratio"] is None else {case["against"]: case["ratio"]}


def bars_of(cases: list[tuple[str, Case]]) -> list[Bar]:
    return [
        Bar(f"{what}, {name_of(party)}", ratio)
        for what, case in cases
        for party, ratio in ratios_of(case).items()
    ]


def where_we_lose(cases: list[tuple[str, Case]]) -> str:
    """A sentence with all rivals that took less time than we."""
    lost = [
        f"{what} against {name_of(party)} ({ratio:.2g})"
        for what, case in cases
        for party, ratio in ratios_of(case).items()
        if f"{ratio:.2g}" != "1" and ratio > 1
    ]
    return f"We take longer: {', '.join(lost)}." if lost else "We take longer nowhere here."


def absent(run: Run) -> str:
    """The rivals that this run's machine did not have."""
    versions = run["machine"]["versions"]
    names = [name for name in PACKAGES if not versions.get(name)]
    return f"Not installed in this run, and left out: {', '.join(names)}." if names else ""


def drawn(file: str, alternative: str, svg: str) -> tuple[str, str, str]:
    """A picture: its line in Markdown, its file name, its text."""
    return f"![{alternative}](pictures/{file})", file, svg


def comparisons(runs: list[Run], machine_line: Any) -> tuple[list[str], dict[str, str]]:
    """The lines of the page, and its pictures by file name; ([], {}) without such cases."""
    gradients, copies = by_size(runs, LEAST_SQUARES), by_size(runs, TO_NUMPY)
    networks = [
        (what, match[1])
        for name, what in ((HAND, "by hand"), (AUTOGRAD, "by autograd"))
        if (match := found(runs, f"({re.escape(name)})").get(name))
    ]
    programs = [(what, case) for what, (_, case) in found(runs, PROGRAM).items()]
    if not (gradients and copies and networks and programs):
        return [], {}
    run = next(r for r in runs if any(c["name"] == HAND for c in r["cases"]))
    program_run = next(iter(found(runs, PROGRAM).values()))[0]
    pictures = [
        drawn("comparison-least-squares.svg", "Lines of each library's time by d",
              cost_chart(gradients, "The gradient of |y - Ax|², A of 10 d x d, float32", "d")),
        drawn("comparison-network.svg", "Bars of ratios, with a line at 1",
              draw_bars(bars_of(networks), "64 rows through 1000-100-10, a step of 500",
                        "our time over the rival's")),
        drawn("comparison-to-numpy.svg", "Lines of each library's time by n",
              cost_chart(copies, "An n x n tensor to NumPy and back, float32", "n")),
        drawn("comparison-loader.svg", "Bars of ratios, with a line at 1",
              draw_bars([Bar(what, case["ratio"]) for what, case in programs],
                        "A program of PyTorch's: our loader in place of its own",
                        "time with our loader over that with PyTorch's")),
    ]  # fmt: skip
    shown = [picture for picture, _, _ in pictures]
    by_d = [(f"d = {d}", case) for d, case in gradients.items()]
    by_n = [(f"n = {n:,}", case) for n, case in copies.items()]
    machines = [machine_line(run)]
    if program_run is not run:
        machines += ["", f"The loaders: {machine_line(program_run)}"]
    lines = [
        "# Comparisons",
        "",
        "Tasks that people know from the pages of other libraries, by each library that was "
        "installed; those of one row took turns. "
        "`python -m benchmarks --only '^(comparison|program)/'` measures them, "
        "`python -m benchmarks.harness.performance_page` makes this page. Times "
        "are medians; a ratio is the median over pairs measured in turn, below 1 where we take "
        "less time ([how](design/benchmarks.md); [how far to trust "
        "this](performance.md#how-far-to-trust-this)).",
        "",
        *machines,
        *(["", text] if (text := absent(run)) else []),
        "",
        "## The gradient of least squares",
        "",
        "The gradient of |y - Ax|² by x. Where d is small, the time is that of calling operations "
        "and of backward; where it is large, of two products with A. NumPy computes the formula, "
        "-2 Aᵀ(y - Ax), the others differentiate. JAX compiles the function before.",
        "",
        shown[0],
        "",
        *cost_table(gradients, "d"),
        "",
        where_we_lose(by_d),
        "",
        "## A network with two layers",
        "",
        "64 rows of 1000 numbers through a hidden layer of 100 with ReLU to 10 outputs, squared "
        "errors, 500 steps of gradient descent: with the gradients written by hand, the same "
        "source for tensors and NumPy's arrays, and by autograd. JAX compiles the step before. "
        "The time is that of a step.",
        "",
        shown[1],
        "",
        *ratio_table(networks),
        "",
        where_we_lose(networks),
        "",
        "## To NumPy and back",
        "",
        "`st.from_numpy(x.numpy())`: no byte is copied, and the memory is shared with other "
        "processes all the time. PyTorch does the same with its own memory, which is private; JAX "
        "copies. The others have no tensors: with them a NumPy array is copied to memory that "
        "other processes see, and read from there: `multiprocessing.shared_memory` to a segment; "
        "joblib by `dump` to `/dev/shm`, and `load` with a mapping; ray by `put` and `get`; "
        "mpi4py to a shared window. Its window has one rank here. In another run, at load 33 "
        "and real-time priority, it took 5.6 µs to 16 ms: there Open MPI took private memory for "
        "the window, so that a copy alone was measured.",
        "",
        shown[2],
        "",
        *cost_table(copies, "n"),
        "",
        where_we_lose(by_n),
        "",
        "## Another loader in a program of PyTorch's",
        "",
        "`from shmtensor.utils.data import DataLoader` in place of PyTorch's, nothing else: the "
        "time of an epoch from its first batch on, for a sample "
        "(`benchmarks/beside_pytorch_loader.py`).",
        "",
        shown[3],
        "",
        *ratio_table(programs),
        "",
        where_we_lose(programs),
        "",
    ]
    return lines, {file: svg for _, file, svg in pictures}
