"""The figures of a run that callbacks judge: one by its name, and which value is better."""

from __future__ import annotations

import math
from typing import Any


def figure_of(trainer: Any, name: str, where: str) -> float:
    """A figure of the run.

    Raises:
        ValueError: there is none of this name; the message names those there are.
    """
    figures = trainer.figures
    if name not in figures:
        names = ", ".join(map(repr, sorted(figures))) or "none"
        raise ValueError(f"{where}: no figure of this name: {name!r}, there are: {names}")
    return float(figures[name])


def check_mode(mode: str, where: str) -> None:
    if mode not in ("min", "max"):
        raise ValueError(f"{where}: mode is neither 'min' nor 'max': {mode!r}")


def is_better(value: float, best: float | None, mode: str, min_delta: float = 0.0) -> bool:
    """Whether a figure is better than the best so far by more than `min_delta`; NaN never is."""
    if best is None:
        return not math.isnan(value)
    return value < best - min_delta if mode == "min" else value > best + min_delta
