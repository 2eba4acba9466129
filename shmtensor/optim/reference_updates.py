"""The update rules in plain NumPy, elementwise and in place: what the native kernels must equal.

They take arrays of any shape, strides and floating-point dtype, which the kernels do not.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["adagrad_", "adam_", "sgd_"]

Array = np.ndarray[Any, Any]


def adam_(
    p: Array,
    g: Array,
    m: Array,
    v: Array,
    vmax: Array | None,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    maximize: bool,
) -> None:
    """Adam (Kingma, Ba 2014); `decoupled`: AdamW (Loshchilov, Hutter 2017); vmax: AMSGrad."""
    if maximize:
        g = -g
    if weight_decay:
        if decoupled:
            p *= 1 - lr * weight_decay
        else:
            g = g + weight_decay * p
    m += (g - m) * (1 - beta1)
    v *= beta2
    v += g * g * (1 - beta2)
    second = v
    if vmax is not None:
        np.maximum(vmax, v, out=vmax)
        second = vmax
    with np.errstate(divide="ignore", invalid="ignore"):  # eps may be 0
        denominator = np.sqrt(second) / math.sqrt(1 - beta2**step) + eps
        p -= m / denominator * (lr / (1 - beta1**step))


def sgd_(
    p: Array,
    g: Array,
    buf: Array | None,
    lr: float,
    momentum: float,
    dampening: float,
    weight_decay: float,
    nesterov: bool,
    maximize: bool,
    first: bool,
) -> None:
    """Gradient descent with momentum (Sutskever et al. 2013); `first`: the buffer has no past."""
    if maximize:
        g = -g
    if weight_decay:
        g = g + weight_decay * p
    if buf is not None:
        if first:
            buf[...] = g
        else:
            buf *= momentum
            buf += g * (1 - dampening)
        g = g + momentum * buf if nesterov else buf
    p -= lr * g


def adagrad_(
    p: Array,
    g: Array,
    total: Array,
    lr: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """Adagrad (Duchi, Hazan, Singer 2011); lr: of this step, decayed already."""
    if maximize:
        g = -g
    if weight_decay:
        g = g + weight_decay * p
    total += g * g
    with np.errstate(divide="ignore", invalid="ignore"):  # eps may be 0
        p -= lr * g / (np.sqrt(total) + eps)
