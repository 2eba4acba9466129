"""Checkpoints: written to a temporary file and renamed, so that a path always has a whole one; and
whether one is of this trainer. Snapshots: the same in memory, for a run itself.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = 2


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


@contextmanager
def whole_or_not_at_all(trainer: Any) -> Iterator[None]:
    """Puts the trainer's state back if an error is raised inside. Copies: one of it."""
    before = deepcopy(trainer.state_dict())
    try:
        yield
    except BaseException:
        with suppress(Exception):  # a callback may refuse this state, too
            trainer._load_state(before)
        raise


def check(trainer: Any, state: dict[str, Any]) -> None:
    """Raises ValueError if a state is not one of this trainer's model, optimizers and callbacks."""
    check_model(trainer.model.state_dict(), state["model"])
    types = [type(each).__name__ for each in trainer.optimizers]
    if types != state["optimizer_types"]:
        raise ValueError(
            f"Trainer.load: the optimizers are {', '.join(types)}, those of the checkpoint "
            f"{', '.join(state['optimizer_types'])}"
        )
    for optimizer, saved in zip(trainer.optimizers, state["optimizers"], strict=True):
        sizes = [len(group["params"]) for group in optimizer.param_groups]
        saved_sizes = [len(group["params"]) for group in saved["param_groups"]]
        if sizes != saved_sizes:
            raise ValueError(
                f"Trainer.load: the groups of {type(optimizer).__name__} have {sizes} parameters, "
                f"those of the checkpoint {saved_sizes}"
            )


def check_model(state: dict[str, Any], saved: dict[str, Any]) -> None:
    differing = [
        f"{name} {tuple(x.shape)}, not {tuple(saved[name].shape)}"
        for name, x in state.items()
        if name in saved and getattr(saved[name], "shape", ()) != getattr(x, "shape", ())
    ]
    missing = [name for name in state if name not in saved]
    unexpected = [name for name in saved if name not in state]
    if missing or unexpected or differing:
        texts = [
            f"{what}: {', '.join(names[:3])}{', ...' * (len(names) > 3)}"
            for what, names in (
                ("missing", missing), ("unexpected", unexpected), ("of another shape", differing)
            )
            if names
        ]  # fmt: skip
        raise ValueError(f"Trainer.load: the checkpoint is of another model: {'; '.join(texts)}")


def paired(callbacks: list[Any], saved: list[tuple[str, Any]]) -> list[tuple[Any, Any]]:
    """Each callback with its saved state: those of one class in their order. A new callback has
    none; of one that is missing here, the state is left, with a warning if there is one.
    """
    pairs, left, lost = [], list(callbacks), []
    for name, state in saved:
        callback = next((c for c in left if type(c).__name__ == name), None)
        if callback is not None:
            left.remove(callback)
            pairs.append((callback, state))
        elif state:
            lost.append(name)
    if lost:
        warnings.warn(
            f"Trainer.load: the checkpoint's state of {', '.join(lost)} is not used: this trainer "
            f"has no such callback",
            RuntimeWarning,
            stacklevel=4,
        )
    return pairs


# ---------------------------------------------------------------- in memory
class Snapshot:
    """A private copy of arrays after some updates, and of what else belongs to that step. Copies:
    one. An interrupt within `take` leaves it torn: the weights are complete then, and it is not
    restored.

    Attributes:
        due: when the next one is to be taken, by `time.perf_counter`.
    """

    def __init__(self, sources: list[np.ndarray[Any, np.dtype[Any]]]) -> None:
        self.sources = sources
        self.copies = [np.empty_like(x) for x in sources]
        self.updates, self.progress, self.due = 0, None, 0.0

    def take(self, updates: int, progress: Any) -> None:
        self.updates, self.progress = updates, progress
        for source, copy in zip(self.sources, self.copies, strict=True):
            np.copyto(copy, source)

    def restore(self) -> Any:
        """Restores the arrays; returns the progress."""
        for source, copy in zip(self.sources, self.copies, strict=True):
            np.copyto(source, copy)
        return deepcopy(self.progress)
