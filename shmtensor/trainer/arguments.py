"""Checks of a Trainer's arguments, before anything has begun."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..nn import Module
from ..optim import LBFGS, Optimizer
from .gradients import parameters_of

NUMBERS = (int, float, np.integer, np.floating)


def check_counts(where: str, **values: Any) -> None:
    """Raises ValueError for what is neither None nor a positive whole number."""
    for name, value in values.items():
        is_count = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if value is not None and not (is_count and value >= 1):
            raise ValueError(f"{where}: {name} is not a positive whole number: {value!r}")


def check_amounts(where: str, **values: Any) -> None:
    """Raises ValueError for what is neither None nor a number from 0 on."""
    for name, value in values.items():
        if value is not None and (not isinstance(value, NUMBERS) or not value >= 0):
            raise ValueError(f"{where}: {name} is not a number from 0 on: {value!r}")


def check_functions(**functions: Any) -> None:
    """Raises TypeError for what is neither None nor can be called."""
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise TypeError(
                f"Trainer: {name} cannot be called: {function!r}, pass a function or a module, as "
                "nn.MSELoss()"
            )


def check_batches(where: str, batches: Any) -> None:
    """Raises TypeError for what cannot be iterated."""
    if not hasattr(batches, "__iter__") and not hasattr(batches, "__getitem__"):
        raise TypeError(
            f"{where}: batches come from a DataLoader, or a list of batches: got {batches!r:.80}"
        )


def check_optimizers(optimizers: list[Any]) -> None:
    """Raises TypeError for what is no optimizer, or needs a closure."""
    for each in optimizers:
        if not isinstance(each, Optimizer):
            raise TypeError(
                f"Trainer: not an optimizer of shmtensor.optim: {each!r:.80}, pass one, as "
                "optim.SGD(model.parameters(), lr=0.1)"
            )
        if isinstance(each, LBFGS):
            raise TypeError(
                "Trainer: LBFGS.step needs a closure, which computes the loss several times: call "
                "it in a loop of your own"
            )


def check_parameters(model: Module, optimizers: list[Any]) -> None:
    """Raises ValueError for parameters of the model that no optimizer has."""
    known = {id(p) for p in parameters_of(*optimizers)}
    missing = [
        name for name, p in model.named_parameters() if p.requires_grad and id(p) not in known
    ]
    if missing:
        raise ValueError(
            f"Trainer: the optimizer lacks {len(missing)} of the model's parameters: "
            f"{', '.join(missing[:5])}{', ...' * (len(missing) > 5)}: add them to it, freeze "
            "them by requires_grad_(False), or pass check_parameters=False"
        )
