"""The line search of LBFGS: a step length that fulfils the strong Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class Point:
    """A point on the line.

    Attributes:
        t: distance from the start, in lengths of the direction.
        loss, g: the loss there, and its gradient.
        slope: the derivative of the loss by t.
    """

    t: float
    loss: float
    g: Any
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], Point],
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
        evaluate: evaluates the line.
        start: its beginning, t = 0.
        t: the first trial.
        size: the largest element of the direction.
        max_ls: trials after the first.
        c1: the loss must fall by this share of the decrease that the slope at the start predicts.
        c2: the slope must become smaller than this share of the slope at the start.
        tolerance_change: stops when no parameter would change by more than this.

    Returns: the final point, and the number of calls of `evaluate`.
    """

    def is_high(point: Point) -> bool:
        return point.loss > start.loss + c1 * point.t * start.slope

    def is_flat(point: Point) -> bool:
        return abs(point.slope) <= -c2 * start.slope

    before, current = start, evaluate(t)
    calls, trials = 1, 0
    while True:
        if trials >= max_ls:
            ends = [start, current]
            break
        if is_high(current) or (trials > 1 and current.loss >= before.loss):
            ends = [before, current]
            break
        if is_flat(current):
            return current, calls
        if current.slope >= 0:
            ends = [before, current]
            break
        bounds = (current.t + 0.01 * (current.t - before.t), current.t * 10)
        t = interpolate(before, current, bounds)
        before, current = current, evaluate(t)
        calls += 1
        trials += 1

    low, high = by_loss(ends)
    stuck = False  # whether the previous trial was close to an end
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
        current = evaluate(t)
        calls += 1
        trials += 1
        if is_high(current) or current.loss >= low.loss:
            ends[ends.index(high)] = current
            low, high = by_loss(ends)
        else:
            if is_flat(current):
                return current, calls
            if current.slope * (high.t - low.t) >= 0:
                ends[ends.index(high)] = high = low
            ends[ends.index(low)] = low = current
    return low, calls


def by_loss(ends: list[Point]) -> tuple[Point, Point]:
    """The end with the smaller loss, and the other."""
    first, second = ends
    return (first, second) if first.loss <= second.loss else (second, first)


def interpolate(x: Point, y: Point, bounds: tuple[float, float] | None = None) -> float:
    """The minimum, within the bounds, of the cubic through two points with these slopes."""
    lower, upper = sorted((x.t, y.t)) if bounds is None else bounds
    if x.t == y.t:
        return (lower + upper) / 2.0
    a = x.slope + y.slope - 3 * (x.loss - y.loss) / (x.t - y.t)
    square = a * a - x.slope * y.slope
    if not square >= 0:
        return (lower + upper) / 2.0
    b = square**0.5
    first, second = (x, y) if x.t <= y.t else (y, x)
    denominator = second.slope - first.slope + 2 * b
    if not denominator:
        return (lower + upper) / 2.0
    fraction = (second.slope + b - a) / denominator
    return float(min(max(second.t - (second.t - first.t) * fraction, lower), upper))
