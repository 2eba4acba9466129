"""Norms on CUDA: a gradient has the same bits, whichever others are needed."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.autograd.dispatch.op_function import table
from shmtensor.ops import ROWS
from tests.cuda.table.device_tensors import as_float32, on
from tests.ops.draws import Call, calls


def gradients_of(call: Call, names: list[str], needed: tuple[bool, ...]) -> list[Any]:
    """The gradient of each named input on the host, None if it is not needed."""
    operands = dict(zip((x.name for x in call.row.inputs), on("cuda", as_float32(call.inputs))))
    leaves = [operands[n] for n, is_needed in zip(names, needed, strict=True) if is_needed]
    for x in leaves:
        x.requires_grad_()
    out = getattr(table, call.row.name)(*operands.values(), *call.attributes)
    out = out[0] if isinstance(out, tuple) else out
    cotangent = np.random.default_rng(1).normal(size=out.shape).astype(np.float32)
    found = iter(st.autograd.grad(out, leaves, st.tensor(cotangent).to("cuda")))
    return [next(found).cpu().tolist() if is_needed else None for is_needed in needed]


@pytest.mark.parametrize(
    "name", ["_native_layer_norm", "_native_batch_norm", "_normalize_channels"]
)
def test_a_gradient_does_not_depend_on_the_others(cp: Any, name: str) -> None:
    row = ROWS[name]
    for call in calls(row):
        names = [
            x.name
            for x, value in zip(row.inputs, call.inputs, strict=True)
            if x.name in row.pullbacks and value is not None
        ]
        by_all = gradients_of(call, names, (True,) * len(names))
        for needed in product((True, False), repeat=len(names)):
            if any(needed):
                found = gradients_of(call, names, needed)
                expected = [g if is_needed else None for g, is_needed in zip(by_all, needed)]
                assert found == expected, (str(call), needed)
