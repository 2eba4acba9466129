"""The default generators: the CPU's, and one of each GPU, with the same kind of state.

A random op on a GPU draws from the GPU's generator. The state is on the host in any case, so a seed
may be set before CUDA is used.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np

from ...cupy_runtime import device_count
from ...device import CPU, Device
from .philox import DEFAULT_SEED, Generator, default_generator


class Cuda:
    """The generators of the GPUs, made at their first use, and the seed that new ones have."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.seed = DEFAULT_SEED
        self.generators: dict[int, Generator] = {}


cuda = Cuda()


def cuda_generator(index: int) -> Generator:
    """The default generator of a GPU."""
    generator = cuda.generators.get(index)
    if generator is None:
        with cuda.lock:
            generator = Generator(Device("cuda", index)).manual_seed(cuda.seed)
            generator = cuda.generators.setdefault(index, generator)
    return generator


def cuda_generators() -> tuple[Generator, ...]:
    """The default generators of all GPUs."""
    return tuple(cuda_generator(index) for index in range(device_count()))


def manual_seed_all(seed: int) -> None:
    """Seeds the default generators of all GPUs, also those that are used later."""
    with cuda.lock:
        cuda.seed = seed
        for generator in cuda.generators.values():
            generator.manual_seed(seed)


class States(NamedTuple):
    """The states of default generators: the CPU's, the seed of GPUs that are used later, and those
    of GPUs by number.
    """

    cpu: bytes
    seed: int
    cuda: tuple[tuple[int, bytes], ...]


def read_states() -> States:
    """The states of the default generators of all devices."""
    made = tuple((i, g.read().tobytes()) for i, g in cuda.generators.items())
    return States(default_generator.read().tobytes(), cuda.seed, made)


def write_states(states: States) -> None:
    """Continues from states of `read_states`; a generator that was made since begins anew."""
    default_generator.write(np.frombuffer(states.cpu, np.uint8))
    by_index = dict(states.cuda)
    cuda.seed = states.seed
    for index, generator in cuda.generators.items():
        if index in by_index:
            generator.write(np.frombuffer(by_index[index], np.uint8))
        else:
            generator.manual_seed(states.seed)


def generator_of(generator: Any, device: Device) -> Generator:
    """A generator for random numbers on a device: the one given, or the device's default."""
    if generator is None:
        return default_generator if device is CPU else cuda_generator(device.index or 0)
    if generator.device.type != device.type:
        raise RuntimeError(
            f"generator: Expected a '{device.type}' device type for generator but found "
            f"'{generator.device.type}', hint: Generator(device='{device.type}')"
        )
    return generator  # type: ignore[no-any-return]
