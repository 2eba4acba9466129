"""The update rules: formulas of the new parameter and state; in place by `Rule`.

A formula takes numbers and arrays of any kind that NumPy's functions take: NumPy's of any shape,
strides and floating-point dtype; tensors, for differentiable steps; and the symbols of a trace, of
which `ops/cuda/update_rules.py` makes CUDA kernels. The native kernels equal them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class Rule:
    """An update rule: `rule(p, g, *states, *numbers)` changes p and the states in place.

    Args:
        formula: `(p, g, states..., /, numbers...)` -> the new (p, states...). A state that is not
            used is None.
        numbers_of: the numbers of the formula from those of the rule, if they are others.
    """

    def __init__(
        self, formula: Callable[..., Any], numbers_of: Callable[..., Any] | None = None
    ) -> None:
        self.formula, self.numbers_of = formula, numbers_of
        code = formula.__code__
        self.arrays = code.co_varnames[: code.co_posonlyargcount]
        self.__name__, self.__doc__ = f"{formula.__name__}_", formula.__doc__

    def __call__(self, p: Any, g: Any, *arguments: Any) -> None:
        arrays = p, *arguments[: len(self.arrays) - 2]
        for x, new in zip(arrays, self.compute(p, g, *arguments), strict=True):
            if x is not None:
                x[...] = new

    def compute(self, p: Any, g: Any, *arguments: Any) -> tuple[Any, ...]:
        """The new (p, states...); nothing is changed."""
        n = len(self.arrays) - 2
        states, numbers = arguments[:n], arguments[n:]
        if self.numbers_of is not None:
            numbers = self.numbers_of(*numbers)
        with np.errstate(divide="ignore", invalid="ignore"):  # eps may be 0
            results: tuple[Any, ...] = self.formula(p, g, *states, *numbers)
        return results


def gradient(p: Any, g: Any, weight_decay: Any, maximize: bool) -> Any:
    """The gradient with its sign and weight decay applied."""
    if maximize:
        g = -g
    return g + weight_decay * p if weight_decay else g


def choose(condition: Any, x: Any, y: Any) -> Any:
    """x if a condition on numbers holds, else y; the condition is not known in a trace."""
    if isinstance(condition, (bool, np.bool_)):
        return x if condition else y
    return np.where(condition, x, y)


def averages(
    d: Any, exp_avg: Any, exp_avg_sq: Any, one_minus_beta1: Any, beta2: Any, one_minus_beta2: Any
) -> tuple[Any, Any]:
    """The averages of the gradient d and of its square."""
    return exp_avg + (d - exp_avg) * one_minus_beta1, exp_avg_sq * beta2 + d * d * one_minus_beta2


def adam_numbers(
    step: Any, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float,
    decoupled: bool, maximize: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """The numbers of `adam`. `step`: of this update, from 1; `decoupled`: AdamW (Loshchilov, Hutter
    2017).
    """
    if step.__class__ is int and step < 1:
        raise ValueError(f"adam_: step counts from 1: {step}")
    shrink, weight_decay = (1 - lr * weight_decay, 0.0) if decoupled else (1.0, weight_decay)
    step_size, root = lr / (1 - beta1**step), (1 - beta2**step) ** 0.5
    return step_size, 1 - beta1, beta2, 1 - beta2, root, eps, shrink, weight_decay, maximize


def adam(
    p: Any, g: Any, exp_avg: Any, exp_avg_sq: Any, max_exp_avg_sq: Any, /, step_size: Any,
    one_minus_beta1: Any, beta2: Any, one_minus_beta2: Any, root: Any, eps: Any, shrink: Any,
    weight_decay: Any, maximize: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Adam (Kingma, Ba 2014); with max_exp_avg_sq, AMSGrad. root: what the root of the second
    moment is divided by."""
    d = gradient(p, g, weight_decay, maximize)
    exp_avg, exp_avg_sq = averages(d, exp_avg, exp_avg_sq, one_minus_beta1, beta2, one_minus_beta2)
    second_moment = exp_avg_sq
    if max_exp_avg_sq is not None:
        second_moment = max_exp_avg_sq = np.maximum(max_exp_avg_sq, exp_avg_sq)
    p = p * shrink - exp_avg / (np.sqrt(second_moment) / root + eps) * step_size
    return p, exp_avg, exp_avg_sq, max_exp_avg_sq


def sgd(
    p: Any, g: Any, momentum_buffer: Any, /, lr: Any, momentum: Any, dampening: Any,
    weight_decay: Any, nesterov: bool, maximize: bool, first: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """Gradient descent with momentum (Sutskever et al. 2013); `first`: the buffer is new."""
    d = gradient(p, g, weight_decay, maximize)
    if momentum_buffer is not None:
        following = momentum_buffer * momentum + d * (1 - dampening)
        momentum_buffer = choose(first, d, following)
        d = d + momentum * momentum_buffer if nesterov else momentum_buffer
    return p - lr * d, momentum_buffer


def adadelta(
    p: Any, g: Any, square_avg: Any, acc_delta: Any, /, lr: Any, rho: Any, one_minus_rho: Any,
    eps: Any, weight_decay: Any, maximize: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Adadelta (Zeiler 2012)."""
    d = gradient(p, g, weight_decay, maximize)
    square_avg = square_avg * rho + d * d * one_minus_rho
    delta = np.sqrt(acc_delta + eps) / np.sqrt(square_avg + eps) * d
    return p - lr * delta, square_avg, acc_delta * rho + delta * delta * one_minus_rho


def adagrad(
    p: Any, g: Any, total: Any, /, lr: Any, eps: Any, weight_decay: Any, maximize: bool
) -> tuple[Any, Any]:
    """Adagrad (Duchi, Hazan, Singer 2011); lr: of this step, already decayed."""
    d = gradient(p, g, weight_decay, maximize)
    total = total + d * d
    return p - lr * d / (np.sqrt(total) + eps), total


def adamax(
    p: Any, g: Any, exp_avg: Any, exp_inf: Any, /, step_size: Any, one_minus_beta1: Any, beta2: Any,
    eps: Any, weight_decay: Any, maximize: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Adamax (Kingma, Ba 2014), section 7.1; step_size: lr / (1 - beta1**step)."""
    d = gradient(p, g, weight_decay, maximize)
    exp_avg = exp_avg + (d - exp_avg) * one_minus_beta1
    exp_inf = np.maximum(exp_inf * beta2, np.abs(d) + eps)
    return p - step_size * exp_avg / exp_inf, exp_avg, exp_inf


def asgd(
    p: Any, g: Any, ax: Any, /, eta: Any, mu: Any, shrink: Any, weight_decay: Any, maximize: bool
) -> tuple[Any, Any]:
    """Averaged gradient descent (Polyak, Juditsky 1992); eta: the step's length; mu: how much of
    the parameter enters its average ax."""
    p = p * shrink - eta * gradient(p, g, weight_decay, maximize)
    return p, choose(mu == 1, p, ax + (p - ax) * mu)


def nadam(
    p: Any, g: Any, exp_avg: Any, exp_avg_sq: Any, /, gradient_size: Any, average_size: Any,
    one_minus_beta1: Any, beta2: Any, one_minus_beta2: Any, correction: Any, eps: Any, shrink: Any,
    weight_decay: Any, maximize: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """NAdam (Dozat 2016). gradient_size, average_size: the factors of the gradient and of its
    average in a step; correction: the factor of the root of exp_avg_sq."""
    d = gradient(p, g, weight_decay, maximize)
    exp_avg, exp_avg_sq = averages(d, exp_avg, exp_avg_sq, one_minus_beta1, beta2, one_minus_beta2)
    move = gradient_size * d + average_size * exp_avg
    return p * shrink - move / (np.sqrt(exp_avg_sq) * correction + eps), exp_avg, exp_avg_sq


def radam(
    p: Any, g: Any, exp_avg: Any, exp_avg_sq: Any, /, step_size: Any, rectification: Any,
    one_minus_beta1: Any, beta2: Any, one_minus_beta2: Any, eps: Any, shrink: Any,
    weight_decay: Any, maximize: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """RAdam (Liu et al. 2019). rectification: the factor that is divided by the root of exp_avg_sq;
    0 in the first steps, which use the average alone."""
    d = gradient(p, g, weight_decay, maximize)
    exp_avg, exp_avg_sq = averages(d, exp_avg, exp_avg_sq, one_minus_beta1, beta2, one_minus_beta2)
    factor = choose(rectification == 0, 1.0, rectification / (np.sqrt(exp_avg_sq) + eps))
    return p * shrink - step_size * exp_avg * factor, exp_avg, exp_avg_sq


def rmsprop(
    p: Any, g: Any, square_avg: Any, momentum_buffer: Any, grad_avg: Any, /, lr: Any, alpha: Any,
    one_minus_alpha: Any, eps: Any, momentum: Any, weight_decay: Any, maximize: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """RMSprop (Tieleman, Hinton 2012); with grad_avg, the centered form (Graves 2013)."""
    d = gradient(p, g, weight_decay, maximize)
    square = square_avg = square_avg * alpha + d * d * one_minus_alpha
    if grad_avg is not None:
        grad_avg = grad_avg + (d - grad_avg) * one_minus_alpha
        square = square_avg - grad_avg * grad_avg
    move = d / (np.sqrt(square) + eps)
    if momentum_buffer is not None:
        move = momentum_buffer = momentum_buffer * momentum + move
    return p - lr * move, square_avg, momentum_buffer, grad_avg


def rprop(
    p: Any, g: Any, prev: Any, step_size: Any, /, eta_minus: Any, eta_plus: Any, smallest: Any,
    largest: Any, weight_decay: Any, maximize: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Rprop (Riedmiller, Braun 1993): an element's step grows while the sign of its gradient stays;
    where it changes, the step shrinks and is skipped."""
    d = gradient(p, g, weight_decay, maximize)
    agreement = d * prev
    smaller = np.where(agreement < 0, step_size * eta_minus, step_size)
    size = np.where(agreement > 0, step_size * eta_plus, smaller)
    step_size = np.minimum(np.maximum(size, smallest), largest)
    prev = np.where(agreement < 0, 0, d)
    return p - np.sign(prev) * step_size, prev, step_size


adam_ = Rule(adam, adam_numbers)
sgd_, adadelta_, adagrad_, adamax_ = Rule(sgd), Rule(adadelta), Rule(adagrad), Rule(adamax)
asgd_, nadam_, radam_, rmsprop_ = Rule(asgd), Rule(nadam), Rule(radam), Rule(rmsprop)
rprop_ = Rule(rprop)
