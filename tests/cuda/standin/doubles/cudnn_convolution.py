"""The convolutions of the double of cuDNN: how an operation must be, engines, NumPy's values.

An operation has an image x (N, C, *size), filters w (K, C / groups, *kernel) and a result y (N, K,
*fit), of which one is computed from the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from shmtensor.dtypes import bfloat16
from tests.cuda.standin.doubles.cudnn_names import Kind, Mode, Note
from tests.cuda.standin.doubles.library import Misuse

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

# cudnnDataType_t.
DTYPES: dict[int, Any] = {
    0: np.dtype(np.float32),
    1: np.dtype(np.float64),
    2: np.dtype(np.float16),
    9: bfloat16,
}


@dataclass(frozen=True)
class Spec:
    """A tensor of an operation: what its descriptor says."""

    uid: int
    dtype: np.dtype[Any]
    shape: Shape
    strides: Shape  # in elements
    alignment: int

    @property
    def span(self) -> int:
        """Elements from the first to the last one."""
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides))

    def view(self, flat: Array) -> Array:
        """The tensor in its `span` elements."""
        strides = [s * flat.itemsize for s in self.strides]
        return as_strided(flat, self.shape, strides)


@dataclass(frozen=True)
class Operation:
    """One convolution, forward, or by its image or its filters."""

    kind: Kind
    x: Spec
    w: Spec
    y: Spec
    compute: np.dtype[Any]
    is_flipped: bool
    before: Shape
    after: Shape
    stride: Shape
    dilation: Shape

    @property
    def tensors(self) -> dict[str, Spec]:
        return {"x": self.x, "w": self.w, "y": self.y}

    @property
    def result(self) -> str:
        """The name of the tensor that is written."""
        return {Kind.FORWARD: "y", Kind.BACKWARD_DATA: "x", Kind.BACKWARD_FILTER: "w"}[self.kind]

    def check(self) -> None:
        """Raises Misuse unless shapes, dtypes and paddings fit together."""
        n = len(self.stride)
        parts = (self.before, self.after, self.dilation)
        if any(len(part) != n for part in parts):
            raise Misuse(f"paddings, strides and dilations of different lengths: {self}")
        if min(self.stride) < 1 or min(self.dilation) < 1 or min(self.before + self.after) < 0:
            raise Misuse(f"strides and dilations below 1, or paddings below 0: {self}")
        if {len(t.shape) for t in self.tensors.values()} != {n + 2}:
            raise Misuse(f"{n} spatial dimensions, and tensors of other ranks: {self}")
        if len({t.uid for t in self.tensors.values()}) != 3:
            raise Misuse(f"one unique id for two tensors: {self}")
        if len({t.dtype for t in self.tensors.values()}) != 1:
            raise Misuse(f"tensors of different dtypes: {self}")
        x, w, y = self.x.shape, self.w.shape, self.y.shape
        if x[1] % w[1] or w[0] % (x[1] // w[1]):
            raise Misuse(f"{x[1]} channels and filters {w} make no groups")
        windows = tuple(
            (size + b + a - d * (k - 1) - 1) // s + 1
            for size, b, a, d, k, s in zip(
                x[2:], self.before, self.after, self.dilation, w[2:], self.stride
            )
        )
        if y != (x[0], w[0], *windows):
            raise Misuse(f"image {x} and filters {w} give {(x[0], w[0], *windows)}, not {y}")

    # -------------------------------------------------------------- values

    def grouped(self, y: Array) -> Array:
        """(N, K, *fit) as (N, groups, K / groups, windows)."""
        groups = self.x.shape[1] // self.w.shape[1]
        return y.reshape(y.shape[0], groups, y.shape[1] // groups, math.prod(y.shape[2:]))

    def filters(self, w: Array, offset: Shape) -> Array:
        """The filters' elements at an offset of the windows as (groups, K / groups, C / groups)."""
        place = tuple(k - 1 - o for k, o in zip(w.shape[2:], offset)) if self.is_flipped else offset
        groups = self.x.shape[1] // self.w.shape[1]
        return w[(..., *place)].reshape(groups, w.shape[0] // groups, w.shape[1])

    def windows(self, padded: Array) -> Iterator[tuple[Shape, Array]]:
        """Each offset in a window, and the padded image's elements there, a view (N, C, *fit)."""
        for offset in product(*map(range, self.w.shape[2:])):
            places = tuple(
                slice(o * d, o * d + (fit - 1) * s + 1, s)
                for o, d, fit, s in zip(offset, self.dilation, self.y.shape[2:], self.stride)
            )
            yield offset, padded[(..., *places)]

    def padded(self, x: Array | None, dtype: Any) -> Array:
        """The image between its paddings; zeros without one."""
        size = (n + b + a for n, b, a in zip(self.x.shape[2:], self.before, self.after))
        out = np.zeros((*self.x.shape[:2], *size), dtype)
        if x is not None:
            out[self.inside()] = x
        return out

    def inside(self) -> tuple[Any, ...]:
        places = (slice(b, b + n) for n, b in zip(self.x.shape[2:], self.before))
        return (..., *places)

    def compute_into(self, arrays: dict[str, Array], engine: Engine) -> None:
        """Writes the result."""
        x, w, y = (engine.rounded(arrays[name]) for name in ("x", "w", "y"))
        dtype = np.dtype(np.float16) if engine.has(Note.REDUCED_PRECISION_REDUCTION) else None
        dtype = dtype or self.compute
        if self.kind == Kind.FORWARD:
            total = np.zeros(self.grouped(arrays["y"]).shape, dtype)
            for offset, window in self.windows(self.padded(x, dtype)):
                total += self.filters(w.astype(dtype), offset) @ self.grouped(window)
            arrays["y"][...] = total.reshape(self.y.shape)
        elif self.kind == Kind.BACKWARD_DATA:
            padded = self.padded(None, dtype)
            results = self.grouped(y.astype(dtype))
            for offset, window in self.windows(padded):
                part = self.filters(w.astype(dtype), offset).swapaxes(1, 2) @ results
                window += part.reshape(window.shape)
            arrays["x"][...] = padded[self.inside()]
        else:
            results = self.grouped(y.astype(dtype))
            for offset, window in self.windows(self.padded(x, dtype)):
                products = results @ self.grouped(window).swapaxes(2, 3)
                self.filters_at(arrays["w"], offset)[...] = products.sum(0).reshape(
                    self.w.shape[:2]
                )

    def filters_at(self, w: Array, offset: Shape) -> Array:
        """A view (K, C / groups) of the filters at an offset."""
        place = tuple(k - 1 - o for k, o in zip(w.shape[2:], offset)) if self.is_flipped else offset
        return w[(..., *place)]


# ---------------------------------------------------------------- engines


@dataclass(frozen=True)
class Engine:
    """A way to compute: its notes, and the workspace that it asks for."""

    notes: tuple[Note, ...] = ()
    workspace: int = 0  # bytes

    def has(self, note: Note) -> bool:
        return note in self.notes

    def rounded(self, a: Array) -> Array:
        """An operand as the engine reads it: tensor cores read 10 bits of a float32's mantissa."""
        if a.dtype != np.float32:
            return a
        if self.has(Note.DOWN_CONVERT_INPUTS):
            return a.astype(np.float16).astype(np.float32)
        if self.has(Note.TENSOR_CORE):
            bits = np.ascontiguousarray(a).view(np.uint32)
            return ((bits + np.uint32(1 << 12)) & np.uint32(0xFFFFE000)).view(np.float32)
        return a


# The order of the heuristics' mode A: what our flags must leave out comes first.
ENGINES: tuple[Engine, ...] = (
    Engine((Note.TENSOR_CORE, Note.DOWN_CONVERT_INPUTS), 256),
    Engine((Note.TENSOR_CORE, Note.REDUCED_PRECISION_REDUCTION), 512),
    Engine((Note.TENSOR_CORE, Note.NONDETERMINISTIC), 1000),
    Engine((Note.TENSOR_CORE,), 4096),
    Engine((Note.NONDETERMINISTIC,), 64),
    Engine((), 0),
)


def engines_for(operation: Operation, mode: Mode) -> list[int]:
    """The numbers of the engines that a mode of the heuristics names, best first."""
    if mode == Mode.FALLBACK:
        return [len(ENGINES) - 1]
    dtype = operation.x.dtype
    found = []
    for number, engine in enumerate(ENGINES):
        if dtype == np.float64 and engine.has(Note.TENSOR_CORE):
            continue
        if engine.has(Note.DOWN_CONVERT_INPUTS) and dtype != np.float32:
            continue
        if engine.has(Note.REDUCED_PRECISION_REDUCTION) and dtype.itemsize > 2:
            continue
        if engine.has(Note.NONDETERMINISTIC) and operation.kind == Kind.FORWARD:
            continue
        found.append(number)
    return found
