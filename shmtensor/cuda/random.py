"""The random numbers of GPUs: each has a default generator; `shmtensor.manual_seed` seeds all.

Without a GPU there are no generators, and seeding does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import cupy_runtime
from ..device import as_device
from ..ops.random import generators
from ..ops.random.philox import Generator, check_state
from .absent import absent, current_or
from .devices import is_available

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def generator(where: str, device: Any) -> Generator:
    """The default generator of a GPU."""
    if not is_available():
        raise absent(where)
    index = as_device(device).index if isinstance(device, str) else current_or(where, device)
    return generators.cuda_generator(index or 0)


def is_usable() -> bool:
    """Whether there is a GPU that this process may use: programs seed workers, too, which may be
    forked after CUDA was used.
    """
    return not cupy_runtime.state.forked and is_available()


def manual_seed(seed: int) -> None:
    """Seeds the GPU in use; `shmtensor.manual_seed` seeds the CPU and all GPUs.

    Parameters
    ----------
    seed : int
        Any that `int` takes.

    Raises
    ------
    ValueError, TypeError
        The seed is not an integer.

    Notes
    -----
    Without a GPU it does nothing.

    Examples
    --------
    >>> st.cuda.manual_seed(7)
    """
    number = int(seed)
    if is_usable():
        generator("manual_seed", None).manual_seed(number)


def manual_seed_all(seed: int) -> None:
    """Seeds all GPUs with one number.

    Parameters
    ----------
    seed : int
        Any that `int` takes.

    Raises
    ------
    ValueError, TypeError
        The seed is not an integer.

    Notes
    -----
    Without a GPU it does nothing.

    Examples
    --------
    >>> st.cuda.manual_seed_all(7)
    """
    number = int(seed)
    if is_usable():
        generators.manual_seed_all(number)


def seed() -> None:
    """Seeds the GPU in use with a random number.

    Notes
    -----
    Without a GPU it does nothing.

    Examples
    --------
    >>> st.cuda.seed()
    """
    if is_usable():
        generator("seed", None).seed()


def seed_all() -> None:
    """Seeds all GPUs with one random number.

    Notes
    -----
    Without a GPU it does nothing.

    Examples
    --------
    >>> st.cuda.seed_all()
    """
    if is_available():
        generators.manual_seed_all(Generator().seed())


def initial_seed() -> int:
    """The seed of the GPU in use.

    Returns
    -------
    int
        The last one set.

    Raises
    ------
    DeviceMissing
        There is none.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     st.cuda.manual_seed(7)
    ...     assert st.cuda.initial_seed() == 7
    """
    return generator("initial_seed", None).initial_seed()


def get_rng_state(device: Any = "cuda") -> Any:
    """The state of a GPU's generator.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one ("cuda").

    Returns
    -------
    Tensor
        uint8, on the CPU.

    Raises
    ------
    DeviceMissing
        There is none.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     state = st.cuda.get_rng_state()
    ...     x = st.rand(3, device="cuda")
    ...     st.cuda.set_rng_state(state)
    ...     assert st.equal(st.rand(3, device="cuda"), x)
    """
    return generator("get_rng_state", device).get_state()


def get_rng_state_all() -> list[Any]:
    """The states of all GPUs' generators.

    Returns
    -------
    list of Tensor
        uint8, on the CPU; empty without a GPU.

    Examples
    --------
    >>> len(st.cuda.get_rng_state_all()) == st.cuda.device_count()
    True
    """
    return [each.get_state() for each in generators.cuda_generators()]


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Sets the state of a GPU's generator; without a GPU it does nothing.

    Parameters
    ----------
    new_state : Tensor
        Of `get_rng_state`.
    device : device, int or str, optional
        The GPU, by default the current one.

    Raises
    ------
    TypeError
        The state is no tensor on the CPU.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     st.cuda.set_rng_state(st.cuda.get_rng_state())
    """
    check_state("set_rng_state", new_state)
    if is_available():
        generator("set_rng_state", device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Sets the states of all GPUs' generators, in order.

    Parameters
    ----------
    new_states : iterable of Tensor
        Of `get_rng_state_all`.

    Raises
    ------
    TypeError
        A state is no tensor on the CPU.

    Examples
    --------
    >>> st.cuda.set_rng_state_all(st.cuda.get_rng_state_all())
    """
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
