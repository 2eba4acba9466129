"""The default generators: the CPU's, and one of each GPU, with the same kind of state.

A random op on a GPU draws from the GPU's generator. The state is on the host in any case, so a seed
may be set before CUDA is used.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from ...cupy_runtime import device_count
from ...device import CPU, Device, as_device
from .philox import DEFAULT_SEED, Generator, default_generator

__all__ = [
    "cuda_generator",
    "cuda_generators",
    "generator_of",
    "manual_seed_all",
    "read_cuda",
    "write_cuda",
]


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


def read_cuda(devices: Iterable[Any] | None = None) -> tuple[int, dict[int, Any]]:
    """The states of the default generators of GPUs, for `write_cuda`; of all for None."""
    if devices is None:
        return cuda.seed, {i: generator.read() for i, generator in cuda.generators.items()}
    numbers = [as_device(device).index or 0 for device in devices]
    return -1, {i: cuda_generator(i).read() for i in numbers}


def write_cuda(states: tuple[int, dict[int, Any]]) -> None:
    """Continues from states of `read_cuda`; a generator that was made since begins anew."""
    seed, by_index = states
    if seed >= 0:
        cuda.seed = seed
        for index, generator in cuda.generators.items():
            if index not in by_index:
                generator.manual_seed(seed)
    for index, state in by_index.items():
        cuda_generator(index).write(state)


def generator_of(generator: Any, device: Device) -> Generator:
    """A generator for random numbers on a device: the one given, or the device's default.

    Raises:
        RuntimeError: the generator is of another type of device.
    """
    if generator is None:
        return default_generator if device is CPU else cuda_generator(device.index or 0)
    if generator.device.type != device.type:
        raise RuntimeError(
            f"generator: Expected a '{device.type}' device type for generator but found "
            f"'{generator.device.type}', hint: Generator(device='{device.type}')"
        )
    return generator  # type: ignore[no-any-return]
