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

from .launch import ACC, blocks_for, launch

FLAGS = (np.int32(0), np.int32(1))


def check_flat(name: str, param: Any, grad: Any, *states: tuple[str, Any]) -> Any:
    """Checks that all arrays are flat, of equal length, and of the right dtypes.

    Returns: the type that is computed in.

    Raises:
        TypeError: a dtype does not fit. ValueError: a shape does not, or strides.
    """
    dtype = param.dtype
    acc = ACC.get(dtype)
    if acc is None or grad.dtype != dtype:
        raise TypeError(f"{name}: dtypes do not fit: param {dtype}, grad {grad.dtype}")
    shape = param.shape
    for label, x in (("param", param), ("grad", grad), *states):
        if x is not None and (x.shape != shape or x.ndim != 1 or not x.flags.c_contiguous):
            raise ValueError(
                f"{name}: {label} must be flat and contiguous, of {param.size} elements: "
                f"shape {x.shape}, strides {x.strides}"
            )
    for label, x in states:
        if x is not None and x.dtype != acc:
            raise TypeError(f"{name}: {label} must be {acc} for parameters of {dtype}: {x.dtype}")
    return acc.type


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
    acc = check_flat(
        name,
        param,
        grad,
        ("exp_avg", exp_avg),
        ("exp_avg_sq", exp_avg_sq),
        ("max_exp_avg_sq", max_exp_avg_sq),
    )
    device_step = step if isinstance(step, cupy.ndarray) else None
    number = 1.0 if device_step is not None else float(step)
    if number < 1:
        raise ValueError(f"{name}: step counts from 1: {number}")
    check_scalars(name, step=device_step, grad_scale=grad_scale, found_inf=found_inf)
    n = param.size
    if not n:
        return
    lr, beta1, beta2 = float(lr), float(beta1), float(beta2)
    arguments = (
        param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq, n, lr, beta1, beta2, acc(eps),
        acc(0.0 if decoupled else weight_decay), acc(1 - lr * weight_decay if decoupled else 1.0),
        1 - beta1**number, 1 - beta2**number, FLAGS[bool(maximize)],
        device_step, grad_scale, found_inf,
    )  # fmt: skip
    launch("optim", "adam", param.dtype, blocks_for(n), 256, arguments)


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
    acc = check_flat("sgd_step", param, grad, ("momentum_buffer", momentum_buffer))
    check_scalars("sgd_step", grad_scale=grad_scale, found_inf=found_inf)
    n = param.size
    if not n:
        return
    is_first = first if isinstance(first, cupy.ndarray) else None
    arguments = (
        param, grad, momentum_buffer, n, acc(lr), acc(momentum), acc(dampening), acc(weight_decay),
        FLAGS[bool(nesterov)], FLAGS[bool(maximize)], FLAGS[is_first is None and bool(first)],
        is_first, grad_scale, found_inf,
    )  # fmt: skip
    launch("optim", "sgd", param.dtype, blocks_for(n), 256, arguments)
