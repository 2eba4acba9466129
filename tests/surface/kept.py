"""What backward keeps, op by op: `python -m tests.surface.kept` writes docs/design/kept.md."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np

import shmtensor as st
from shmtensor.autograd.dispatch.op_function import declare, table
from shmtensor.ops import ROWS, Row
from shmtensor.ops.table.samples import Sample

declare()  # so that all families are registered

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "design" / "kept.md"
HEAD = """# What backward keeps

A pullback names what it needs, and the engine keeps exactly that ([ops](ops.md)): names are
inputs, `out` and other outputs, and extras that forward returns for backward alone. Shapes, dtypes
and attributes are kept, too. An input is kept only if an input whose pullback names it requires
grad; here all do. Bytes are those of the row's first sample in float32, beside the bytes of all its
inputs. `python -m tests.surface.kept` writes this page, and a test holds it.

| op | keeps | bytes kept | bytes of inputs |
|---|---|---|---|
"""


def rows() -> list[Row]:
    """The differentiable rows that have samples, by name."""
    differentiable = (r for r in ROWS.values() if r.pullbacks and r.samples)
    return sorted(differentiable, key=lambda r: r.name)


def names(row: Row) -> list[str]:
    """The arrays that the row's pullbacks name."""
    arrays = {x.name for x in row.inputs} | set(row.outputs) | set(row.saves)
    requirements = {n for p in row.pullbacks.values() for n in p.needs}
    order = [*(x.name for x in row.inputs), *row.outputs, *row.saves]
    return [n for n in order if n in requirements & arrays]


def random_input(random: Any, spec: Any) -> Any:
    if spec is None or isinstance(spec, np.ndarray):
        return None if spec is None else st.tensor(spec)
    if isinstance(spec, list):
        return [random_input(random, s) for s in spec]
    draw = spec if isinstance(spec, Sample) else Sample(tuple(spec))
    if draw.kind == "b":
        return st.tensor(random.random(draw.shape) < 0.5)
    if draw.kind == "i":
        if draw.unique:
            order = np.argsort(random.random((*draw.shape[:-1], int(draw.high))), -1)
            return st.tensor(order[..., : draw.shape[-1]])
        return st.tensor(random.integers(int(draw.low), int(draw.high), draw.shape))
    values = np.asarray(random.uniform(draw.low, draw.high, draw.shape)).astype("float32")
    return st.tensor(values)


def flat(values: Any) -> list[Any]:
    if isinstance(values, (list, tuple)):
        return [one for v in values for one in flat(v)]
    return [values]


def kept_bytes(row: Row) -> tuple[int, int, int]:
    """(bytes that the node keeps, bytes that the row says, bytes of the inputs)."""
    random = np.random.default_rng(zlib.crc32(row.name.encode()))
    sample, n = row.samples[0], len(row.inputs)
    specs = list(sample[:n]) + [None] * (n - len(sample))
    inputs = [random_input(random, s) for s in specs]
    arguments = list(sample[n:])
    kwargs = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
    for x, value in zip(row.inputs, inputs):
        for t in flat(value):
            if x.name in row.pullbacks and t is not None and t.is_floating_point():
                t.requires_grad_()
    outputs = flat(getattr(table, row.name)(*inputs, *arguments, **kwargs))
    nodes = [t.grad_fn for t in outputs if t.grad_fn is not None]
    tensors = [t for t in flat(inputs) if t is not None]
    total = sum(t.nbytes for t in tensors)
    if not nodes:
        return -1, -1, total
    nbytes_by_id = {
        id(a): a.nbytes for v in nodes[0].saved for a in flat(v) if isinstance(a, np.ndarray)
    }
    declared = {id(a): a.nbytes for a in flat(arguments) if isinstance(a, np.ndarray)}
    for x, value in zip(row.inputs, inputs):
        if x.name in names(row):
            declared.update({id(t.array): t.nbytes for t in flat(value) if t is not None})
    for name, t in zip(row.outputs, outputs):
        if name in names(row):
            declared[id(t.array)] = t.nbytes
    extras = {i: b for i, b in nbytes_by_id.items() if i not in declared}
    allowed = any(name in row.saves for name in names(row)) or any(a.kind for a in row.attributes)
    surplus = sum(extras.values()) if not allowed else 0
    return sum(nbytes_by_id.values()), sum(nbytes_by_id.values()) - surplus, total


def page() -> str:
    """The page as it should be."""
    lines = []
    for row in rows():
        nbytes, _, total = kept_bytes(row)
        if nbytes >= 0:
            operands = ", ".join(f"`{n}`" for n in names(row)) or "nothing"
            lines.append(f"| {row.name} | {operands} | {nbytes} | {total} |")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
