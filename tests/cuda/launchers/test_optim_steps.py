"""Update rules on flat blocks of a device, traced: the steps of the CPU's kernels."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native, optim
from shmtensor.optim.flat.device_step import device_rules
from tests.cuda.kernels.check import values
from tests.optim.test_reference_updates import FAMILY

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
    adam_step = device_rules().adam_
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
    sgd_step = device_rules().sgd_
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
    adam_step, sgd_step = device_rules().adam_, device_rules().sgd_
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
    adam_step, sgd_step = device_rules().adam_, device_rules().sgd_
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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(FAMILY))
def test_other_rules(cp: Any, name: str, dtype: str) -> None:
    count, numbers = FAMILY[name]
    p, g, state = blocks(dtype, count)
    state = [s + 1 for s in state]
    if name == "rmsprop_":
        state[2] /= 4  # a centered variance stays positive
    variants = [numbers]
    if name in ("asgd_", "radam_"):  # mu = 1; not rectified
        variants.append((numbers[0], float(name == "asgd_"), *numbers[2:]))
    for variant in variants:
        for ending in ((0.0, False), (0.1, True)):
            cpu, device = widened(p, g, *state), [cp.asarray(x) for x in (p, g, *state)]
            cpu = [x.copy() for x in cpu]
            getattr(native, name)(*cpu, *variant, *ending)
            getattr(device_rules(), name)(*device, *variant, *ending)
            compare(dtype, device, cpu)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("SGD", {"momentum": 0.9}),
        ("Adam", {}),
        ("AdamW", {}),
        ("NAdam", {}),
        ("RAdam", {}),
        ("RMSprop", {}),
        ("Adagrad", {"lr_decay": 0.1}),
        ("Adadelta", {}),
        ("Adamax", {}),
        ("ASGD", {"t0": 3}),
        ("Rprop", {}),
    ],
)
def test_a_schedule_compiles_once_and_a_step_is_one_launch(
    cp: Any, name: str, arguments: dict[str, Any]
) -> None:
    from shmtensor.ops.cuda.update_rules import load_update
    from tests.cuda.standin.install import ON_GPU, install

    p = st.ones(5).cuda().requires_grad_()
    p.grad = st.ones(5, device="cuda")
    optimizer = getattr(optim, name)([p], lr=0.1, **arguments)
    scheduler = optim.lr_scheduler.LambdaLR(optimizer, lambda step: step % 7)  # also 0
    load_update.cache_clear()
    optimizer.step()
    for _ in range(100):
        scheduler.step()
        before = 0 if ON_GPU else install().standin_launches()
        optimizer.step()
        assert ON_GPU or install().standin_launches() == before + 1
    assert load_update.cache_info().misses == 1
