"""Turns a row's samples into arguments; calls rows on arrays and on Tensors."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import shmtensor as st
from shmtensor.autograd.dispatch.op_function import declare, table
from shmtensor.ops import ROWS, Row
from shmtensor.ops.table.samples import Sample

declare()  # so that all families are registered


@dataclass
class Call:
    """A row with arrays for its inputs (None or lists of arrays where it has them) and
    attributes.
    """

    row: Row
    inputs: list[Any]
    attributes: list[Any]
    kwargs: dict[str, Any]
    random: np.random.Generator
    sample: Any

    def __str__(self) -> str:
        return f"{self.row.name} of {self.sample}"

    def plain(self, *inputs: Any) -> list[Any]:
        """The results of the row's forward on arrays, without the arrays saved for backward."""
        defaults = self.row.attributes[len(self.attributes) :]
        values = [*self.attributes, *(a.default for a in defaults if not a.keyword_only)]
        kinds = [a.kind for a in self.row.attributes]
        values = [
            np.dtype(v) if k == "dtype" and v else v for v, k in zip(values, kinds, strict=False)
        ]
        with np.errstate(all="ignore"):
            result = self.row.forward(np, *(inputs or self.inputs), *values, **self.kwargs)
        if self.row.listed:
            return list(result)
        many = len(self.row.outputs) + len(self.row.saves) > 1
        return [np.asarray(v) for v in (result[: len(self.row.outputs)] if many else (result,))]

    def public(self, *inputs: Any) -> list[Any]:
        """The results of the public function on Tensors."""
        result = getattr(table, self.row.name)(*inputs, *self.attributes, **self.kwargs)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    def tensors(self, requires_grad: bool = False, strided: bool = False) -> list[Any]:
        """The inputs as Tensors; real and complex ones require grad on request."""

        def one(x: Any) -> Any:
            if x is None:
                return None
            if isinstance(x, list):
                return [one(v) for v in x]
            t = st.from_numpy(oddly_laid(x)) if strided else st.tensor(x)
            return t.requires_grad_(True) if requires_grad and x.dtype.kind in "fc" else t

        return [one(x) for x in self.inputs]

    def differentiable(self, tensors: list[Any]) -> list[Any]:
        """The Tensors for which the row has pullbacks."""
        leaves: list[Any] = []
        for declared, t in zip(self.row.inputs, tensors, strict=True):
            if declared.name in self.row.pullbacks and t is not None:
                leaves += [v for v in (t if declared.listed else [t]) if v.requires_grad]
        return leaves


def oddly_laid(x: Any) -> Any:
    """The same values with irregular strides, some of them negative."""
    if not x.ndim:
        return np.stack([x, x, x])[1, ...]
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x[..., ::-1]
    return np.asfortranarray(wide)[..., ::2][..., ::-1]


def random_input(random: np.random.Generator, spec: Any, dtype: np.dtype[Any]) -> Any:
    """An array for one input of a sample."""
    if spec is None or isinstance(spec, np.ndarray):
        return spec
    if isinstance(spec, list):
        return [random_input(random, s, dtype) for s in spec]
    draw = spec if isinstance(spec, Sample) else Sample(tuple(spec))
    x = numbers(random, draw, dtype)
    return np.sort(x, -1) if draw.ascending else x


def numbers(random: np.random.Generator, draw: Sample, dtype: np.dtype[Any]) -> Any:
    if draw.kind == "b":
        return np.asarray(random.random(draw.shape) < 0.5)
    if draw.kind == "i":
        if draw.unique:
            order = np.argsort(random.random((*draw.shape[:-1], int(draw.high))), -1)
            return order[..., : draw.shape[-1]]
        return np.asarray(random.integers(int(draw.low), int(draw.high), draw.shape))
    if dtype.kind in "iu":
        return np.asarray(random.integers(1, 5, draw.shape)).astype(dtype)
    if dtype.kind == "b":
        return np.asarray(random.random(draw.shape) < 0.5)
    x = np.asarray(random.uniform(draw.low, draw.high, draw.shape))
    if dtype.kind == "c":
        x = x + 0.3j * random.uniform(-1, 1, draw.shape)
    return np.asarray(x).astype(dtype)


def calls(row: Row, dtype: Any = np.float64) -> Iterator[Call]:
    """The row's samples as calls; the same numbers in every run."""
    for i, sample in enumerate(row.samples):
        random = np.random.default_rng(zlib.crc32(f"{sample} {i}".encode()))
        n = len(row.inputs)
        specs = list(sample[:n]) + [None] * (n - len(sample))
        inputs = [random_input(random, s, np.dtype(dtype)) for s in specs]
        arguments = list(sample[n:])
        kwargs = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
        yield Call(row, inputs, arguments, kwargs, random, sample)


def families(keep: Callable[[Row], Any] = lambda row: True) -> dict[str, Any]:
    """For `pytest.mark.parametrize(**families(...))`: one test per file of rows."""
    rows_by_family: dict[str, list[Row]] = {}
    for row in ROWS.values():
        if row.samples and keep(row):
            rows_by_family.setdefault(row.forward.__module__.rpartition(".")[2], []).append(row)
    return {
        "argnames": "family",
        "argvalues": list(rows_by_family.values()),
        "ids": list(rows_by_family),
    }


def every(family: list[Row], dtype: Any = np.float64) -> Iterator[Call]:
    """All samples of a family's rows as calls."""
    for row in family:
        yield from calls(row, dtype)
