"""Case: what is measured, by whom, and how long it may take relative to a rival."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Case", "Party", "beside", "open_party"]

OURS = "shmtensor"
PYTORCH = "pytorch"
IMPORTS = {PYTORCH: "torch"}  # the others are called as they are imported

Run = Callable[[], Any]
Build = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """One row of a table.

    Attributes:
        name: "layer/what".
        parties: by name, what sets up and returns the call to be timed. The first is ours. A party
            is a function of its library, or a generator function that yields the call and cleans
            up after. A call that returns a float has measured itself: that many seconds. A name
            is a library's, and perhaps after a comma what it does there ("shmtensor, an int").
        target: our time over the rival's, at most; None where there is no figure to reach.
        against: the rival of the target.
        per: how many things one call does; times are shown for one.
        slow: a call takes milliseconds, so that a turn must be longer.
        long: a call takes seconds; the short run leaves the case out.
        wide: one row of a long table; the short run leaves it out, too.
        unit: of what calls return that have measured themselves: "s", or "B" for bytes of memory.
    """

    name: str
    parties: dict[str, Build] = field(repr=False)
    target: float | None = None
    against: str = PYTORCH
    per: int = 1
    slow: bool = False
    long: bool = False
    wide: bool = False
    unit: str = "s"


@dataclass
class Party:
    """A name, its call, and the seconds of each repeat."""

    name: str
    run: Run
    seconds: list[float] = field(default_factory=list)
    times_itself: bool = False
    is_slow: bool = False


def module_of(party: str) -> str:
    """What a party's library is imported as: "pytorch", "shmtensor, an int"."""
    name = party.partition(",")[0]
    return IMPORTS.get(name, name)


def beside(build: Build, *arguments: Any, numpy: Build | None = None) -> dict[str, Build]:
    """The same source for us and for PyTorch, and perhaps another for NumPy."""
    call = functools.partial(_build, build, arguments)
    parties: dict[str, Build] = {OURS: call, PYTORCH: call}
    if numpy is not None:
        parties["numpy"] = functools.partial(_build, numpy, arguments)
    return parties


def _build(build: Build, arguments: tuple[Any, ...], library: Any) -> Any:
    return build(library, *arguments)


@contextmanager
def open_party(name: str, build: Build) -> Iterator[Party | None]:
    """The party, set up; None if its library is not installed."""
    try:
        library = importlib.import_module(module_of(name))
    except ModuleNotFoundError as error:
        if error.name != module_of(name):
            raise
        yield None
        return
    built = build(library)
    if not inspect.isgenerator(built):
        yield Party(name, built)
        return
    try:
        yield Party(name, next(built))
    finally:
        for _ in built:  # what stands after its yield
            raise RuntimeError(f"benchmarks: a party yields once: {name}")
