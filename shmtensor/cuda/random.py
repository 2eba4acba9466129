"""The random numbers of GPUs: there are no generators to seed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .absent import absent

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


def manual_seed(seed: int) -> None:
    """Seeds the GPU in use, of which there is none; `shmtensor.manual_seed` seeds the CPU.

    Raises:
        ValueError, TypeError: the seed is not an integer.
    """
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds all GPUs, of which there are none.

    Raises:
        ValueError, TypeError: the seed is not an integer.
    """
    int(seed)


def seed() -> None:
    """Seeds the GPU in use randomly; there is none."""


def seed_all() -> None:
    """Seeds all GPUs randomly; there are none."""


def initial_seed() -> int:
    """The seed of the GPU in use.

    Raises:
        DeviceMissing: there is none.
    """
    raise absent("initial_seed")


def get_rng_state(device: Any = "cuda") -> Any:
    """The state of a GPU's generator.

    Raises:
        DeviceMissing: there is none.
    """
    raise absent("get_rng_state")


def get_rng_state_all() -> list[Any]:
    """The states of all GPUs' generators: none."""
    return []


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Sets the state of a GPU's generator; there is none."""


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Sets the states of all GPUs' generators; there are none."""
