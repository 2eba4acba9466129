"""Optimizer steps on CUDA: the formulas of `optim/reference_updates.py`, traced, one launch over a
flat block of parameters, in place.

The parameter and its gradient are one-dimensional, contiguous, and of one dtype: float32, float64
or float16. The state has the dtype that is computed in: float32, or float64 for float64. Numbers
are arguments of the kernel, so that a schedule compiles nothing; what is True, False or None, and a
weight decay of 0, is compiled in. `grad_scale` (the gradient is divided by it) and `found_inf` (not
0: nothing is changed) are float32 arrays of one number in device memory, or None, and so may be
numbers of the rule, as the step: a GradScaler's step waits for nothing.
"""

from __future__ import annotations

import functools
import string
from typing import Any

import cupy
import numpy as np

from .fused import TRUTH, VALUE, Number, Symbol, Trace
from .kernel_source import with_common
from .launch import ACC, OPTIONS, blocks_for, current_device

SOURCE = string.Template(
    """
extern "C" __global__ void ${name}(${parameters}, index_t n) {
  ${prologue}
  for (index_t i = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += static_cast<index_t>(gridDim.x) * blockDim.x) {
    ${body}
  }
}
"""
)
SKIP = "if (found_inf[0] != 0) return;"
UNSCALE = "const acc_t unscale = 1 / static_cast<acc_t>(grad_scale[0]);"
DEVICE_TYPES = {np.dtype(np.float32): "float", np.dtype(np.bool_): "bool"}


class NonzeroNumber(Number):
    """A number of which it is known that it is not 0."""

    def __bool__(self) -> bool:
        return True


class UpdateTrace(Trace):
    """The statements for an element. What depends on numbers only is computed once, in float64,
    as Python does.
    """

    literal = "double"

    def __init__(self, dtype: Any, wide: Any) -> None:
        super().__init__(dtype, wide)
        self.prologue: list[str] = []

    def emit(self, text: str, operands: tuple[Any, ...], kind: str) -> Symbol:
        symbols = [self.symbol(x) for x in operands]
        if not all(x.is_number for x in symbols):
            return super().emit(text, tuple(map(self.value, symbols)), kind)
        name = f"_n{len(self.prologue)}"
        c_type = "bool" if kind is TRUTH else "double"
        self.prologue.append(f"const {c_type} {name} = {text.format(*(x.text for x in symbols))};")
        return number_symbol(self, name, kind)

    def where(self, condition: Any, x: Any, y: Any) -> Symbol:
        if not self.symbol(condition).is_number:
            x, y = self.value(x), self.value(y)
        return super().where(condition, x, y)

    def value(self, x: Any) -> Symbol:
        symbol = super().value(x)
        if not symbol.is_number:
            return symbol
        return Symbol(self, f"static_cast<acc_t>({symbol.text})", VALUE)


def number_symbol(f: Trace, text: str, kind: str) -> Symbol:
    """A symbol that depends on numbers only."""
    symbol = (Symbol if kind is TRUTH else Number)(f, text, kind)
    symbol.is_number = True
    return symbol


@functools.cache
def load_update(rule: Any, kinds: tuple[Any, ...], dtype: Any, scaled: tuple[bool, bool]) -> Any:
    """`load(device)`: the kernel of a rule.

    Args:
        kinds: of each argument: whether there is the array; the dtype of a number in device memory;
            `float` or `bool` for another number; the value of a flag.
        scaled: whether there are grad_scale and found_inf.
    """
    f = UpdateTrace(dtype, ACC[dtype])
    n = len(rule.arrays)
    parameters: list[str] = []
    prologue: list[str] = []
    body: list[str] = []
    operands: list[Any] = []
    for name, kind in zip(rule.arrays, kinds):
        c_type = "scalar_t" if name in ("p", "g") else "acc_t"
        if not kind:
            operands.append(None)
            continue
        parameters.append(f"{'const ' * (name == 'g')}{c_type}* __restrict__ {name}_")
        load = f"to_acc({name}_[i])" if name in ("p", "g") else f"{name}_[i]"
        load += " * unscale" if name == "g" and scaled[0] else ""
        body.append(f"const acc_t {name} = {load};")
        operands.append(Symbol(f, name, VALUE))
    for i, kind in enumerate(kinds[n:]):
        if isinstance(kind, np.dtype):
            parameters.append(f"const {DEVICE_TYPES[kind]}* __restrict__ x{i}")
            is_truth = kind.kind == "b"
            text = f"x{i}[0]" if is_truth else f"double(x{i}[0])"
            operands.append(number_symbol(f, text, TRUTH if is_truth else VALUE))
        elif kind is bool:
            parameters.append(f"bool x{i}")
            operands.append(number_symbol(f, f"x{i}", TRUTH))
        elif kind is float:
            parameters.append(f"double x{i}")
            operands.append(NonzeroNumber(f, f"x{i}", VALUE))
        else:
            operands.append(kind)
    for name, is_there, text in zip(("grad_scale", "found_inf"), scaled, (UNSCALE, SKIP)):
        if is_there:
            parameters.append(f"const float* __restrict__ {name}")
            prologue.insert(0, text)
    numbers = operands[n:]
    if rule.numbers_of is not None and any(isinstance(kind, np.dtype) for kind in kinds[n:]):
        numbers = rule.numbers_of(*numbers)
    results = rule.formula(*operands[:n], *numbers)
    body += f.statements
    for name, kind, result in zip(("p", *rule.arrays[2:]), (True, *kinds[2:n]), results):
        if kind:
            text = f.value(result).text
            body.append(f"{name}_[i] = {f'to_scalar({text})' if name == 'p' else text};")
    source = SOURCE.substitute(
        name=rule.__name__,
        parameters=", ".join(parameters),
        prologue="\n  ".join([*prologue, *f.prologue]),
        body="\n    ".join(body),
    )
    code = with_common(source, dtype.name)
    return functools.cache(
        lambda device: cupy.RawModule(code=code, options=OPTIONS).get_function(rule.__name__).kernel
    )


def update(
    rule: Any, p: Any, g: Any, *arguments: Any, grad_scale: Any = None, found_inf: Any = None
) -> None:
    """Applies a rule of `optim/reference_updates.py`; the arguments are the rule's.

    Args:
        grad_scale, found_inf: one float32 number in device memory, or None.

    Copies: none.
    """
    n = len(rule.arrays)
    arrays, numbers = (p, g, *arguments[: n - 2]), arguments[n - 2 :]
    check_flat(rule, arrays)
    check_scalars(rule.__name__, grad_scale=grad_scale, found_inf=found_inf)
    function, begin = rule.formula, n
    if rule.numbers_of is not None:
        if any(isinstance(x, cupy.ndarray) for x in numbers):
            function, begin = rule.numbers_of, 0
        else:
            numbers = rule.numbers_of(*numbers)
    if not p.size:
        return
    kinds: list[Any] = [x is not None for x in arrays]
    values = [x for x in arrays if x is not None]
    for name, x in zip(function.__code__.co_varnames[begin:], numbers):
        if isinstance(x, cupy.ndarray):
            kinds.append(x.dtype)
            values.append(x)
        elif name == "first":  # changes from step to step
            kinds.append(bool)
            values.append(np.bool_(x))
        elif x.__class__ is bool or (name == "weight_decay" and not x):
            kinds.append(x)
        else:
            kinds.append(float)
            values.append(np.float64(x))
    values += [x for x in (grad_scale, found_inf) if x is not None]
    scaled = grad_scale is not None, found_inf is not None
    kernel = load_update(rule, tuple(kinds), p.dtype, scaled)(current_device())
    kernel((blocks_for(p.size), 1, 1), (256, 1, 1), (*values, np.int64(p.size)))


def check_flat(rule: Any, arrays: tuple[Any, ...]) -> None:
    """Checks that all arrays are flat, of equal length, and of the right dtypes.

    Raises:
        TypeError: a dtype does not fit. ValueError: a shape does not, or strides.
    """
    name, (p, g) = rule.__name__, arrays[:2]
    acc = ACC.get(p.dtype)
    if acc is None or g.dtype != p.dtype:
        raise TypeError(f"{name}: dtypes do not fit: param {p.dtype}, grad {g.dtype}")
    for label, x in zip(("param", "grad", *rule.arrays[2:]), arrays):
        if x is None:
            continue
        if x.shape != p.shape or x.ndim != 1 or not x.flags.c_contiguous:
            raise ValueError(
                f"{name}: {label} must be flat and contiguous, of {p.size} elements: "
                f"shape {x.shape}, strides {x.strides}"
            )
        if label not in ("param", "grad") and x.dtype != acc:
            raise TypeError(f"{name}: {label} must be {acc} for parameters of {p.dtype}: {x.dtype}")


def check_scalars(name: str, **scalars: Any) -> None:
    """Checks that each is None or one float32 number on the device.

    Raises:
        TypeError: it is not.
    """
    for label, x in scalars.items():
        if x is not None and (x.dtype != np.float32 or x.size != 1):
            raise TypeError(f"{name}: {label} must be one float32: {x.dtype} of shape {x.shape}")
