"""The update rules in plain NumPy, elementwise and in place; the native kernels must equal them.

They take arrays of any shape, strides and floating-point dtype, which the kernels do not; CuPy's
arrays; and tensors, through NumPy's protocols, for differentiable steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import native

Array = np.ndarray[Any, Any]


def gradient(p: Array, g: Array, weight_decay: float, maximize: bool) -> Array:
    """The gradient with its sign and weight decay applied."""
    if maximize:
        g = -g
    return g + weight_decay * p if weight_decay else g


def copy_of(x: Any) -> Any:
    """A copy of state that is overwritten while a backward still needs its old value."""
    is_tensor = isinstance(x, native.TensorBase)
    return x.clone() if is_tensor else x.copy()


def adam_(
    p: Array,
    g: Array,
    exp_avg: Array,
    exp_avg_sq: Array,
    max_exp_avg_sq: Array | None,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    maximize: bool,
) -> None:
    """Adam (Kingma, Ba 2014); `decoupled`: AdamW (Loshchilov, Hutter 2017); with max_exp_avg_sq,
    AMSGrad.
    """
    if maximize:
        g = -g
    if weight_decay:
        if decoupled:
            p *= 1 - lr * weight_decay
        else:
            g = g + weight_decay * p
    exp_avg += (g - exp_avg) * (1 - beta1)
    exp_avg_sq *= beta2
    exp_avg_sq += g * g * (1 - beta2)
    second_moment = exp_avg_sq
    if max_exp_avg_sq is not None:
        max_exp_avg_sq[...] = np.maximum(copy_of(max_exp_avg_sq), exp_avg_sq)
        second_moment = max_exp_avg_sq
    with np.errstate(divide="ignore", invalid="ignore"):  # eps may be 0
        denominator = np.sqrt(second_moment) / (1 - beta2**step) ** 0.5 + eps
        p -= exp_avg / denominator * (lr / (1 - beta1**step))


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
    """Gradient descent with momentum (Sutskever et al. 2013); `first`: the buffer is new."""
    g = gradient(p, g, weight_decay, maximize)
    if buf is not None:
        if first:
            buf[...] = g
        else:
            buf *= momentum
            buf += g * (1 - dampening)
        g = g + momentum * buf if nesterov else buf
    p -= lr * g


def adadelta_(
    p: Array,
    g: Array,
    square_avg: Array,
    acc_delta: Array,
    lr: float,
    rho: float,
    one_minus_rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """Adadelta (Zeiler 2012)."""
    g = gradient(p, g, weight_decay, maximize)
    square_avg *= rho
    square_avg += g * g * one_minus_rho
    with np.errstate(divide="ignore", invalid="ignore"):  # eps may be 0
        delta = np.sqrt(acc_delta + eps) / np.sqrt(square_avg + eps) * g
    acc_delta *= rho
    acc_delta += delta * delta * one_minus_rho
    p -= lr * delta


def adagrad_(
    p: Array, g: Array, total: Array, lr: float, eps: float, weight_decay: float, maximize: bool
) -> None:
    """Adagrad (Duchi, Hazan, Singer 2011); lr: of this step, already decayed."""
    g = gradient(p, g, weight_decay, maximize)
    total += g * g
    with np.errstate(divide="ignore", invalid="ignore"):  # eps may be 0
        p -= lr * g / (np.sqrt(total) + eps)


def adamax_(
    p: Array,
    g: Array,
    exp_avg: Array,
    exp_inf: Array,
    step_size: float,
    one_minus_beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """Adamax (Kingma, Ba 2014), section 7.1; step_size: lr / (1 - beta1**step)."""
    g = gradient(p, g, weight_decay, maximize)
    exp_avg += (g - exp_avg) * one_minus_beta1
    exp_inf[...] = np.maximum(exp_inf * beta2, np.abs(g) + eps)
    with np.errstate(divide="ignore", invalid="ignore"):  # eps may be 0
        p -= step_size * exp_avg / exp_inf


def asgd_(
    p: Array,
    g: Array,
    ax: Array,
    eta: float,
    mu: float,
    shrink: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """Averaged gradient descent (Polyak, Juditsky 1992); eta: the step's length; mu: how much of
    the parameter enters its average ax."""
    g = gradient(p, g, weight_decay, maximize)
    p *= shrink
    p -= eta * g
    if mu == 1:
        ax[...] = p
    else:
        ax += (p - ax) * mu


def nadam_(
    p: Array,
    g: Array,
    exp_avg: Array,
    exp_avg_sq: Array,
    gradient_size: float,
    average_size: float,
    one_minus_beta1: float,
    beta2: float,
    one_minus_beta2: float,
    correction: float,
    eps: float,
    shrink: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """NAdam (Dozat 2016). gradient_size, average_size: the factors of the gradient and of its
    average in a step; correction: the factor of the root of exp_avg_sq."""
    g = gradient(p, g, weight_decay, maximize)
    exp_avg += (g - exp_avg) * one_minus_beta1
    exp_avg_sq *= beta2
    exp_avg_sq += g * g * one_minus_beta2
    p *= shrink
    with np.errstate(divide="ignore", invalid="ignore"):  # eps may be 0
        denominator = np.sqrt(exp_avg_sq) * correction + eps
        p -= (gradient_size * g + average_size * exp_avg) / denominator


def radam_(
    p: Array,
    g: Array,
    exp_avg: Array,
    exp_avg_sq: Array,
    step_size: float,
    rectification: float,
    one_minus_beta1: float,
    beta2: float,
    one_minus_beta2: float,
    eps: float,
    shrink: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """RAdam (Liu et al. 2019). rectification: the factor that is divided by the root of exp_avg_sq;
    0 in the first steps, which use the average alone."""
    g = gradient(p, g, weight_decay, maximize)
    exp_avg += (g - exp_avg) * one_minus_beta1
    exp_avg_sq *= beta2
    exp_avg_sq += g * g * one_minus_beta2
    p *= shrink
    move = step_size * exp_avg
    if rectification:
        with np.errstate(divide="ignore", invalid="ignore"):  # eps may be 0
            move = move * (rectification / (np.sqrt(exp_avg_sq) + eps))
    p -= move


def rmsprop_(
    p: Array,
    g: Array,
    square_avg: Array,
    momentum_buffer: Array | None,
    grad_avg: Array | None,
    lr: float,
    alpha: float,
    one_minus_alpha: float,
    eps: float,
    momentum: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """RMSprop (Tieleman, Hinton 2012); with grad_avg, the centered form (Graves 2013)."""
    g = gradient(p, g, weight_decay, maximize)
    square_avg *= alpha
    square_avg += g * g * one_minus_alpha
    square = square_avg
    if grad_avg is not None:
        grad_avg += (g - grad_avg) * one_minus_alpha
        square = square_avg - grad_avg * grad_avg
    with np.errstate(divide="ignore", invalid="ignore"):  # eps may be 0
        move = g / (np.sqrt(square) + eps)
    if momentum_buffer is not None:
        momentum_buffer *= momentum
        momentum_buffer += move
        move = momentum_buffer
    p -= lr * move


def rprop_(
    p: Array,
    g: Array,
    prev: Array,
    step_size: Array,
    eta_minus: float,
    eta_plus: float,
    smallest: float,
    largest: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """Rprop (Riedmiller, Braun 1993): an element's step grows while the sign of its gradient stays;
    where it changes, the step shrinks and is skipped."""
    g = gradient(p, g, weight_decay, maximize)
    agreement = g * prev
    shrinks = agreement < 0
    smaller = np.where(shrinks, step_size * eta_minus, step_size)
    size = np.where(agreement > 0, step_size * eta_plus, smaller)
    step_size[...] = np.minimum(np.maximum(size, smallest), largest)
    prev[...] = np.where(shrinks, 0, g)
    p -= np.sign(prev) * step_size
