"""Randomness of the loaders, and the seeds of a process's generators.

Note [Seeds of samples]: a batch must not depend on which process makes it, or when. So each batch
has a source of its own, a SplitMix64 stream that starts at a hash of the epoch's seed and the
batch's number. It seeds the three generators (Python's, NumPy's global one, shmtensor's default
one) before the batch's first sample, and again after each sample that drew random numbers. The
generators' own counters show whether a sample drew, so data sets without randomness pay one check
per sample. The numbers depend on the seed, the batch's number and the samples alone.

PyTorch's CPU generator, in programs that have imported PyTorch, is seeded once for each batch, with
the next 32 bits of the batch's source: it does not show whether a sample drew, and seeding it takes
longer (1.4 us) than a quick sample. Its numbers, too, depend on nothing but the seed, the batch's
number and the samples before it in the batch.

`random.seed` and `np.random.seed` take longer than many samples do, so the state of the two
Mersenne twisters (624 words and a position; 624: all words are used up) is written in memory
directly. The memory layout is checked against `getstate`; if it differs, `random.seed` and
`np.random.seed` are used, with other numbers but the same guarantees.

Source: G. L. Steele, D. Lea, C. H. Flood: Fast splittable pseudorandom number generators (2014);
the constants are David Stafford's 13th variant.
"""

from __future__ import annotations

import ctypes
import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from shmtensor import native
from shmtensor.functions import randint
from shmtensor.other_names import foreign_module
from shmtensor.random import Generator, default_generator, manual_seed

# A shmtensor generator, one of NumPy's or PyTorch's, or None for shmtensor's default generator.
GeneratorLike = Any

numpy_random: Any = np.random  # its stubs leave out the two functions for its bit generator
WORDS = 624  # of a Mersenne twister's state
GOLDEN, MIX1, MIX2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
MASK = 2**64 - 1


def mix(x: int) -> int:
    """One step of SplitMix64: a bijection of 64 bits that scatters neighbours."""
    x = (x + GOLDEN) & MASK
    x = ((x ^ x >> 30) * MIX1) & MASK
    x = ((x ^ x >> 27) * MIX2) & MASK
    return x ^ x >> 31


def new_seed(generator: GeneratorLike = None) -> int:
    """A fresh 63-bit seed, drawn from `generator` (shmtensor's default one if None)."""
    if isinstance(generator, np.random.Generator):
        return int(generator.integers(2**63 - 1))
    if is_of_torch(generator):
        torch: Any = sys.modules["torch"]
        return int(torch.empty((), dtype=torch.int64).random_(generator=generator))
    return int(randint(0, 2**63 - 1, (), generator=generator).item())


def numpy_generator(generator: GeneratorLike = None) -> np.random.Generator:
    """A NumPy generator seeded with one draw from `generator`, so that each epoch differs."""
    if isinstance(generator, np.random.Generator):
        return generator
    return np.random.Generator(np.random.PCG64(new_seed(generator)))


def is_generator(value: object) -> bool:
    """Whether it is a generator that `new_seed` can draw from."""
    return isinstance(value, (Generator, np.random.Generator)) or is_of_torch(value)


def is_of_torch(generator: object) -> bool:
    """Whether this is a `torch.Generator`."""
    generator_type = getattr(foreign_module("torch"), "Generator", None)
    return generator_type is not None and isinstance(generator, generator_type)


def generator_of_torch() -> Any:
    """PyTorch's default generator of the CPU; None if PyTorch is not imported."""
    return getattr(foreign_module("torch"), "default_generator", None)


def seed_everything(seed: int) -> None:
    """Seeds this process's Python, NumPy, shmtensor and PyTorch (CPU) generators from one number.

    NumPy's takes the seed as two 32-bit words. All three streams differ for every worker and epoch
    (PyTorch before 1.9 left NumPy's equal in all workers).
    """
    random.seed(seed)
    manual_seed(seed)
    np.random.seed([seed & 0xFFFFFFFF, seed >> 32])
    if (of_torch := generator_of_torch()) is not None:
        of_torch.manual_seed(seed)


def words_at(address: int, first: int) -> Any:
    """A twister's words and its position, which is first or last in memory."""
    memory = memoryview((ctypes.c_uint32 * (WORDS + 1)).from_address(address)).cast("B").cast("I")
    words = np.frombuffer(memory, np.uint32)
    return (words[1:], memory[:1]) if first else (words[:-1], memory[-1:])


class SampleSeeds:
    """Seeds the generators of this process for each batch and sample; see the note."""

    def __init__(self) -> None:
        self.at = 0  # position in the batch's source
        self.raw = np.empty(WORDS + 1, np.uint64)
        self.twister = np.random.MT19937()
        self.global_python: Any = vars(random)["_inst"]
        self.ours: Any = default_generator
        self.numpy_words, self.numpy_position = words_at(
            self.twister.ctypes.state_address, first=False
        )
        address = id(self.global_python) + object.__basicsize__
        self.python_words, self.python_position = words_at(address, first=True)
        self.is_direct = self.is_layout_known()

    def is_layout_known(self) -> bool:
        """Whether the states of the two twisters are where CPython and NumPy have them."""
        *words, position = random.getstate()[1]
        numpy: Any = self.twister.state["state"]
        return (
            (position, numpy["pos"]) == (self.python_position[0], self.numpy_position[0])
            and np.array_equal(np.array(words, np.uint32), self.python_words)
            and np.array_equal(numpy["key"], self.numpy_words)
        )

    def start(self, seed: int, number: int, worker: int = -1) -> None:
        """Seeds the generators for batch `number` (of a worker's stream, or of the epoch)."""
        self.at = mix(mix(mix(seed & MASK) ^ (number & MASK)) ^ (worker + 1))
        # Also drops the second of two Gaussian numbers, which both cache for the next call.
        numpy_random.set_bit_generator(self.twister)
        self.global_python.gauss_next = None
        if (of_torch := generator_of_torch()) is not None:
            of_torch.manual_seed(mix(self.at) & 0xFFFFFFFF)
        self.seed()

    def seed(self) -> None:
        """Seeds all generators but PyTorch's with the next numbers of the batch's source."""
        raw = self.raw
        native.splitmix64(raw, self.at)
        self.at = (self.at + len(raw) * GOLDEN) & MASK
        self.ours._seed, self.ours._offset = int(raw[-1]), 0
        words = raw[:-1].view(np.uint32)
        if self.is_direct:
            self.python_words[:] = words[:WORDS]
            self.numpy_words[:] = words[WORDS:]
            self.python_position[0] = self.numpy_position[0] = WORDS
        else:
            random.seed(int(raw[0]))
            np.random.seed(words[:2])

    def before_each(self, indices: Iterable[Any]) -> Iterator[Any]:
        """The same indices of samples; seeds the generators before each if they were drawn from."""
        python, numpy, ours = self.python_position, self.numpy_position, self.ours
        always = not self.is_direct
        for index in indices:
            if python[0] != WORDS or numpy[0] != WORDS or ours._offset or always:
                self.seed()
            yield index

    @contextmanager
    def fork_rng(self) -> Iterator[None]:
        """Restores the generators at the end: for a loader without workers."""
        ours = self.ours._seed, self.ours._offset
        numpy = numpy_random.get_bit_generator()
        gauss = self.global_python.gauss_next
        of_torch = generator_of_torch()
        torch_state = None if of_torch is None else of_torch.get_state()
        if self.is_direct:
            words, position = self.python_words.copy(), self.python_position[0]
        else:
            state = random.getstate()
        try:
            yield
        finally:
            self.ours._seed, self.ours._offset = ours
            numpy_random.set_bit_generator(numpy)
            if self.is_direct:
                self.python_words[:] = words
                self.python_position[0] = position
            else:
                random.setstate(state)
            self.global_python.gauss_next = gauss
            if of_torch is not None:
                of_torch.set_state(torch_state)


@cache
def inherited_seeds() -> SampleSeeds:
    """A worker's: made once, before the fork, for all of them."""
    return SampleSeeds()
