"""The line search of LBFGS: how far to go so that the strong Wolfe conditions hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Point", "strong_wolfe"]


@dataclass(eq=False)
class Point:
    """A place on the line.

    Attributes:
        t: how far from the start, in lengths of the direction.
        loss, g: the loss there, and its gradient.
        slope: the derivative of the loss by t.
    """

    t: float
    loss: float
    g: Any
    slope: float


def strong_wolfe(
    at: Callable[[float], Point],
    start: Point,
    t: float,
    size: float,
    max_ls: int,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
) -> tuple[Point, int]:
    """Bracketing and zoom with cubic interpolation (Nocedal, Wright 2006, algorithms 3.5 and 3.6).

    Args:
        at: evaluates the line.
        start: its beginning, t = 0.
        t: where to look first.
        size: the largest element of the direction.
        max_ls: trials after the first.
        c1: the loss must fall by this part of what the slope at the start promises.
        c2: the slope must become smaller than this part of the slope at the start.
        tolerance_change: how much less than this no parameter need be moved.

    Returns: the point found, and how often `at` was called.
    """

    def is_high(point: Point) -> bool:
        return point.loss > start.loss + c1 * point.t * start.slope

    def is_flat(point: Point) -> bool:
        return abs(point.slope) <= -c2 * start.slope

    before, here = start, at(t)
    calls, trials = 1, 0
    while True:
        if trials >= max_ls:
            ends = [start, here]
            break
        if is_high(here) or (trials > 1 and here.loss >= before.loss):
            ends = [before, here]
            break
        if is_flat(here):
            return here, calls
        if here.slope >= 0:
            ends = [before, here]
            break
        bounds = (here.t + 0.01 * (here.t - before.t), here.t * 10)
        t = interpolate(before, here, bounds)
        before, here = here, at(t)
        calls += 1
        trials += 1

    low, high = in_order(ends)
    stuck = False  # whether the trial before was close to an end
    while trials < max_ls:
        left, right = sorted((low.t, high.t))
        if (right - left) * size < tolerance_change:
            break
        t = interpolate(ends[0], ends[1])
        margin = 0.1 * (right - left)
        close = min(right - t, t - left) < margin
        if close and (stuck or not left < t < right):
            t = right - margin if abs(t - right) < abs(t - left) else left + margin
            close = False
        stuck = close
        here = at(t)
        calls += 1
        trials += 1
        if is_high(here) or here.loss >= low.loss:
            ends[ends.index(high)] = here
            low, high = in_order(ends)
        else:
            if is_flat(here):
                return here, calls
            if here.slope * (high.t - low.t) >= 0:
                ends[ends.index(high)] = high = low
            ends[ends.index(low)] = low = here
    return low, calls


def in_order(ends: list[Point]) -> tuple[Point, Point]:
    """The end with the smaller loss, and the other."""
    first, second = ends
    return (first, second) if first.loss <= second.loss else (second, first)


def interpolate(x: Point, y: Point, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic through two points with these slopes is smallest, within the bounds."""
    lower, upper = sorted((x.t, y.t)) if bounds is None else bounds
    if x.t == y.t:
        return (lower + upper) / 2.0
    a = x.slope + y.slope - 3 * (x.loss - y.loss) / (x.t - y.t)
    square = a * a - x.slope * y.slope
    if not square >= 0:
        return (lower + upper) / 2.0
    b = square**0.5
    first, second = (x, y) if x.t <= y.t else (y, x)
    whole = second.slope - first.slope + 2 * b
    if not whole:
        return (lower + upper) / 2.0
    share = (second.slope + b - a) / whole
    return float(min(max(second.t - (second.t - first.t) * share, lower), upper))
