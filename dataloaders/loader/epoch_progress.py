"""How far an epoch is, and how to go on from there in another process.

    generator's state ──> seed of the epoch, and order of its samples ──> numbered index lists
    batches handed over:  0 1 2 3 4 . 6 . .        batches = 5, ahead = [6]

The order is not stored: it is drawn again from the state that the generator had when the epoch
began, and what was handed over is left out. A batch's content follows from the seed and its number
(Note [Seeds of samples]), so nothing else is needed for map-style data, whoever makes the batches.
A sampler with `state_dict` is asked for its state at each batch instead, and a stream says where it
is with each batch that it sends.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from shmtensor.random import Generator, default_generator

from ..sampler import BatchSampler, Sampler
from .fetch import is_stateful
from .seeding import GeneratorLike, new_seed

__all__ = ["Progress", "State", "check_state"]

PACKAGE = "dataloaders"

State = dict[str, Any]
VERSION = 2


class Progress:
    """One epoch: its seed, its numbered index lists, and which batches have been handed over.

    Args:
        source: the index lists (or indices) of an epoch.
        generator: what seed and order are drawn from.
        streams: the workers that read a stream, [-1] without workers; [] for map-style data.
        size: samples per batch.
        every: after how many batches a sampler's state is taken.
        resumed: the state of a `Progress` to go on from.
    """

    def __init__(
        self,
        source: Iterable[Any],
        generator: GeneratorLike,
        streams: Sequence[int],
        size: int,
        every: int = 1,
        resumed: State | None = None,
    ) -> None:
        self.every = every
        self.size = size
        self.batches = resumed["batches"] if resumed else 0
        self.ahead: set[int] = set(resumed["ahead"]) if resumed else set()
        self.is_over = False
        self.streams = fresh_streams(streams, size)
        self.turn = 0  # the stream whose batch comes next
        if resumed and streams and resumed["seed"] is not None:
            self.streams, self.turn = copy.deepcopy(resumed["streams"]), resumed["turn"]
        samplers = chain_of(source)
        self.keeper: Any = next((s for s in samplers if is_stateful(s)), None)
        self.kept: tuple[int, Any] | None = None  # the sampler's state after so many batches
        self.waiting: dict[int, Any] = {}  # such states of batches that are under way
        self.number = 0  # of the next index list
        with self.restored_generators(generator, samplers, resumed):
            self.origin = resumed["origin"] if resumed else capture(generator, samplers)
            seed = new_seed(generator)
            self.seed = seed if resumed is None or resumed["seed"] is None else resumed["seed"]
            if resumed:
                self.restore(resumed, samplers)
            elif self.keeper is not None:
                self.kept = 0, copy.deepcopy(self.keeper.state_dict())
            self.lists = iter(source)
            self.first = self.next_indices()

    # ------------------------------------------------------------------ the order
    def next_indices(self) -> tuple[int, Any] | None:
        """The next index list that has not been handed over, with its number; None at the end."""
        while True:
            try:
                indices = next(self.lists)
            except StopIteration:
                return None
            number, self.number = self.number, self.number + 1
            if self.keeper is not None and self.number % self.every == 0:
                self.waiting[number] = copy.deepcopy(self.keeper.state_dict())
            if not self.streams and (number < self.batches or number in self.ahead):
                self.remember(number)
                continue
            return number, indices

    def __next__(self) -> tuple[int, Any]:
        found, self.first = self.first, None
        if found is None and (found := self.next_indices()) is None:
            raise StopIteration
        return found

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return self

    # ------------------------------------------------------------------ what was handed over
    def hand_over(self, number: int, stream: int = 0, state: Any = None) -> None:
        """Batch `number` is the consumer's."""
        if self.streams:
            place = self.streams[stream]
            place["batches"] += 1
            if state is not None:
                place["state"] = state
            self.turn = (stream + 1) % len(self.streams)
            self.batches += 1
        elif number != self.batches:
            self.ahead.add(number)
        else:
            self.remember(number)
            self.batches += 1
            while self.batches in self.ahead:
                self.ahead.remove(self.batches)
                self.remember(self.batches)
                self.batches += 1

    def remember(self, number: int) -> None:
        """All batches up to this one are handed over: the sampler's state there is a place to go
        on from."""
        state = self.waiting.pop(number, None)
        if state is not None and number <= self.batches:
            self.kept = number + 1, state

    def state(self) -> State:
        """What another `Progress` needs to go on from here."""
        return {
            "seed": self.seed,
            "origin": self.origin,
            "batches": self.batches,
            "ahead": sorted(self.ahead),
            "sampler": copy.deepcopy(self.kept),
            "streams": copy.deepcopy(self.streams),
            "turn": self.turn,
        }

    @staticmethod
    def between(source: Any, generator: GeneratorLike, streams: Sequence[int], size: int) -> State:
        """The state of an epoch that has not begun yet."""
        samplers = chain_of(source)
        keeper = next((s for s in samplers if is_stateful(s)), None)
        return {
            "seed": None,
            "origin": capture(generator, samplers),
            "batches": 0,
            "ahead": [],
            "sampler": None if keeper is None else (0, copy.deepcopy(keeper.state_dict())),
            "streams": fresh_streams(streams, size),
            "turn": 0,
        }

    # ------------------------------------------------------------------ where it came from
    def restore(self, resumed: State, samplers: list[Any]) -> None:
        """Puts the samplers where they were."""
        for sampler, epoch in zip(samplers, self.origin["epochs"], strict=False):
            is_begun = resumed["seed"] is not None
            if is_begun and epoch is not None and hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)
        if resumed["sampler"] is not None and self.keeper is not None:
            self.keeper.load_state_dict(copy.deepcopy(resumed["sampler"][1]))
        if resumed["sampler"] is not None:
            self.kept = resumed["sampler"]
            self.number = resumed["sampler"][0]

    @contextmanager
    def restored_generators(
        self, generator: GeneratorLike, samplers: list[Any], resumed: State | None
    ) -> Iterator[None]:
        """Inside, the generators are as they were when the epoch began.

        The caller's own generators stay where the epoch leaves them; the default ones are put back,
        for they are the whole program's.
        """
        if resumed is None:
            yield
            return
        origin = resumed["origin"]
        before = read(None), random.getstate(), np.random.get_state()
        if "default" in origin:
            write(None, origin["default"])
        write(generator, origin["generator"])
        for sampler, state in zip(samplers, origin.get("samplers", ()), strict=False):
            if state is not None:
                write(sampler.generator, state)
        if "python" in origin:
            random.setstate(origin["python"])
            np.random.set_state(origin["numpy"])
        try:
            yield
        finally:
            write(None, before[0])
            random.setstate(before[1])
            np.random.set_state(before[2])


def fresh_streams(workers: Sequence[int], size: int) -> list[State]:
    """The places of streams at their beginning: whose it is, batches handed over, samples in each,
    and the latest state that the stream told, with the number of batches until then."""
    return [{"worker": w, "batches": 0, "size": size, "state": None} for w in workers]


def capture(generator: GeneratorLike, samplers: list[Any]) -> State:
    """The state from which seed and order of an epoch that begins now can be drawn again."""
    found: State = {"generator": read(generator), "default": read(None)}
    found["samplers"] = [read(s.generator) if has_generator(s) else None for s in samplers]
    if any(type(s).__module__.split(".")[0] != PACKAGE for s in samplers):
        found["python"], found["numpy"] = random.getstate(), np.random.get_state()
    found["epochs"] = [getattr(s, "epoch", None) for s in samplers]
    return found


def has_generator(sampler: Any) -> bool:
    """Whether it draws from a generator of its own that can be read."""
    return isinstance(getattr(sampler, "generator", None), (np.random.Generator, Generator))


def chain_of(source: Any) -> list[Any]:
    """A batch sampler, its sampler, and so on."""
    found = []
    while isinstance(source, Sampler) or hasattr(source, "__iter__"):
        found.append(source)
        source = getattr(source, "sampler", None)
    # A list draws nothing; our batch sampler is only as far as the sampler below it.
    return [s for s in found if not isinstance(s, (list, tuple, range, BatchSampler))]


def read(generator: GeneratorLike) -> Any:
    """A generator's state, in plain numbers."""
    if isinstance(generator, np.random.Generator):
        return copy.deepcopy(generator.bit_generator.state)
    return (default_generator if generator is None else generator).read().tobytes()


def write(generator: GeneratorLike, state: Any) -> None:
    """Puts a generator into a state of `read`."""
    if isinstance(generator, np.random.Generator) != isinstance(state, dict):
        raise ValueError(
            "DataLoader.load_state_dict: the state is of a loader with another kind of generator: "
            f"this one has {type(generator).__name__}"
        )
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    else:
        target: Any = default_generator if generator is None else generator
        target.write(np.frombuffer(state, np.uint8))


def check_state(state: State, promised: State) -> None:
    """Raises ValueError if a loader's state does not fit a loader that promises these values."""
    if not isinstance(state, dict) or state.get("version") != VERSION:
        found = state.get("version") if isinstance(state, dict) else type(state).__name__
        raise ValueError(
            f"DataLoader.load_state_dict: not a state of this version: {found}, not {VERSION}"
        )
    for name, value in promised.items():
        if state[name] != value:
            raise ValueError(
                f"DataLoader.load_state_dict: {name} differs: {state[name]} when the state was "
                f"taken, {value} here"
            )
