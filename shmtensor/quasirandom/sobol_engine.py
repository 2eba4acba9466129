"""`SobolEngine`: points that fill the unit cube more evenly than random ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import native
from ..dtypes import as_dtype, get_default_dtype
from ..functions import randint
from ..ops.random.philox import Generator
from ..tensor import Tensor
from .sobol_directions import MAXBIT, MAXDIM, direction_numbers


class SobolEngine:
    """The points of a Sobol sequence in the unit cube, in order, with PyTorch's numbers.

    Parameters
    ----------
    dimension : int
        Of the cube, 1 to 1111 (PyTorch has 21201).
    scramble : bool, optional
        Random linear scrambling and a random shift (Owen's method); the points keep their evenness.
        The random numbers are not PyTorch's.
    seed : int, optional
        Of the scrambling; None: the default generator's next numbers.

    Attributes
    ----------
    num_generated : int
        How many points were drawn or skipped.

    Raises
    ------
    ValueError
        The dimension is out of range.

    Examples
    --------
    >>> st.quasirandom.SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    >>> st.quasirandom.SobolEngine(3, scramble=True, seed=1).draw(4).shape
    Size([4, 3])
    """

    MAXBIT = MAXBIT
    MAXDIM = MAXDIM

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= MAXDIM:
            raise ValueError(
                f"SobolEngine: Supported range of dimensionality for SobolEngine is [1, {MAXDIM}]: "
                f"{dimension}"
            )
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.sobolstate = direction_numbers(dimension)
        self.shift = np.zeros(dimension, np.int64)
        if scramble:
            self._scramble()
        self.reset()

    def _scramble(self) -> None:
        generator = None if self.seed is None else Generator().manual_seed(self.seed)
        d = self.dimension
        powers = 1 << np.arange(MAXBIT)
        self.shift = randint(2, (d, MAXBIT), generator=generator).numpy() @ powers
        matrices = np.tril(randint(2, (d, MAXBIT, MAXBIT), generator=generator).numpy(), -1)
        matrices[:, range(MAXBIT), range(MAXBIT)] = 1
        # The matrix times the bits of each direction number, the first of which is the highest.
        bits = self.sobolstate[:, :, None] >> np.arange(MAXBIT - 1, -1, -1) & 1
        self.sobolstate = (bits @ matrices.swapaxes(1, 2) % 2) @ powers[::-1]

    def reset(self) -> SobolEngine:
        """Back to the first point."""
        self.quasi = self.shift.copy()
        self.num_generated = 0
        return self

    def draw(self, n: int = 1, out: Any = None, dtype: Any = None) -> Tensor:
        """The next points: (n, dimension).

        Args:
            out: a tensor to write to, which is resized.
            dtype: by default the default dtype.

        Raises:
            ValueError: the sequence has no more points: 2^30.
        """
        target = get_default_dtype() if dtype is None else as_dtype(dtype)
        points = self._points(n) * 0.5**MAXBIT
        result: Tensor = native.wrap(native.call(points.astype, target))
        if out is None:
            return result
        out.resize_(result.shape).copy_(result)
        return out  # type: ignore[no-any-return]

    def draw_base2(self, m: int, out: Any = None, dtype: Any = None) -> Tensor:
        """The next 2^m points.

        Args:
            out, dtype: as of `draw`.

        Raises:
            ValueError: the number of all points so far would be no power of 2.
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "draw_base2: The balance properties of Sobol' points require n to be a power of 2: "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}, hint: draw"
            )
        return self.draw(n, out, dtype)

    def fast_forward(self, n: int) -> SobolEngine:
        """Skips the next n points."""
        self._check(n)
        last = self.num_generated + n - 1
        if last >= 0:
            gray = last ^ last >> 1
            chosen = [self.sobolstate[:, j] for j in range(MAXBIT) if gray >> j & 1]
            self.quasi = np.bitwise_xor.reduce([self.shift, *chosen])
            self.num_generated += n
        return self

    def _check(self, n: int) -> None:
        if n < 0 or self.num_generated + n > 2**MAXBIT:
            raise ValueError(
                f"SobolEngine: {n} points after {self.num_generated}: the sequence has 2^{MAXBIT}"
            )

    def _points(self, n: int) -> Any:
        """The next points as whole numbers of MAXBIT bits. `quasi` is the last one."""
        self._check(n)
        first = self.num_generated
        if not n:
            return np.empty((0, self.dimension), np.int64)
        numbers = np.arange(max(first, 1), first + n)
        # Neighbours differ in one bit of their Gray code: the lowest one that is set in the number.
        changed = np.log2(numbers & -numbers).astype(np.int64)
        start = self.quasi[None]
        steps = np.concatenate([start, self.sobolstate.T[changed]])
        points = np.bitwise_xor.accumulate(steps, 0)
        self.quasi = points[-1].copy()
        self.num_generated += n
        return points[len(points) - n :]

    def __repr__(self) -> str:
        text = f"{type(self).__name__}(dimension={self.dimension}"
        text += ", scramble=True" if self.scramble else ""
        return text + ("" if self.seed is None else f", seed={self.seed}") + ")"
