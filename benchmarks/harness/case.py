"""Case: a measurement, its parties, and the target relative to a rival."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

OURS = "shmtensor"
PYTORCH = "pytorch"
IMPORTS = {PYTORCH: "torch"}  # other parties have the names of their modules

Run = Callable[[], Any]
Build = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """One row of a table.

    Attributes:
        name: "layer/what".
        parties: by name, a function of the library that returns the call to be timed, or a
            generator function that yields the call and then cleans up. The first is ours. A call
            that returns a float has measured its seconds itself. A name is a library's, optionally
            with a comma and a description ("shmtensor, an int").
        target: our time over the rival's, at most; None: no target.
        against: the rival of the target.
        per: the number of items that one call processes; times are per item.
        slow: a call takes milliseconds, so that a turn must be longer.
        long: a call takes seconds; not in the short run.
        wide: one row of a long table; not in the short run.
        unit: of the results of calls that measure themselves: "s", or "B" for bytes of memory.
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
    """The module of a party's library: of "pytorch", "shmtensor, an int"."""
    name = party.partition(",")[0]
    return IMPORTS.get(name, name)


def compare(build: Build, *arguments: Any, numpy: Build | None = None) -> dict[str, Build]:
    """Parties with the same source for us and PyTorch, and optionally another for NumPy."""
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
    result = build(library)
    if not inspect.isgenerator(result):
        yield Party(name, result)
        return
    try:
        yield Party(name, next(result))
    finally:
        for _ in result:  # the code after its yield
            raise RuntimeError(f"benchmarks: a party yields once: {name}")
