"""Counter-based random bits: Philox 4x32-10. One seed gives the same bits on any number of threads.

Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (2011). The functions here
are the reference; the native kernels `uniform_`, `normal_` and `dropout` give the same numbers.
Both use this layout:

```
key      = seed, low and high 32 bits
block i  = philox(counter = (i low, i high, 0, 0), key) = words w0 w1 w2 w3;  i starts at `offset`
float32  : number e is word e % 4 of block e // 4;  u = (w >> 8) / 2**24, in [0, 1)
float64  : number e is words 2 (e % 2), + 1 of block e // 2;  u = ((low | high << 32) >> 11) / 2**53
normal   : numbers 2 k and 2 k + 1 are r cos(t) and r sin(t) (Box and Muller) of the uniform
           u = number 2 k, v = number 2 k + 1:
           r = sqrt(-2 log(u + 2**-24)) (float64: 2**-53), t = 2 pi v
integers : number e is its word, or for ranges of 2**32 or more its two words, modulo the range
permuted : of 0 to n - 1, for i = 0, 1, ...: swap elements i and i + ((w * (n - i)) >> 32), w word i
           (n above 2**20: word i of 64 bits, and >> 64); Durstenfeld: Algorithm 235 (1964)
attempts : of Poisson, binomial and gamma number e: attempt a takes the block of the counter
           (i low, i high, a, 0) with i = offset + e, as two float64 numbers
```
"""

from __future__ import annotations

import math
import operator
import os
import threading
from typing import Any

import numpy as np

from ... import native
from ...cuda_arrays import device_of
from ...device import CPU, Device, as_device
from ...html_table import html_table

M0, M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
W0, W1 = 0x9E3779B9, 0xBB67AE85
LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def blocks(seed: int, offset: int, n: int) -> Any:
    """Words of n blocks from number `offset` on: (n, 4) uint32."""
    i = np.arange(n, dtype=np.uint64) + np.uint64(offset)
    c0, c1 = i & LOW, i >> HALF
    c2, c3 = np.zeros_like(i), np.zeros_like(i)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    for _ in range(10):
        p0, p1 = M0 * c0, M1 * c2
        c0, c1, c2, c3 = (
            (p1 >> HALF) ^ c1 ^ np.uint64(k0),
            p1 & LOW,
            (p0 >> HALF) ^ c3 ^ np.uint64(k1),
            p0 & LOW,
        )
        k0, k1 = (k0 + W0) & 0xFFFFFFFF, (k1 + W1) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], 1).astype(np.uint32)


def words(seed: int, offset: int, n: int) -> Any:
    """n words of 32 bits, 4 a block."""
    return blocks(seed, offset, -(-n // 4)).reshape(-1)[:n]


def bits(seed: int, offset: int, n: int) -> Any:
    """n words of 64 bits, 2 a block."""
    pairs = blocks(seed, offset, -(-n // 2)).reshape(-1, 2)[:n].astype(np.uint64)
    return pairs[:, 0] | pairs[:, 1] << HALF


def uniform(seed: int, offset: int, n: int, dtype: Any) -> Any:
    """n numbers from [0, 1): 24 bits each (float64: 53)."""
    if dtype == np.float64:
        return (bits(seed, offset, n) >> np.uint64(11)) * 2.0**-53
    return (words(seed, offset, n) >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def normal(seed: int, offset: int, n: int, dtype: Any) -> Any:
    """n normally distributed numbers of mean 0 and variance 1."""
    pairs = uniform(seed, offset, n + n % 2, dtype).reshape(-1, 2).astype(np.float64)
    smallest = 2.0**-53 if dtype == np.float64 else 2.0**-24
    radius, angle = np.sqrt(-2 * np.log(pairs[:, 0] + smallest)), 2 * math.pi * pairs[:, 1]
    out = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).reshape(-1)[:n]
    return out.astype(dtype, copy=False)


def permutation(seed: int, offset: int, n: int) -> Any:
    """0 to n - 1 in random order."""
    wide = n > 2**20
    order, numbers = np.arange(n), (bits if wide else words)(seed, offset, n).tolist()
    for i, w in enumerate(numbers):
        j = i + (w * (n - i) >> (64 if wide else 32))
        order[i], order[j] = order[j], order[i]
    return order


def fill_uniform(out: Any, seed: int, offset: int, low: float, high: float) -> Any:
    """Writes low + (high - low) * uniform numbers."""
    scalar = out.dtype.type
    numbers = uniform(seed, offset, out.size, out.dtype).astype(out.dtype)
    out[...] = (numbers * scalar(high - low) + scalar(low)).reshape(out.shape)
    return out


def fill_normal(out: Any, seed: int, offset: int, mean: float, std: float) -> Any:
    """Writes mean + std * normal numbers."""
    scalar = out.dtype.type
    numbers = normal(seed, offset, out.size, out.dtype).astype(out.dtype)
    out[...] = (numbers * scalar(std) + scalar(mean)).reshape(out.shape)
    return out


def fill_half(kernel: Any, out: Any, seed: int, offset: int, low: float, high: float) -> Any:
    """A native fill of 16-bit floats: float32 numbers are rounded, but uniform ones stay below the
    upper bound.
    """
    wide = kernel(np.empty(out.shape, np.float32), seed, offset, low, high)
    out[...] = native.recast(wide, out.dtype)
    if kernel is native.uniform_ and low < high:
        bound = np.array(high).astype(out.dtype)
        out[out >= bound] = half_below(bound)
    return out


def half_below(bound: Any) -> Any:
    """The largest 16-bit float below one, as NumPy's scalar."""
    bits = int(bound.view(np.int16))
    below = -32767 if not bits & 0x7FFF else bits - 1 if bits > 0 else bits + 1
    return np.int16(below).view(bound.dtype)


DEFAULT_SEED = 67280421310721
guard: Any = None  # called before random numbers are made: func/vmap.py asks whether they may be


class Generator:
    """A stream of random numbers: a seed, and the number of its blocks that are used up.

    Parameters
    ----------
    device : Device or str, optional
        Of the tensors that it is for: "cpu" or a GPU. The state is on the host.

    Raises
    ------
    DeviceMissing
        The GPU is not there.

    See Also
    --------
    manual_seed, fork_rng

    Notes
    -----
    Pass it to `rand`, `randperm` and the like as `generator=`; each draw takes the next blocks. Two
    generators of one seed give the same numbers.

    Examples
    --------
    >>> generator = st.Generator().manual_seed(7)
    >>> generator.initial_seed()
    7
    >>> state = generator.get_state()
    >>> x = st.rand(3, generator=generator)
    >>> generator.set_state(state)
    >>> st.equal(x, st.rand(3, generator=generator))
    True
    """

    __slots__ = ("_lock", "_offset", "_seed", "device")

    def __init__(self, device: Any = "cpu") -> None:
        self.device: Device = as_device(device)
        self._lock = threading.Lock()
        self._seed, self._offset = DEFAULT_SEED, 0

    def __reduce__(self) -> Any:
        return restored, (str(self.device), self._seed, self._offset)

    def __repr__(self) -> str:
        return f"Generator(seed={self._seed}, {self._offset} blocks drawn, device={self.device})"

    def _repr_html_(self) -> str:
        rows = [("seed", self._seed), ("blocks drawn", self._offset), ("device", self.device)]
        return html_table((type(self).__name__, ""), rows)

    def manual_seed(self, seed: int) -> Generator:
        """Starts the stream of a seed.

        Parameters
        ----------
        seed : int
            64 bits; negative seeds count from 2**64 downwards.

        Returns
        -------
        Generator
            The generator itself.

        Raises
        ------
        RuntimeError
            The seed does not fit in 64 bits.

        Examples
        --------
        >>> st.Generator().manual_seed(-1).initial_seed() == 2 ** 64 - 1
        True
        """
        seed = int(seed)
        if not -(2**63) <= seed < 2**64:
            raise RuntimeError(f"manual_seed: the seed must fit in 64 bits: {seed}")
        with self._lock:
            self._seed, self._offset = seed % 2**64, 0
        return self

    def seed(self) -> int:
        """Starts a stream of a seed that cannot be predicted.

        Returns
        -------
        int
            The seed.

        Examples
        --------
        >>> generator = st.Generator()
        >>> generator.seed() == generator.initial_seed()
        True
        """
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self._seed

    def initial_seed(self) -> int:
        """The seed of the stream.

        Returns
        -------
        int
            From 0 to 2**64 - 1.

        Examples
        --------
        >>> st.Generator().manual_seed(7).initial_seed()
        7
        """
        return self._seed

    def claim(self, n: int) -> tuple[int, int]:
        """Seed and offset of n blocks, which are then used up.

        Raises:
            TypeError: n is not an integer; no block is used up.
            RuntimeError: n is negative; no block is used up.
        """
        n = operator.index(n)
        if n < 0:
            raise RuntimeError(f"generator: blocks to draw must not be negative: {n}")
        if guard is not None:
            guard()
        with self._lock:
            offset = self._offset
            self._offset += n
            return self._seed, offset

    def read(self) -> Any:
        """The state as 16 bytes (uint8)."""
        with self._lock:
            return np.array([self._seed, self._offset], np.uint64).view(np.uint8)

    def get_state(self) -> Any:
        """The state of the stream, with which `set_state` continues it.

        Returns
        -------
        Tensor
            uint8, of 16 bytes.

        Examples
        --------
        >>> st.Generator().get_state().shape
        Size([16])
        """
        return native.compute(self.read)

    def set_state(self, state: Any) -> None:
        """Continues from a state of `get_state`.

        Parameters
        ----------
        state : Tensor
            The state.

        Raises
        ------
        TypeError
            It is no tensor on the CPU.
        RuntimeError
            It has another dtype than uint8, or another number of bytes.

        Examples
        --------
        >>> first, second = st.Generator().manual_seed(7), st.Generator()
        >>> second.set_state(first.get_state())
        >>> st.equal(st.rand(2, generator=first), st.rand(2, generator=second))
        True
        """
        check_state("set_state", state)
        self.write(state.array)

    def write(self, state: Any) -> None:
        """Continues from a state of `read`."""
        state = np.ascontiguousarray(state)
        if state.dtype != np.uint8 or state.shape != (16,):
            raise RuntimeError(
                f"set_state: 16 bytes are needed: {state.dtype.name}, shape {state.shape}"
            )
        with self._lock:
            self._seed, self._offset = (int(i) for i in state.view(np.uint64))


def check_state(where: str, state: Any) -> None:
    """Checks that a state, which may come from a file, is a tensor on the CPU."""
    if not isinstance(state, native.TensorBase):
        raise TypeError(f"{where}: expected a uint8 tensor, but got {type(state).__name__}")
    if (device := device_of(state.array)) is not CPU:
        raise TypeError(f"{where}: expected a tensor on the CPU, but got one on {device}")


def restored(device: Any, seed: int, offset: int) -> Generator:
    """Rebuilds a generator from its pickle, which names this function."""
    generator = Generator(device)
    generator._seed, generator._offset = seed, offset
    return generator


default_generator: Generator = Generator()
