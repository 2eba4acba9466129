"""Every row and composite on CUDA Tensors, beside the CPU: values, dtypes, shapes, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.autograd.dispatch.op_function import table
from shmtensor.ops import ROWS
from tests.cuda.table.device_rows import UP_TO_SIGNS, plain_rows
from tests.cuda.table.device_tensors import (
    as_float32,
    cases_of_composites,
    cases_of_functions,
    compare,
    compare_calls,
)
from tests.ops.draws import calls

# Cases of tests/ops/gradient_cases.py that hold tensors of their own, on the CPU or in float64.
# Masked reductions are in test_cuda_families.py.
ON_CPU = {
    "_to_device",
    "cpu",
    "nn.functional.cross_entropy",
    "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d",
    "nn.functional.linear_cross_entropy",
    "nn.functional.nll_loss",
}
FUNCTIONS = [
    name for name in cases_of_functions() if name not in ON_CPU and not name.startswith("masked.")
]

COMPOSITES = cases_of_composites()


def run_row(name: str) -> None:
    row = ROWS[name]
    for i, call in enumerate(calls(row, "float32")):
        arguments, kwargs = (call.attributes, call.kwargs)

        def run(*inputs: Any, arguments: Any = arguments, kwargs: Any = kwargs) -> Any:
            device = next((x.device.type for x in flat(inputs)), "cpu")
            moved = [
                on_device(device, v, a.kind)
                for v, a in zip(arguments, row.attributes, strict=False)
            ]
            result = getattr(table, row.name)(*inputs, *moved, **kwargs)
            return [r.abs() for r in result] if row.name in UP_TO_SIGNS else result

        compare_calls(run, call.inputs, str(call), 2 if i == 0 else 1)


def flat(values: Any) -> Any:
    for v in values:
        if isinstance(v, (list, tuple)):
            yield from flat(v)
        elif v is not None:
            yield v


def on_device(device: str, value: Any, kind: str) -> Any:
    """Arrays among the attributes on a device: as Tensors if they are indices."""
    if isinstance(value, np.ndarray):
        x = st.tensor(value).to(device)
        return x if kind == "index" else x.array
    if isinstance(value, (list, tuple)):
        return type(value)(on_device(device, v, kind) for v in value)
    return value


@pytest.mark.parametrize("name", plain_rows())
def test_row_on_cuda_is_the_cpus(cp: Any, name: str) -> None:
    run_row(name)


def run_composite(name: str) -> None:
    args, kwargs = COMPOSITES[name]
    if not any(isinstance(x, np.ndarray) for x in flat(args)):
        expected = getattr(st, name)(*args, **kwargs)
        with st.device("cuda"):
            compare(getattr(st, name)(*args, **kwargs), expected, name, 1e-5)
        return
    compare_calls(
        lambda *operands: getattr(st, name)(*operands, **kwargs), as_float32(args), name, 0
    )


@pytest.mark.parametrize("name", sorted(COMPOSITES))
def test_composite_on_cuda_is_the_cpus(cp: Any, name: str) -> None:
    run_composite(name)


def run_function(name: str) -> None:
    from gradient_cases import case

    function, arrays = case(name)

    def run(*operands: Any) -> Any:
        with operands[0].device:
            return function(*operands)

    compare_calls(run, as_float32(arrays), name, 1)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_on_cuda_are_the_cpus(cp: Any, name: str) -> None:
    run_function(name)
