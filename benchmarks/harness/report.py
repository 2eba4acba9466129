"""The table on the terminal."""

from __future__ import annotations

import statistics

from .case import OURS
from .measure import Result

REST = float("inf")
SCALES = {
    "s": ((1e-6, 1e-9, "ns"), (1e-3, 1e-6, "µs"), (1.0, 1e-3, "ms"), (REST, 1.0, "s")),
    "B": ((1e6, 1e3, "KB"), (REST, 1e6, "MB")),
}


def format_amount(amount: float, unit: str = "s") -> str:
    """Three digits and a unit."""
    for below, scale, name in SCALES[unit]:
        if amount < below:
            value = amount / scale
            return f"{value:.3g} {name}" if value < 1000 else f"{value:.0f} {name}"
    raise ValueError(f"format_amount: not a number of {unit}: {amount}")


def format_range(seconds: list[float], of: str) -> str:
    """min / median / max, in the unit of the median."""
    median = statistics.median(seconds)
    _, unit, name = next(u for u in SCALES[of] if median < u[0])
    low, high = min(seconds), max(seconds)
    return " / ".join(f"{x / unit:.3g}" for x in (low, median, high)) + f" {name}"


def title() -> str:
    """The columns' names."""
    columns = f"{'case':38} {'shmtensor min / med / max':>28} {'rivals: median':34}"
    return f"{columns} {'ratio':>6} {'target':>6}"


def line(result: Result) -> str:
    """One row; it ends with whether the target is met."""
    ours = result.seconds.get(OURS)
    rivals = ", ".join(
        f"{name} {format_amount(statistics.median(seconds), result.unit)}"
        for name, seconds in result.seconds.items()
        if name != OURS
    )
    if result.share is not None:
        rivals += f" (we reach {result.share:.0%} of it)"
    ratio = "" if result.ratio is None else f"{result.ratio:.2f}"
    target = "" if result.target is None else f"{result.target:.2f}"
    mark = ""
    if result.ratio is not None and result.target is not None:
        mark = "ok" if result.ratio <= result.target else "MISS"
    times = format_range(ours, result.unit) if ours else "not installed"
    return f"{result.name:38} {times:>28} {rivals:34} {ratio:>6} {target:>6} {mark}".rstrip()


def summary(results: list[Result]) -> str:
    """The numbers of cases and of met targets."""
    judged = [r.ratio <= r.target for r in results if r.ratio is not None and r.target is not None]
    return f"{len(results)} cases, {sum(judged)} of {len(judged)} targets met"
