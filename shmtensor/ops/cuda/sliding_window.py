"""Kernels of sliding windows, one thread for each element of the result; see nn/sliding_window.py.

Images have one to three inner dimensions; the kernels count three, of which the first may have the
size 1.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import cupy

Shape = tuple[int, ...]


def three(sizes: Shape, fill: int) -> Shape:
    """Three numbers: `fill` ahead of the given ones."""
    return (fill,) * (3 - len(sizes)) + tuple(sizes)


def integers(*names: str) -> str:
    """Three integer parameters of a kernel for each name: `n` is n0, n1, n2."""
    return ", ".join(f"int64 {name}{d}" for name in names for d in range(3))


# The parameters: sizes of the image, number, size, stride, padding and dilation of windows.
WINDOWS = integers("n", "f", "k", "s", "p", "d")


def window_arguments(
    size: Shape, fit: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Shape:
    """The arguments for the parameters WINDOWS."""
    return (
        *three(size, 1),
        *three(fit, 1),
        *three(kernel, 1),
        *three(stride, 1),
        *three(padding, 0),
        *three(dilation, 1),
    )


def place(rest: str, sizes: str, into: str) -> str:
    """Code that splits the variable `rest` into the indices `<into>0` to `<into>2` of three
    dimensions `<sizes>0` to `<sizes>2`; `rest` keeps the index of the dimensions before them.
    """
    return "".join(
        f"const long long {into}{d} = {rest} % {sizes}{d}; {rest} /= {sizes}{d};\n"
        for d in (2, 1, 0)
    )


@functools.cache
def kernel_of(name: str, inputs: str, outputs: str, code: str) -> Any:
    """An elementwise kernel; among its inputs `windows` stands for the parameters WINDOWS, `sizes`
    for those of the image and the number of windows.
    """
    inputs = inputs.replace("windows", WINDOWS).replace("sizes", integers("n", "f"))
    return cupy.ElementwiseKernel(inputs, outputs, code, f"shmtensor_{name}")


COLUMNS = f"""
long long rest = i;
{place("rest", "f", "b")}
{place("rest", "k", "o")}
const long long a0 = b0 * s0 + o0 * d0 - p0, a1 = b1 * s1 + o1 * d1 - p1,
                a2 = b2 * s2 + o2 * d2 - p2;
const bool inside = a0 >= 0 && a0 < n0 && a1 >= 0 && a1 < n1 && a2 >= 0 && a2 < n2;
out = inside ? T(x[((rest * n0 + a0) * n1 + a1) * n2 + a2]) : T(0);
"""


def columns_of(
    x: Any, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, fit: Shape
) -> Any:
    """The windows of images (N, C, *size) as (N, C, *kernel, *fit)."""
    n = len(kernel)
    x = cupy.ascontiguousarray(x)
    lead, size = x.shape[: x.ndim - n], x.shape[x.ndim - n :]
    out = cupy.empty((*lead, *kernel, *fit), x.dtype)
    if out.size:
        run = kernel_of("columns", "raw T x, windows", "T out", COLUMNS)
        run(x, *window_arguments(size, fit, kernel, stride, padding, dilation), out)
    return out


ADD_COLUMNS = f"""
long long rest = i;
{place("rest", "n", "a")}
T sum = T(0);
for (long long o0 = 0; o0 < k0; ++o0) {{
  const long long q0 = a0 + p0 - o0 * d0;
  if (q0 < 0 || q0 % s0 || q0 / s0 >= f0) continue;
  for (long long o1 = 0; o1 < k1; ++o1) {{
    const long long q1 = a1 + p1 - o1 * d1;
    if (q1 < 0 || q1 % s1 || q1 / s1 >= f1) continue;
    for (long long o2 = 0; o2 < k2; ++o2) {{
      const long long q2 = a2 + p2 - o2 * d2;
      if (q2 < 0 || q2 % s2 || q2 / s2 >= f2) continue;
      const long long row = ((rest * k0 + o0) * k1 + o1) * k2 + o2;
      sum += T(x[((row * f0 + q0 / s0) * f1 + q1 / s1) * f2 + q2 / s2]);
    }}
  }}
}}
out = sum;
"""


def add_columns(
    x: Any, size: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Any:
    """Windows (..., *kernel, *fit), each added at its position: (..., *size)."""
    n = len(kernel)
    x = cupy.ascontiguousarray(x)
    lead, fit = x.shape[: x.ndim - 2 * n], x.shape[x.ndim - n :]
    if not x.size or not math.prod(size):
        return cupy.zeros((*lead, *size), x.dtype)
    out = cupy.empty((*lead, *size), x.dtype)
    run = kernel_of("add_columns", "raw T x, windows", "T out", ADD_COLUMNS)
    run(x, *window_arguments(size, fit, kernel, stride, padding, dilation), out)
    return out
