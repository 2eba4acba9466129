"""Rows of the op table on CuPy's arrays, beside the same rows on NumPy's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from shmtensor.ops import ROWS, Row
from tests.ops.draws import Call, calls

COMPARISONS = [row.name for row in ROWS.values() if row.comparison]
# float32, and the first of the others that the row takes.
DTYPES = ("float32", "int64", "bool", "complex64")

# Rows that PyTorch has for floats only; NumPy takes more.
FLOATS_ONLY = {
    "_bernoulli",
    "_cross_entropy",
    "_cross_entropy_weighted",
    "_dropout",
    "_grid_sample",
    "_nll_loss",
    "_nll_loss_backward",
    "_nll_loss_total_weight",
    "_normal",
    "_sample_indices",
    "_uniform",
    "logit",
}

# Tolerances of rows whose float32 results differ by rounding that grows.
CLOSE: dict[str, float] = {}


# Vectors of which any sign (complex: any phase) is right.
UP_TO_SIGNS = {"_svd", "_linalg_svd", "_linalg_eigh", "_linalg_eig"}


def equals_the_cpus(row: Row) -> bool:
    """Whether a device has the CPU's results: not where values are written to one place, because
    the last one is not known on a device: Note [Kept values].
    """
    return not row.name.endswith("_kept")


def plain_rows() -> list[str]:
    """The names of the rows whose forward is a function of arrays, and that have samples."""
    return [
        row.name
        for row in ROWS.values()
        if row.samples
        and not row.forward.__module__.startswith("shmtensor.autograd")
        and equals_the_cpus(row)
    ]


def move(xp: Any, value: Any) -> Any:
    """NumPy's arrays in `value`, also in lists and tuples, as arrays of `xp`."""
    if isinstance(value, np.ndarray):
        return xp.asarray(value)
    if isinstance(value, (list, tuple)):
        return type(value)(move(xp, v) for v in value)
    return value


def as_list(row: Row, result: Any) -> list[Any]:
    """The results of a forward without the arrays that it saves for pullbacks."""
    if row.listed:
        return list(result)
    many = len(row.outputs) + len(row.saves) > 1
    return list(result[: len(row.outputs)]) if many else [result]


def device_calls(row: Row) -> Iterator[tuple[str, Call, list[Any]]]:
    """The samples in float32, and in one other dtype that the row takes, with the CPU's results."""
    for dtype in DTYPES:
        if dtype != "float32" and row.promote == "float" and np.dtype(dtype).kind != "c":
            continue  # the engine casts them ahead of the forward
        if dtype != "float32" and row.name in FLOATS_ONLY:
            return
        pairs = []
        for call in calls(row, dtype):
            try:
                pairs.append((call, call.plain()))
            except Exception:
                if dtype == "float32":
                    raise
                break
        else:
            yield from ((dtype, call, results) for call, results in pairs)
            if dtype != "float32":
                return


def device_results(cp: Any, call: Call, inputs: list[Any]) -> list[Any]:
    """The results of the row's forward for CUDA on device arrays."""
    row = call.row
    defaults = row.attributes[len(call.attributes) :]
    values = [*call.attributes, *(a.default for a in defaults if not a.keyword_only)]
    kinds = [a.kind for a in row.attributes]
    values = [
        np.dtype(v) if k == "dtype" and v else move(cp, v) if k == "index" else v
        for v, k in zip(values, kinds, strict=False)
    ]
    forward = row.device_forwards.get("cuda") or row.forward
    kwargs = {name: move(cp, value) for name, value in call.kwargs.items()}
    return as_list(row, forward(cp, *inputs, *values, **kwargs))


def compare(cp: Any, row: Row, ours: Any, plain: Any, what: str) -> None:
    """Checks that a device array has the values, the dtype and the shape of NumPy's result."""
    assert isinstance(ours, cp.ndarray), f"{what}: the result is {type(ours)}"
    assert ours.shape == plain.shape, what
    assert ours.dtype == plain.dtype, what
    if plain.dtype.kind in "fc":
        close = CLOSE.get(row.name, 2e-5)
        if row.name in UP_TO_SIGNS:
            ours, plain = abs(ours), abs(plain)
        np.testing.assert_allclose(ours.get(), plain, close, close, err_msg=what)
    else:
        np.testing.assert_array_equal(ours.get(), plain, err_msg=what)
