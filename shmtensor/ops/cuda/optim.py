"""Optimizer steps on CUDA: one launch over a flat block of parameters, in place.

The parameter and its gradient are one-dimensional, contiguous, and of one dtype: float32, float64
or float16. The state has the dtype that is computed in: float32, or float64 for float64 (so float16
parameters have a float32 state). `grad_scale` (the gradient is divided by it) and `found_inf` (not
0: nothing is changed) are float32 arrays of one number in device memory, or None: a GradScaler's
step waits for nothing.
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from .launch import acc_dtype, as_acc, blocks_for, is_floating, launch, pointers

__all__ = ["adam_step", "sgd_step"]


def check_flat(name: str, param: Any, grad: Any, **state: Any) -> None:
    """Checks that all arrays are flat, of equal length, and of the right dtypes.

    Raises:
        TypeError: a dtype does not fit. ValueError: a shape does not, or strides.
    """
    if not is_floating(param, grad):
        raise TypeError(f"{name}: dtypes do not fit: param {param.dtype}, grad {grad.dtype}")
    for label, x in (("param", param), ("grad", grad), *state.items()):
        if x is None:
            continue
        if x.ndim != 1 or x.size != param.size or not x.flags.c_contiguous:
            raise ValueError(
                f"{name}: {label} must be flat and contiguous, of {param.size} elements: "
                f"shape {x.shape}, strides {x.strides}"
            )
        if label in state and x.dtype != acc_dtype(param.dtype):
            raise TypeError(
                f"{name}: {label} must be {acc_dtype(param.dtype)} for parameters of "
                f"{param.dtype}: {x.dtype}"
            )


def check_scalars(name: str, **scalars: Any) -> None:
    """Checks that each is None or one float32 number on the device.

    Raises:
        TypeError: it is not.
    """
    for label, x in scalars.items():
        if x is not None and (x.dtype != np.float32 or x.size != 1):
            raise TypeError(f"{name}: {label} must be one float32: {x.dtype} of shape {x.shape}")


def adam_step(
    param: Any,
    grad: Any,
    exp_avg: Any,
    exp_avg_sq: Any,
    max_exp_avg_sq: Any,
    step: Any,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    maximize: bool,
    *,
    grad_scale: Any = None,
    found_inf: Any = None,
) -> None:
    """Adam; `decoupled`: AdamW. The arguments up to `maximize` are those of `native.adam_`.

    Args:
        max_exp_avg_sq: AMSGrad's state, or None.
        step: the number of this update, from 1: a number, or one float32 in device memory.

    Copies: none.
    """
    name = "adam_step"
    check_flat(
        name, param, grad, exp_avg=exp_avg, exp_avg_sq=exp_avg_sq, max_exp_avg_sq=max_exp_avg_sq
    )
    device_step = step if isinstance(step, cupy.ndarray) else None
    number = 1.0 if device_step is not None else float(step)
    if number < 1:
        raise ValueError(f"{name}: step counts from 1: {number}")
    check_scalars(name, step=device_step, grad_scale=grad_scale, found_inf=found_inf)
    if not param.size:
        return
    dtype = param.dtype
    launch(
        "optim",
        "adam",
        dtype,
        blocks_for(param.size),
        256,
        (
            param,
            grad,
            exp_avg,
            exp_avg_sq,
            *pointers(max_exp_avg_sq),
            np.int64(param.size),
            *(np.float64(v) for v in (lr, beta1, beta2)),
            as_acc(dtype, eps),
            as_acc(dtype, 0.0 if decoupled else weight_decay),
            as_acc(dtype, 1 - lr * weight_decay if decoupled else 1.0),
            np.float64(1 - beta1**number),
            np.float64(1 - beta2**number),
            np.int32(maximize),
            *pointers(device_step, grad_scale, found_inf),
        ),
    )


def sgd_step(
    param: Any,
    grad: Any,
    momentum_buffer: Any,
    lr: float,
    momentum: float,
    dampening: float,
    weight_decay: float,
    nesterov: bool,
    maximize: bool,
    first: Any,
    *,
    grad_scale: Any = None,
    found_inf: Any = None,
) -> None:
    """SGD. The arguments up to `first` are those of `native.sgd_`.

    Args:
        momentum_buffer: None without momentum.
        first: the buffer is new: a bool, or one bool in device memory.

    Copies: none.
    """
    check_flat("sgd_step", param, grad, momentum_buffer=momentum_buffer)
    check_scalars("sgd_step", grad_scale=grad_scale, found_inf=found_inf)
    if not param.size:
        return
    is_first = first if isinstance(first, cupy.ndarray) else None
    numbers = (as_acc(param.dtype, v) for v in (lr, momentum, dampening, weight_decay))
    flags = (np.int32(v) for v in (nesterov, maximize, first if is_first is None else 0))
    arguments = (param, grad, *pointers(momentum_buffer), np.int64(param.size), *numbers, *flags)
    arguments = (*arguments, *pointers(is_first, grad_scale, found_inf))
    launch("optim", "sgd", param.dtype, blocks_for(param.size), 256, arguments)
