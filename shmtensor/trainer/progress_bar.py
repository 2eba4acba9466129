"""The progress bar: tqdm without its monitor thread, for which a later fork would warn."""

from __future__ import annotations

from typing import Any


class Progress:
    """One bar for the run, drawn by rank 0.

    Args:
        total: optimizer steps, or None if the loader does not know.
        is_shown: False draws nothing.
    """

    def __init__(self, total: int | None, is_shown: bool) -> None:
        self.bar: Any = None
        self.figures: dict[str, str] = {}
        if is_shown:
            from tqdm import tqdm

            bar = type("Bar", (tqdm,), {"monitor_interval": 0})
            self.bar = bar(total=total, unit="step", dynamic_ncols=True, mininterval=0.1)

    def begin_epoch(self, epoch: int, epochs: int) -> None:
        if self.bar is not None:
            self.bar.set_description(f"epoch {epoch}/{epochs}", refresh=False)

    def advance(self, steps: int) -> None:
        """Sets the number of steps since the beginning of the run."""
        if self.bar is not None and steps > self.bar.n:
            self.bar.update(steps - self.bar.n)

    def show(self, **figures: float | None) -> None:
        if self.bar is not None:
            self.figures.update({k: f"{v:.4f}" for k, v in figures.items() if v is not None})
            self.bar.set_postfix(self.figures, refresh=False)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None
