"""The optimizers' update rules, one launch each: `optim/reference_updates.py` on a GPU.

Each function takes the arguments of the reference rule of its name: flat, contiguous arrays of
float32 or float64, updated in place, and numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import cupy

from .optim import adam_step as adam_
from .optim import sgd_step as sgd_

__all__ = [
    "adadelta_",
    "adagrad_",
    "adam_",
    "adamax_",
    "asgd_",
    "nadam_",
    "radam_",
    "rmsprop_",
    "rprop_",
    "sgd_",
]


class Rule(NamedTuple):
    """A rule in C++.

    Attributes:
        states: the arrays that it updates besides p; those that are None are left out.
        numbers: its other arguments, as constants of the arrays' type T.
        body: the code, with `d` the gradient with its sign and weight decay applied. `HAS_X` is
            whether there is a state x.
    """

    states: tuple[str, ...]
    numbers: tuple[str, ...]
    body: str


RULES: dict[str, Rule] = {}

DEFINITIONS = """
template <typename T> __device__ T larger(T x, T y) { return x > y || x != x ? x : y; }
template <typename T> __device__ T sign_of(T x) { return x != x ? x : T((x > 0) - (x < 0)); }
"""


@functools.cache
def kernel_of(name: str, present: tuple[bool, ...]) -> Any:
    """The kernel of a rule with some of its states."""
    rule = RULES[name]
    states = [s for s, is_there in zip(rule.states, present, strict=True) if is_there]
    code = [f"const T {n} = (T){n}_;" for n in rule.numbers]
    code.append("T d = maximize != 0 ? -g : g;\nif (weight_decay != 0) d += weight_decay * p;")
    body = rule.body
    for state, is_there in zip(rule.states, present, strict=True):
        body = body.replace(f"HAS_{state.upper()}", str(is_there).lower())
        if not is_there:
            code.append(f"T {state} = 0;")
    return cupy.ElementwiseKernel(
        ", ".join(["T g", *(f"float64 {n}_" for n in rule.numbers)]),
        ", ".join(["T p", *(f"T {s}" for s in states)]),
        "\n".join([*code, body]),
        "shmtensor_" + name + "".join("01"[is_there] for is_there in present),
        preamble=DEFINITIONS,
    )


def declare(name: str, states: str, numbers: str, body: str) -> Callable[..., None]:
    """A function `(p, g, *states, *numbers)`."""
    rule = RULES[name] = Rule(tuple(states.split()), tuple(numbers.split()), body)
    n = len(rule.states)

    def update(p: Any, g: Any, *arguments: Any) -> None:
        arrays = arguments[:n]
        kernel = kernel_of(name, tuple(array is not None for array in arrays))
        kernel(g, *map(float, arguments[n:]), p, *(array for array in arrays if array is not None))

    update.__name__ = update.__qualname__ = name
    update.__doc__ = f"`reference_updates.{name}` on a GPU. Copies: none."
    return update


AVERAGES = """
exp_avg += (d - exp_avg) * one_minus_beta1;
exp_avg_sq = exp_avg_sq * beta2 + d * d * one_minus_beta2;
"""

adadelta_ = declare(
    "adadelta_",
    "square_avg acc_delta",
    "lr rho one_minus_rho eps weight_decay maximize",
    """
square_avg = square_avg * rho + d * d * one_minus_rho;
T delta = sqrt(acc_delta + eps) / sqrt(square_avg + eps) * d;
acc_delta = acc_delta * rho + delta * delta * one_minus_rho;
p -= lr * delta;
""",
)

adagrad_ = declare(
    "adagrad_",
    "total",
    "lr eps weight_decay maximize",
    "total += d * d;\np -= lr * d / (sqrt(total) + eps);",
)

adamax_ = declare(
    "adamax_",
    "exp_avg exp_inf",
    "step_size one_minus_beta1 beta2 eps weight_decay maximize",
    """
exp_avg += (d - exp_avg) * one_minus_beta1;
exp_inf = larger(abs(d) + eps, exp_inf * beta2);
p -= step_size * exp_avg / exp_inf;
""",
)

asgd_ = declare(
    "asgd_",
    "ax",
    "eta mu shrink weight_decay maximize",
    "p *= shrink;\np -= eta * d;\nax = mu == 1 ? p : ax + (p - ax) * mu;",
)

nadam_ = declare(
    "nadam_",
    "exp_avg exp_avg_sq",
    "gradient_size average_size one_minus_beta1 beta2 one_minus_beta2 correction eps shrink "
    "weight_decay maximize",
    AVERAGES + "p *= shrink;\n"
    "p -= (gradient_size * d + average_size * exp_avg) / (sqrt(exp_avg_sq) * correction + eps);",
)

radam_ = declare(
    "radam_",
    "exp_avg exp_avg_sq",
    "step_size rectification one_minus_beta1 beta2 one_minus_beta2 eps shrink weight_decay "
    "maximize",
    AVERAGES + "p *= shrink;\nT move = step_size * exp_avg;\n"
    "if (rectification != 0) move *= rectification / (sqrt(exp_avg_sq) + eps);\np -= move;",
)

rmsprop_ = declare(
    "rmsprop_",
    "square_avg momentum_buffer grad_avg",
    "lr alpha one_minus_alpha eps momentum weight_decay maximize",
    """
square_avg = square_avg * alpha + d * d * one_minus_alpha;
T square = square_avg;
if (HAS_GRAD_AVG) {
  grad_avg += (d - grad_avg) * one_minus_alpha;
  square -= grad_avg * grad_avg;
}
T move = d / (sqrt(square) + eps);
if (HAS_MOMENTUM_BUFFER) move = momentum_buffer = momentum_buffer * momentum + move;
p -= lr * move;
""",
)

rprop_ = declare(
    "rprop_",
    "prev step_size",
    "eta_minus eta_plus smallest largest weight_decay maximize",
    """
const T agreement = d * prev;
T size = agreement > 0 ? step_size * eta_plus : step_size;
if (agreement < 0) size = step_size * eta_minus;
step_size = size < smallest ? smallest : size > largest ? largest : size;
prev = agreement < 0 ? T(0) : d;
p -= sign_of(prev) * step_size;
""",
)
