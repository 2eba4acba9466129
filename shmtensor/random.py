"""Random numbers: the default stream, its seed and state, and what draws from it.

The same seed gives the same bits, however many threads draw them and on every rank:
docs/design/rows.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .ops.random.philox import Generator, default_generator

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]


def manual_seed(seed: int) -> Generator:
    """Starts the default stream of a seed; returns its generator.

    Example:
        >>> import shmtensor as st
        >>> a, b = (st.manual_seed(1) and st.rand(3) for _ in range(2))
        >>> bool((a == b).all())
        True
    """
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Starts a default stream that nobody foresees, and returns its seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default stream."""
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """The state of the default stream, a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Goes on from a state that `get_rng_state` gave."""
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True) -> Iterator[None]:
    """Whatever is drawn inside leaves the default stream as it was."""
    state = default_generator.read()
    try:
        yield
    finally:
        if enabled:
            default_generator.write(state)
