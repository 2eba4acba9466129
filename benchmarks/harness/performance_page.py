"""The figures of README.md, docs/performance.md and docs/comparisons.md, from the newest results.

    python -m benchmarks.harness.performance_page

README gets five figures. docs/performance.md gets a row per layer, the cases that miss their
target, its hand-written part (NOTES), and all cases. Newer runs of some cases (`--only`) follow the
last complete one. comparison_page.py has the third page.
"""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .. import collectives as collective
from .. import loader
from . import comparison_page
from .record import RESULTS, Run, load
from .report import format_amount

ROOT = Path(__file__).resolve().parents[2]
START, END = (
    "<!-- figures: python -m benchmarks.harness.performance_page -->\n",
    "<!-- end of figures -->",
)
NOTES = ("<!-- notes -->\n", "<!-- end of notes -->")
# Cases of README, and their descriptions there.
FIVE = {
    "send/16 MB": "a tensor of 16 MB to another process and its answer back",
    "loader/64 px, 2 workers": "a 64 x 64 image from two loader processes, time per image",
    "all_reduce/25 MB, 2 ranks": "the sum of 25 MB over two processes",
    "data-parallel step/784-512-256-10, 2 ranks": "a training step of a small network on two ranks",
    "autograd/5 tiny ops": "forward and backward of five operations on tiny tensors",
}
LONG = ("dispatch", "large")  # layers whose cases are a table of every family of ops
TINY = "dispatch/matmul"
Case = dict[str, Any]
COLLECTIVES = [
    "## Collectives and memcpy",
    "",
    "Two ranks on two cores have to read and write each byte of an all_reduce once for each of",
    "them, of a broadcast once. Beside them: C's memcpy by both ranks, of as many bytes, in",
    "memory as large.",
]
BATCHES = [
    "## The loader and memcpy",
    "",
    "Beside it: the bytes of each sample to warm memory and nothing else, a call for each batch,",
    "by two threads.",
]


def newest() -> list[Run]:
    """The last complete run of any machine, and later runs of some cases on that kind."""
    files = [runs for path in RESULTS.glob("*.jsonl") if not (runs := load(path))[0]["only"]]
    return max(files, key=lambda runs: runs[0]["machine"]["time"])


def layer_of(case: Case) -> str:
    name: str = case["name"]
    return name.split("/")[0]


def median(case: Case, party: str) -> str:
    if party not in case["seconds"]:
        return ""
    return format_amount(case["seconds"][party][1], case["unit"])


def machine_line(run: Run) -> str:
    m = run["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in m["versions"].items() if version)
    return (
        f"{m['processor']}, {m['cores']} cores, Python {m['python']}, {versions}; "
        f"memcpy {m['memcpy_all_threads'] / 1e9:.1f} GB/s; load {m['load']:.1f}; {m['time']}."
    )


def rows(cases: list[Case]) -> list[str]:
    """A Markdown table of cases. Ratio: median over pairs of ours / the rival's time."""
    table = ["| case | shmtensor | PyTorch | ratio | target |", "|---|---|---|---|---|"]
    for case in cases:
        ratio = "" if case["ratio"] is None else f"{case['ratio']:.2g}"
        target = "" if case["target"] is None else f"{case['target']:g}"
        ours, theirs = median(case, "shmtensor"), median(case, "pytorch")
        table.append(f"| {case['name']} | {ours} | {theirs} | {ratio} | {target} |")
    return table


def bounds(run: Run) -> list[str]:
    """A comparison of cases with the machine's limits; [] if these are unknown."""
    limits = run["machine"].get("ceilings")
    if not limits:
        return []
    amounts = {f"matmul/{n}": (2 * n**3, "flops") for n in (256, 512, 1024, 2048)}
    amounts |= {"pointwise/add, 1 M": (12e6, "add_1m"), "pointwise/add, 10 M": (12e7, "add_10m")}
    least = {name: amount / limits[kind] for name, (amount, kind) in amounts.items()}
    op = [c["seconds"]["shmtensor"][1] for c in run["cases"] if c["name"] == TINY]
    if op and "flops_one_core" in limits:
        least["matmul/64"] = op[0] + 2 * 64**3 / limits["flops_one_core"]
    if "wake" in limits:
        least["send/16 MB"] = limits["wake"]
    return [
        "",
        "## What the machine allows",
        "",
        "`benchmarks/harness/ceiling.c`, compiled and run beside the cases: multiply-adds with",
        "nothing but registers, and `x + y` by a plain loop on warm memory, on all cores. A",
        "product of 64 x 64 is too small for a second thread: one core's multiply-adds, and what",
        f"the op costs when there is next to nothing to multiply (`{TINY}`). Sending after 16 MB",
        "were written: who sleeps is woken, and the sender spins until it has answered. In",
        "brackets the share of the least time that each reaches; the ratio cannot be smaller than",
        "PyTorch's.",
        "",
        "| case | least | shmtensor | PyTorch |",
        "|---|---|---|---|",
        *(
            f"| {case['name']} | {format_amount(least[case['name']])} | "
            + " | ".join(
                f"{format_amount(took)} ({least[case['name']] / took:.0%})"
                for party in ("shmtensor", "pytorch")
                if party in case["seconds"]
                for took in [case["seconds"][party][1]]
            )
            + " |"
            for case in run["cases"]
            if case["name"] in least
        ),
    ]


def shares(run: Run, party: str, head: list[str]) -> list[str]:
    """A comparison of cases with memcpy, the party `party`; [] if it was not measured."""
    table = [
        "",
        *head,
        "More than 100 %: what was just written is read from a cache.",
        "",
        "| case | memcpy | shmtensor | share of memcpy's speed |",
        "|---|---|---|---|",
    ]
    n = len(table)
    for case in run["cases"]:
        if {"shmtensor", party} <= case["seconds"].keys():
            times = f"{median(case, party)} | {median(case, 'shmtensor')}"
            table.append(f"| {case['name']} | {times} | {case['share']:.0%} |")
    return table if len(table) > n else []


def as_page(lines: Iterable[str]) -> str:
    """The lines as one text; those of paragraphs have at most 120 characters."""
    fill = textwrap.TextWrapper(120, break_long_words=False, break_on_hyphens=False).fill
    return "\n".join(line if "\n" in line or line[:1] in "|#<" else fill(line) for line in lines)


def readme(runs: list[Run]) -> str:
    """README's five figures, of the one run that measured all of them last."""
    run = next(r for r in runs if FIVE.keys() <= {case["name"] for case in r["cases"]})
    cases = {case["name"]: case for case in run["cases"]}
    lines = ["| what | shmtensor | PyTorch | ratio |", "|---|---|---|---|"]
    for name, what in FIVE.items():
        case = cases[name]
        times = f"{median(case, 'shmtensor')} | {median(case, 'pytorch')}"
        lines.append(f"| {what} | {times} | {case['ratio']:.2g} |")
    return as_page(
        [
            "Both libraries ran in turn on the CPU of one machine. The times are medians. "
            "A ratio below 1 means that shmtensor is faster. `python -m benchmarks` measures it.",
            "",
            machine_line(run),
            "",
            *lines,
            "",
        ]
    )


def summary(run: Run) -> list[str]:
    """A row per layer, then the cases that miss their target."""
    layers: dict[str, list[Case]] = {}
    for case in run["cases"]:
        if case["ratio"] is not None and case["against"] == "pytorch":
            layers.setdefault(layer_of(case), []).append(case)
    table = ["| layer | cases | ratio to PyTorch: best, median, worst |", "|---|---|---|"]
    for layer, cases in layers.items():
        ratios = sorted(case["ratio"] for case in cases)
        values = f"{ratios[0]:.2g}, {statistics.median(ratios):.2g}, {ratios[-1]:.2g}"
        table.append(f"| {layer} | {len(cases)} | {values} |")
    judged = [c for c in run["cases"] if c["ratio"] is not None and c["target"] is not None]
    misses = [c for c in judged if c["ratio"] > c["target"]]
    listed = [c for c in misses if layer_of(c) not in LONG]
    lines = table
    if judged:
        lines += ["", f"{len(judged) - len(misses)} of {len(judged)} targets are met."]
    if n_unlisted := len(misses) - len(listed):
        lines.append(
            f"{n_unlisted} of the missed ones are rows of the long tables (tiny and large operands "
            "of every family)."
        )
    return [*lines, "", "Missed:", "", *rows(listed)] if listed else lines


def performance(runs: list[Run], notes: str) -> str:
    """docs/performance.md."""
    run, *parts = runs
    return as_page(
        [
            "# Performance",
            "",
            "Made by `python -m benchmarks.harness.performance_page` from the newest file in "
            "`benchmarks/results/`. Medians; the ratio is the median over pairs measured in turn "
            "([how](design/benchmarks.md)). [Comparisons](comparisons.md) has pictures of tasks "
            "that people know, beside more libraries.",
            "",
            machine_line(run),
            "",
            *summary(run),
            *(line for part in parts for line in ["", machine_line(part), "", *summary(part)]),
            "",
            NOTES[0] + notes + NOTES[1],
            "",
            "## All cases",
            "",
            *rows(run["cases"]),
            *bounds(run),
            *shares(run, collective.MEMCPY, COLLECTIVES),
            *shares(run, loader.MEMCPY, BATCHES),
            *(line for part in parts for line in later_run(part)),
            "",
        ]
    )


def later_run(part: Run) -> list[str]:
    """The layers of a later partial run."""
    names = sorted({layer_of(case) for case in part["cases"]})
    return ["", f"## {', '.join(names)}", "", machine_line(part), "", *rows(part["cases"])]


def split_page(text: str, start: str, end: str) -> tuple[str, str, str]:
    """The text up to and with `start`, the text between, and the text from `end` on."""
    head, remainder = text.split(start)
    body, tail = remainder.split(end)
    return head + start, body, end + tail


def main() -> None:
    """Writes the pages."""
    runs = newest()
    page = ROOT / "README.md"
    head, _, tail = split_page(page.read_text(), START, END)
    page.write_text(head + readme(runs) + tail)
    page = ROOT / "docs" / "performance.md"
    _, notes, _ = split_page(page.read_text(), *NOTES)
    page.write_text(performance(runs, notes))
    lines, pictures = comparison_page.comparisons(runs, machine_line)
    if lines:
        (ROOT / "docs" / "comparisons.md").write_text(as_page(lines))
    for file, svg in pictures.items():
        (comparison_page.PICTURES / file).write_text(svg)


if __name__ == "__main__":
    main()
