"""Random numbers: the default generator, its seed and state.

The same seed gives the same bits on every rank and with any number of threads: docs/design/rows.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .device import as_device
from .ops.random import generators
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
    """Seeds the default generators of all devices and returns the CPU's.

    Example:
        >>> import shmtensor as st
        >>> a, b = (st.manual_seed(1) and st.rand(3) for _ in range(2))
        >>> bool((a == b).all())
        True
    """
    generator = default_generator.manual_seed(seed)
    generators.manual_seed_all(generator.initial_seed())
    return generator


def seed() -> int:
    """Seeds the default generators of all devices with a random number and returns that number."""
    number = default_generator.seed()
    generators.manual_seed_all(number)
    return number


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """The state of the default generator, a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Sets the state of the default generator to one that `get_rng_state` returned.

    Raises:
        TypeError: it is no tensor on the CPU.
        RuntimeError: it has another dtype than uint8, or another number of bytes.
    """
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(
    devices: Any = None, enabled: bool = True, device_type: str = "cuda"
) -> Iterator[None]:
    """Restores the states of the default generators at the end of the `with` block: the CPU's, and
    those of GPUs.

    Args:
        devices: the GPUs; by default all.
    """
    states = generators.read_states()
    try:
        yield
    finally:
        if enabled:
            others = () if devices is None else outside(devices)
            generators.write_states(states)
            for generator, state in others:
                generator.write(state)


def outside(devices: Any) -> list[tuple[Generator, Any]]:
    """The generators of the other GPUs, with their states."""
    numbers = {as_device(device).index for device in devices}
    all_of_them = generators.cuda.generators.items()
    return [(g, g.read()) for index, g in all_of_them if index not in numbers]
