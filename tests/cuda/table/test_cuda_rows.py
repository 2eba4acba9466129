"""Every row's forward on CuPy's arrays: values, dtypes, shapes, views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shmtensor import cupy_runtime
from shmtensor.ops import ROWS
from tests.cuda.table.device_rows import compare, device_calls, device_results, move, plain_rows


@pytest.mark.parametrize("name", plain_rows())
def test_forward_on_cupy_is_the_cpus(cp: Any, name: str) -> None:
    cupy_runtime.initialize()
    row = ROWS[name]
    for dtype, call, expected in device_calls(row):
        what = f"{call} in {dtype}"
        inputs = move(cp, call.inputs)
        results = device_results(cp, call, inputs)
        for ours, plain in zip(results, expected, strict=True):
            compare(cp, row, ours, plain, what)
            if row.view and plain.size and np.shares_memory(plain, call.inputs[0]):
                assert ours.data.mem is inputs[0].data.mem, f"{what}: a view is needed"
