"""Checkpoints: written to a temporary file and renamed, so that a path always has a whole one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

FORMAT = 1


def write(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Saves atomically: a kill at any moment leaves the old file or the new one."""
    from ..serialization import save

    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        save({"format": FORMAT, **state}, partial)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        with suppress(FileNotFoundError):  # renamed, or never created
            partial.unlink()


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Loads a file that `write` saved.

    Raises:
        ValueError: the file is not a checkpoint of a trainer, or has another format.
    """
    from ..serialization import load

    state = load(os.fspath(path), map_location="cpu")  # it may be from a machine with GPUs
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        file_format = state.get("format") if isinstance(state, dict) else type(state).__name__
        raise ValueError(
            f"Trainer.load: not a checkpoint of this format: {path}: {file_format}, not {FORMAT}"
        )
    return state
