"""What a trainer says of itself, as text and in notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..html_table import html_table

if TYPE_CHECKING:
    from .trainer import Trainer


def parts(trainer: Trainer) -> list[tuple[str, str]]:
    """Names and descriptions of its parts."""
    n = sum(p.numel() for p in trainer.model.parameters())
    step = trainer.steps.training_step or trainer.loss
    return [
        ("model", f"{type(trainer.model).__name__}, {n:,} parameters"),
        ("optimizer", ", ".join(type(o).__name__ for o in trainer.optimizers)),
        ("loss", getattr(step, "__name__", type(step).__name__)),
        ("nprocs", str(trainer.nprocs)),
        ("callbacks", ", ".join(type(c).__name__ for c in trainer.callbacks) or "none"),
        ("trained", f"{trainer.epoch} epochs, {trainer.step} steps"),
    ]


def as_text(trainer: Trainer) -> str:
    return "Trainer(\n" + "".join(f"  {name}: {text}\n" for name, text in parts(trainer)) + ")"


def as_html(trainer: Trainer) -> str:
    return html_table(("Trainer", ""), parts(trainer))
