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
    """Seeds the default generators of all devices, so that random numbers repeat.

    Parameters
    ----------
    seed : int
        64 bits; negative seeds count from 2**64 downwards.

    Returns
    -------
    Generator
        The CPU's default generator.

    Raises
    ------
    RuntimeError
        The seed does not fit in 64 bits.

    See Also
    --------
    seed, initial_seed, fork_rng, Generator

    Notes
    -----
    The same seed gives the same numbers on every rank and with any number of threads. A process
    that is forked has the same state; give each worker its own seed.

    Examples
    --------
    >>> _ = st.manual_seed(1)
    >>> x = st.rand(3)
    >>> _ = st.manual_seed(1)
    >>> st.equal(x, st.rand(3))
    True
    """
    generator = default_generator.manual_seed(seed)
    generators.manual_seed_all(generator.initial_seed())
    return generator


def seed() -> int:
    """Seeds the default generators of all devices with a number that cannot be predicted.

    Returns
    -------
    int
        The seed, with which `manual_seed` can repeat the numbers.

    See Also
    --------
    manual_seed, initial_seed

    Examples
    --------
    >>> number = st.seed()
    >>> number == st.initial_seed()
    True
    """
    number = default_generator.seed()
    generators.manual_seed_all(number)
    return number


def initial_seed() -> int:
    """The seed of the CPU's default generator.

    Returns
    -------
    int
        What `manual_seed` or `seed` set last.

    See Also
    --------
    manual_seed

    Examples
    --------
    >>> _ = st.manual_seed(5)
    >>> st.initial_seed()
    5
    """
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """The state of the CPU's default generator.

    Returns
    -------
    Tensor
        uint8, of 16 bytes: the seed, and how many blocks are used up.

    See Also
    --------
    set_rng_state, fork_rng

    Examples
    --------
    >>> state = st.get_rng_state()
    >>> state.shape, state.dtype
    (Size([16]), shmtensor.uint8)
    """
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Sets the state of the CPU's default generator.

    Parameters
    ----------
    new_state : Tensor
        What `get_rng_state` returned.

    Raises
    ------
    TypeError
        It is no tensor on the CPU.
    RuntimeError
        It has another dtype than uint8, or another number of bytes.

    See Also
    --------
    get_rng_state, manual_seed

    Examples
    --------
    >>> state = st.get_rng_state()
    >>> x = st.rand(3)
    >>> st.set_rng_state(state)
    >>> st.equal(x, st.rand(3))
    True
    """
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(
    devices: Any = None, enabled: bool = True, device_type: str = "cuda"
) -> Iterator[None]:
    """Restores the states of the default generators at the end of the `with` block.

    Parameters
    ----------
    devices : sequence of Device or int, optional
        The GPUs whose generators are restored besides the CPU's; by default all.
    enabled : bool, optional
        False: nothing is restored.
    device_type : str, optional
        Accepted; has no effect.

    Returns
    -------
    None
        Used in `with st.fork_rng():`.

    See Also
    --------
    get_rng_state, set_rng_state

    Examples
    --------
    >>> with st.fork_rng():
    ...     x = st.rand(3)
    >>> st.equal(x, st.rand(3))
    True
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
