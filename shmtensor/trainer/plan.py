"""Plan: the arguments of one fit, its callbacks, and the seeds of its random numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np

from ..dataloaders.loader.progress import (
    chain_of,
    has_generator,
    read,
    read_shared,
    write,
    write_shared,
)
from ..dataloaders.loader.seeding import seed_everything
from .callbacks import Callback, FileCheckpoint, ModelCheckpoint, ProgressBar, Schedule
from .callbacks.callback import EpochFunction, StepFunction


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
    for s in each:
        if not isinstance(s, Callback) and not hasattr(s, "step"):
            raise TypeError(f"Trainer: not a scheduler: {s!r}")
    return [s if isinstance(s, Callback) else Schedule(s) for s in each]


def ordered_callbacks(trainer: Any, on_step: Any, on_epoch: Any, checkpoint: Any) -> list[Callback]:
    """Those of this fit; checkpoints are the last, so that they have what the others change."""
    callbacks = [*trainer.callbacks]
    callbacks += [] if on_step is None else [StepFunction(on_step)]
    callbacks += [] if on_epoch is None else [EpochFunction(on_epoch)]
    if trainer.progress and not any(isinstance(c, ProgressBar) for c in callbacks):
        callbacks.append(ProgressBar())
    if checkpoint is not None:
        callbacks.append(FileCheckpoint(checkpoint))
    return sorted(callbacks, key=lambda c: isinstance(c, (FileCheckpoint, ModelCheckpoint)))


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


# ---------------------------------------------------------------- random numbers
def seed_of(seed: int, number: int, rank: int = 0) -> int:
    """The seed of a rank's random numbers in a step or an epoch: the same in every run."""
    return ((seed * 1_000_003 + number) * 1_009 + rank) % 2**63


def seed_epoch(loader: Any, seed: int, epoch: int) -> None:
    """Makes the order of samples a function of seed and epoch, the same in a resumed run: of a
    loader of this library or of PyTorch, and of what draws from the generators of the program.
    """
    for owner in (loader, *samplers_of(loader)):
        set_epoch = getattr(owner, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch)
    number = seed_of(seed, epoch)
    for generator in generators_of(loader):
        if isinstance(generator, np.random.Generator):
            generator.bit_generator.state = type(generator.bit_generator)(number).state
        else:
            generator.manual_seed(number)
    seed_everything(number)


def samplers_of(loader: Any) -> list[Any]:
    sources = (getattr(loader, name, None) for name in ("batch_sampler", "sampler"))
    return [sampler for source in sources for sampler in chain_of(source)]


def generators_of(loader: Any) -> list[Any]:
    """The generators of a loader and its samplers, without those of the program."""
    return [each.generator for each in (loader, *samplers_of(loader)) if has_generator(each)]


@contextmanager
def states_kept(loader: Any = None) -> Iterator[None]:
    """Leaves the random states of this library, Python, NumPy, PyTorch and the loader as they
    were."""
    generators, shared = generators_of(loader), read_shared()
    states = [read(generator) for generator in generators]
    try:
        yield
    finally:
        write_shared(shared)
        for generator, state in zip(generators, states, strict=True):
            write(generator, state)
