"""A double of cuFFT: plans with their layouts, transforms by SciPy, which are not normalised.

Not there: plans over several devices, callbacks.
"""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy import fft

from tests.cuda.standin.doubles.library import (
    Array,
    Misuse,
    array,
    attach,
    current_device,
    double,
    queue,
    store,
)

INVALID_VALUE = 4
FORWARD = -1
R2C, C2R, C2C, D2Z, Z2D, Z2Z = 0x2A, 0x2C, 0x29, 0x6A, 0x6C, 0x69
# Type of a transform -> dtypes of its input and output.
TYPES = {R2C: "fF", C2R: "Ff", C2C: "FF", D2Z: "dD", Z2D: "Dd", Z2Z: "DD"}
CUDA_TYPES = {0: "f", 1: "d", 4: "F", 5: "D"}
WORKSPACE = 64


@dataclass
class Layout:
    """Where element (batch, x0, x1, ...) is: at batch * distance + step * (position in `embed`)."""

    embed: tuple[int, ...]
    step: int
    distance: int


@dataclass
class Plan:
    """A plan; `shape` is that of the real or complex signal."""

    device: int
    stream: int = 0
    shape: tuple[int, ...] = ()
    dtypes: str = ""
    batch: int = 0
    layouts: tuple[Layout, Layout] | None = None
    work_area: int = 0


_plans: dict[int, Plan] = {}
_numbers = itertools.count(1)


def install() -> None:
    attach("cufft", "cupy/cuda/cufft", INVALID_VALUE)


def plan_of(number: int) -> Plan:
    plan = _plans.get(number)
    if plan is None:
        raise Misuse(f"not a plan: {number}")
    if plan.device != current_device():
        raise Misuse(f"a plan of device {plan.device} under device {current_device()}")
    return plan


def halved(shape: tuple[int, ...], dtypes: str, side: int) -> tuple[int, ...]:
    """The shape of the input (0) or output (1): the complex side of a real transform has half."""
    real = dtypes[0] in "fd" or dtypes[1] in "fd"
    if real and dtypes[side] in "FD":
        return (*shape[:-1], shape[-1] // 2 + 1)
    return shape


def read_integers(pointer: int, n: int, kind: Any = ctypes.c_int) -> tuple[int, ...]:
    return tuple(ctypes.cast(pointer, ctypes.POINTER(kind))[0:n])


def view(pointer: int, plan: Plan, side: int) -> Array:
    """The (batch, ...) array of a transform's input or output."""
    assert plan.layouts is not None
    layout = plan.layouts[side]
    shape = halved(plan.shape, plan.dtypes, side)
    steps = [layout.step * prod(layout.embed[i + 1 :]) for i in range(len(shape))]
    last = layout.distance * (plan.batch - 1) + sum((n - 1) * s for n, s in zip(shape, steps))
    flat = array(pointer, plan.dtypes[side], last + 1)
    item = flat.itemsize
    return as_strided(
        flat, (plan.batch, *shape), (layout.distance * item, *(s * item for s in steps))
    )


def transform(number: int, idata: int, odata: int, direction: int) -> None:
    """Queues a transform on the plan's stream."""
    plan = plan_of(number)
    if plan.layouts is None:
        raise Misuse("a plan that has not been made")
    array(plan.work_area, np.uint8, WORKSPACE)
    x, y = view(idata, plan, 0), view(odata, plan, 1)
    axes = tuple(range(1, x.ndim))

    def work() -> None:
        if plan.dtypes[0] in "fd":
            y[...] = fft.rfftn(x, axes=axes)
        elif plan.dtypes[1] in "fd":
            y[...] = fft.irfftn(x, s=plan.shape, axes=axes, norm="forward")
            if len(plan.shape) > 1:
                x[...] = np.nan  # the library may overwrite the input
        elif direction == FORWARD:
            y[...] = fft.fftn(x, axes=axes)
        else:
            y[...] = fft.ifftn(x, axes=axes, norm="forward")

    queue(plan.stream, work)


def make(
    number: int, shape: tuple[int, ...], dtypes: str | None, batch: int,
    layouts: list[tuple[tuple[int, ...] | None, int, int]],
) -> None:  # fmt: skip
    """Fills a plan in. Without its embedding, an array is contiguous, whatever its step."""
    plan = plan_of(number)
    if dtypes is None:
        raise Misuse("a type of transform that the double lacks")
    if min(shape) < 1 or batch < 1:
        raise Misuse(f"a plan of shape {shape}, {batch} times")
    plan.shape, plan.dtypes, plan.batch = shape, dtypes, batch
    sides = []
    for side, (embed, step, distance) in enumerate(layouts):
        own = halved(shape, dtypes, side)
        if embed is None:
            sides.append(Layout(own, 1, prod(own)))
        else:
            sides.append(Layout(embed, step, distance))
    plan.layouts = (sides[0], sides[1])


@double("cufftCreate")
def _create(plan: int) -> None:
    number = next(_numbers)
    _plans[number] = Plan(current_device())
    store(plan, number)


@double("cufftDestroy")
def _destroy(plan: int) -> None:
    if _plans.pop(plan, None) is None:
        raise Misuse(f"not a plan: {plan}")


@double("cufftGetVersion")
def _version(version: int) -> None:
    store(version, 12000)


@double("cufftSetAutoAllocation")
def _set_auto_allocation(plan: int, autoAllocate: int) -> None:
    if autoAllocate:
        raise Misuse("the double wants a work area of the caller's")


@double("cufftSetWorkArea")
def _set_work_area(plan: int, workArea: int) -> None:
    plan_of(plan).work_area = workArea


@double("cufftSetStream")
def _set_stream(plan: int, streamId: int) -> None:
    plan_of(plan).stream = streamId


@double("cufftMakePlan1d")
def _make_plan_1d(plan: int, nx: int, type: int, batch: int, workSize: int) -> None:
    make(plan, (nx,), TYPES.get(type), batch, [(None, 1, 0), (None, 1, 0)])
    store(workSize, WORKSPACE, ctypes.c_size_t)


@double("cufftMakePlanMany")
def _make_plan_many(
    plan: int, rank: int, n: int, inembed: int, istride: int, idist: int, onembed: int,
    ostride: int, odist: int, type: int, batch: int, workSize: int,
) -> None:  # fmt: skip
    sides = [
        (read_integers(embed, rank) if embed else None, step, distance)
        for embed, step, distance in ((inembed, istride, idist), (onembed, ostride, odist))
    ]
    make(plan, read_integers(n, rank), TYPES.get(type), batch, sides)
    store(workSize, WORKSPACE, ctypes.c_size_t)


@double("cufftXtMakePlanMany")
def _xt_make_plan_many(
    plan: int, rank: int, n: int, inembed: int, istride: int, idist: int, inputtype: int,
    onembed: int, ostride: int, odist: int, outputtype: int, batch: int, workSize: int,
    executiontype: int,
) -> None:  # fmt: skip
    kind = ctypes.c_longlong
    sides = [
        (read_integers(embed, rank, kind) if embed else None, step, distance)
        for embed, step, distance in ((inembed, istride, idist), (onembed, ostride, odist))
    ]
    both = CUDA_TYPES.get(inputtype, "?") + CUDA_TYPES.get(outputtype, "?")
    make(plan, read_integers(n, rank, kind), both if "?" not in both else None, batch, sides)
    store(workSize, WORKSPACE, ctypes.c_size_t)


def _needs(plan: int, dtypes: str) -> None:
    if plan_of(plan).dtypes != dtypes:
        raise Misuse(f"a plan of {plan_of(plan).dtypes} for a transform of {dtypes}")


@double("cufftExecC2C")
def _c2c(plan: int, idata: int, odata: int, direction: int) -> None:
    _needs(plan, "FF")
    transform(plan, idata, odata, direction)


@double("cufftExecZ2Z")
def _z2z(plan: int, idata: int, odata: int, direction: int) -> None:
    _needs(plan, "DD")
    transform(plan, idata, odata, direction)


@double("cufftExecR2C")
def _r2c(plan: int, idata: int, odata: int) -> None:
    _needs(plan, "fF")
    transform(plan, idata, odata, FORWARD)


@double("cufftExecD2Z")
def _d2z(plan: int, idata: int, odata: int) -> None:
    _needs(plan, "dD")
    transform(plan, idata, odata, FORWARD)


@double("cufftExecC2R")
def _c2r(plan: int, idata: int, odata: int) -> None:
    _needs(plan, "Ff")
    transform(plan, idata, odata, -FORWARD)


@double("cufftExecZ2D")
def _z2d(plan: int, idata: int, odata: int) -> None:
    _needs(plan, "Dd")
    transform(plan, idata, odata, -FORWARD)


@double("cufftXtExec")
def _xt_exec(plan: int, inarr: int, outarr: int, d: int) -> None:
    transform(plan, inarr, outarr, d)
