"""Steps of Adam and SGD on flat blocks of a device: those of the CPU's kernels."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from shmtensor import native
from tests.cuda.kernels.check import values

N = 1037
TOLERANCE = {"float16": 2e-3, "float32": 3e-6, "float64": 1e-12}
DTYPES = list(TOLERANCE)


def blocks(dtype: str, states: int) -> tuple[Any, Any, list[Any]]:
    """A parameter, a gradient, and the state of float32 or float64."""
    wide = "float64" if dtype == "float64" else "float32"
    state = [np.abs(values((N,), wide, 2 + i)) / 4 for i in range(states)]
    return values((N,), dtype), values((N,), dtype, 1), state


def compare(dtype: str, device: list[Any], cpu: list[Any]) -> None:
    for ours, wanted in zip(device, cpu, strict=True):
        if ours is not None:
            np.testing.assert_allclose(ours.get(), wanted, TOLERANCE[dtype], TOLERANCE[dtype])


def widened(*arrays: Any) -> list[Any]:
    return [
        None if x is None else x.astype(np.float32 if x.dtype == np.float16 else x.dtype)
        for x in arrays
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("decoupled", "maximize", "amsgrad"), list(itertools.product([False, True], repeat=3))
)
def test_adam(cp: Any, decoupled: bool, maximize: bool, amsgrad: bool, dtype: str) -> None:
    from shmtensor.ops.cuda.optim import adam_step

    p, g, state = blocks(dtype, 3)
    if not amsgrad:
        state[2] = None
    numbers = (3, 0.01, 0.9, 0.99, 1e-6, 0.1, decoupled, maximize)
    cpu = widened(p, g, *state)
    native.adam_(*cpu, *numbers)
    for step in (3, cp.asarray([3], np.float32)):
        device = [None if x is None else cp.asarray(x) for x in (p, g, *state)]
        adam_step(*device, step, *numbers[1:])
        compare(dtype, device, cpu)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("momentum", "dampening", "nesterov", "maximize", "first"),
    [
        (0.0, 0.0, False, False, True),
        (0.9, 0.0, False, True, True),
        (0.9, 0.3, False, False, False),
        (0.9, 0.0, True, False, True),
        (0.9, 0.0, True, False, False),
    ],
)
def test_sgd(
    cp: Any,
    momentum: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    first: bool,
    dtype: str,
) -> None:
    from shmtensor.ops.cuda.optim import sgd_step

    p, g, state = blocks(dtype, 1)
    if not momentum:
        state[0] = None
    numbers = (0.1, momentum, dampening, 0.05, nesterov, maximize, first)
    cpu, device = (
        widened(p, g, *state),
        [None if x is None else cp.asarray(x) for x in (p, g, *state)],
    )
    native.sgd_(*cpu, *numbers)
    sgd_step(*device, *numbers)
    compare(dtype, device, cpu)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_scaled_gradient_and_a_skipped_step(cp: Any, dtype: str) -> None:
    from shmtensor.ops.cuda.optim import adam_step, sgd_step

    p, g, state = blocks(dtype, 2)
    scaled = (g * g.dtype.type(4)).astype(dtype)
    numbers = (1, 0.01, 0.9, 0.99, 1e-6, 0.1, False, False)
    scale = cp.asarray([4], np.float32)
    cpu = widened(p, g, *state)
    native.adam_(*cpu, None, *numbers)
    device = [cp.asarray(x) for x in (p, scaled, *state)]
    adam_step(*device, None, *numbers, grad_scale=scale, found_inf=cp.zeros(1, np.float32))
    compare(dtype, [device[0], *device[2:]], [cpu[0], *cpu[2:]])

    device = [cp.asarray(x) for x in (p, g, *state)]
    skip = cp.ones(1, np.float32)
    adam_step(*device, None, *numbers, found_inf=skip)
    sgd_step(device[0], device[1], None, 0.1, 0.0, 0.0, 0.0, False, False, True, found_inf=skip)
    for ours, before in zip(device, (p, g, *state), strict=True):
        np.testing.assert_array_equal(ours.get(), before)


def test_what_does_not_fit_is_named(cp: Any) -> None:
    from shmtensor.ops.cuda.optim import adam_step, sgd_step

    p, half = cp.zeros(4, np.float32), cp.zeros(4, np.float16)
    numbers = (0.1, 0.9, 0.0, 0.0, False, False, True)
    with pytest.raises(TypeError, match="param float32, grad float16"):
        sgd_step(p, half, None, *numbers)
    with pytest.raises(
        TypeError, match="momentum_buffer must be float32 for parameters of float16"
    ):
        sgd_step(half, half, half, *numbers)
    with pytest.raises(ValueError, match="grad must be flat and contiguous, of 4 elements"):
        sgd_step(p, cp.zeros(8, np.float32)[::2], None, *numbers)
    with pytest.raises(ValueError, match="step counts from 1"):
        adam_step(p, p, p, p, None, 0, 0.1, 0.9, 0.99, 1e-8, 0.0, False, False)
    with pytest.raises(TypeError, match="found_inf must be one float32"):
        sgd_step(p, p, None, *numbers, found_inf=cp.ones(2, np.float32))
    empty = cp.zeros(0, np.float32)
    sgd_step(empty, empty, None, *numbers)
    adam_step(empty, empty, empty, empty, None, 1, 0.1, 0.9, 0.99, 1e-8, 0.0, False, False)
