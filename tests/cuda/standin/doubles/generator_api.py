"""A double of cupy.random._generator_api, in whose place it is imported: `cupy.random.Generator` by
NumPy, as queued work. The wheel's has a CUDA runtime inside.

The numbers are not CuPy's. One seed gives the same numbers again.
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from tests.cuda.standin.doubles.library import array, current_stream, queue

_sources: dict[int, np.random.Generator] = {}  # by the address of a generator's state


def init_curand(generator: Any, state: int, seed: int, size: int) -> None:
    _sources[state] = np.random.Generator(np.random.Philox(int(seed)))


def random_raw(generator: Any, out: Any) -> None:
    _fill(generator, out, "integers", 0, 2**31, dtype=np.int32)


def _fill(bit_generator: Any, out: Any, name: str, *parameters: Any, **options: Any) -> None:
    """Queues the writing of a sample of NumPy's method `name` into the contiguous array `out`."""
    if not out.flags.c_contiguous:
        raise ValueError(f"{name}: the result is to be written to an array that is not contiguous")
    source = _sources[bit_generator.state()]
    kept = [  # until the work is done
        cupy.ascontiguousarray(cupy.broadcast_to(p, out.shape))
        if isinstance(p, cupy.ndarray)
        else p
        for p in parameters
    ]
    target = array(out.data.ptr, out.dtype, out.size).reshape(out.shape)
    inputs = [
        array(p.data.ptr, p.dtype, p.size).reshape(p.shape) if isinstance(p, cupy.ndarray) else p
        for p in kept
    ]

    def work() -> None:
        target[...] = getattr(source, name)(*inputs, size=target.shape, **options)
        kept.clear()

    queue(current_stream(), work)


class Generator:
    """The distributions of `cupy.random.Generator`; parameters are numbers or arrays."""

    def __init__(self, bit_generator: Any) -> None:
        self.bit_generator = bit_generator

    def _draw(
        self, name: str, *parameters: Any, size: Any = None, dtype: Any = np.float64,
        out: Any = None,
    ) -> Any:  # fmt: skip
        if out is not None and out.dtype != np.dtype(dtype):
            raise TypeError(
                f"Supplied output array has the wrong type. "
                f"Expected {np.dtype(dtype).name}, got {out.dtype.name}"
            )
        if size is None:
            shape = np.broadcast_shapes(*(np.shape(p) for p in parameters)) if out is None else ()
        else:
            shape = tuple(np.atleast_1d(size))
        y = cupy.empty(shape, dtype) if out is None else out
        _fill(self.bit_generator, y, name, *parameters)
        return y

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        return self._draw("random", size=size, dtype=dtype, out=out)

    def uniform(
        self, low: Any = 0.0, high: Any = 1.0, size: Any = None, dtype: Any = np.float64
    ) -> Any:
        return self._draw("uniform", low, high, size=size, dtype=dtype)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64,
        endpoint: bool = False,
    ) -> Any:  # fmt: skip
        low, high = (0, int(low)) if high is None else (int(low), int(high))
        last = high if endpoint else high - 1
        limits = np.iinfo(dtype)
        if low > last:
            raise ValueError("low >= high")
        if low < limits.min or last > limits.max:
            bound = "low" if low < limits.min else "high"
            raise ValueError(f"{bound} is out of bounds for {np.dtype(dtype).name}")
        y = cupy.empty(() if size is None else size, dtype)
        _fill(self.bit_generator, y, "integers", low, last, dtype=dtype, endpoint=True)
        return y

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        return self._draw("standard_normal", size=size, dtype=dtype, out=out)

    def standard_exponential(
        self, size: Any = None, dtype: Any = np.float64, method: str = "inv", out: Any = None
    ) -> Any:
        return self._draw("standard_exponential", size=size, dtype=dtype, out=out)

    def standard_gamma(
        self, shape: Any, size: Any = None, dtype: Any = np.float64, out: Any = None
    ) -> Any:
        return self._draw("standard_gamma", shape, size=size, dtype=dtype, out=out)

    def beta(self, a: Any, b: Any, size: Any = None, dtype: Any = np.float64) -> Any:
        return self._draw("beta", a, b, size=size, dtype=dtype)

    def chisquare(self, df: Any, size: Any = None) -> Any:
        return self._draw("chisquare", df, size=size)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        return self._draw("exponential", scale, size=size)

    def f(self, dfnum: Any, dfden: Any, size: Any = None) -> Any:
        return self._draw("f", dfnum, dfden, size=size)

    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
        return self._draw("gamma", shape, scale, size=size)

    def power(self, a: Any, size: Any = None) -> Any:
        return self._draw("power", a, size=size)

    def geometric(self, p: Any, size: Any = None) -> Any:
        return self._draw("geometric", p, size=size, dtype=np.int64)

    def hypergeometric(self, ngood: Any, nbad: Any, nsample: Any, size: Any = None) -> Any:
        return self._draw("hypergeometric", ngood, nbad, nsample, size=size, dtype=np.int64)

    def logseries(self, p: Any, size: Any = None) -> Any:
        return self._draw("logseries", p, size=size, dtype=np.int64)

    def poisson(self, lam: Any = 1.0, size: Any = None) -> Any:
        return self._draw("poisson", lam, size=size, dtype=np.int64)

    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        return self._draw("binomial", n, p, size=size, dtype=np.int64)

    def dirichlet(self, alpha: Any, size: Any = None) -> Any:
        raise NotImplementedError("the stand-in device has no Generator.dirichlet")


class FeistelBijection:
    """`choice` without replacement: the first numbers of a permutation that the keys determine."""

    num_rounds = 24

    def __init__(self, num_elements: int, keys_array: Any) -> None:
        self.n, self.keys = num_elements, keys_array

    def __call__(self, size: int) -> Any:
        return cupy.asarray(np.random.default_rng(self.keys).permutation(self.n)[:size])
