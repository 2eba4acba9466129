"""Plan: the arguments of one fit; what it does with callbacks and loaders beside the loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from .callbacks import Callback, Schedule


class Plan(NamedTuple):
    """The arguments of one fit."""

    train: Iterable[Any]
    epochs: float
    eval: Iterable[Any] | None
    eval_every: int | None
    max_steps: float
    deadline: float
    limit_train_batches: int | None
    limit_eval_batches: int | None
    callbacks: list[Callback]
    on_step: Callable[[int], None] | None

    def updates_of_epoch(self, accumulate: int, optimizers: int) -> int | None:
        """None: the data does not know its length."""
        try:
            batches = len(self.train)  # type: ignore[arg-type]
        except TypeError:
            return None
        if self.limit_train_batches is not None:
            batches = min(batches, self.limit_train_batches)
        return math.ceil(batches / accumulate) * optimizers


def schedules(scheduler: Any) -> list[Callback]:
    """The callbacks of the argument `scheduler`."""
    if scheduler is None:
        return []
    each = scheduler if isinstance(scheduler, (list, tuple)) else [scheduler]
    return [s if isinstance(s, Callback) else Schedule(s) for s in each]


@contextmanager
def calling(callbacks: list[Callback], trainer: Any) -> Iterator[None]:
    """on_fit_begin of all, and on_fit_end of those that have begun; of the errors in these the
    first is raised."""
    begun: list[Callback] = []
    try:
        for callback in callbacks:
            callback.on_fit_begin(trainer)
            begun.append(callback)
        yield
    finally:
        with ExitStack() as stack:
            for callback in begun:
                stack.callback(callback.on_fit_end, trainer)


def seed_loader(loader: Any, seed: int, epoch: int) -> None:
    """Makes the order of samples a function of seed and epoch, the same in a resumed run."""
    for owner in (loader, *(getattr(loader, name, None) for name in ("sampler", "batch_sampler"))):
        set_epoch = getattr(owner, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch)
        generator = getattr(owner, "generator", None)
        if generator is not None:
            generator.manual_seed((seed * 1_000_003 + epoch) * 1_009)
