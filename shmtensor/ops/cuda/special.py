"""Special functions for CUDA, one kernel each: CuPy's where it has one that is exact to rounding,
ours for Airy's function, spherical Bessel functions and orthogonal polynomials.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import cupy
from cupyx.scipy import special

from ..special import bessel
from ..special.orthogonal_polynomials import DEGREE_ONE, MAX_DEGREE, recurrence_of
from ..table.op_table import ROWS
from .fused import float64_code

# CuPy's; of modified Bessel functions and the normal distribution it has some that overflow.
UFUNCS: dict[str, Any] = {
    "lgamma": special.gammaln,
    "special_bessel_j0": special.j0,
    "special_bessel_j1": special.j1,
    "special_bessel_y0": special.y0,
    "special_bessel_y1": special.y1,
}
# Faster than the rows' own steps, or loops of a length that depends on the values.
OURS = {
    "erfinv": "inverse_erf(v)",
    "i0": "bessel_i0(v)",
    "i1": "bessel_i1(v)",
    "special_i0e": "bessel_i0_scaled(v)",
    "special_i1e": "bessel_i1_scaled(v)",
    "special_log_ndtr": "log_normal_distribution(v)",
    "special_erfcx": "scaled_erfc(v)",
    "special_modified_bessel_k0": "exp(-v) * bessel_k0_scaled(v)",
    "special_modified_bessel_k1": "exp(-v) * bessel_k1_scaled(v)",
    "special_scaled_modified_bessel_k0": "bessel_k0_scaled(v)",
    "special_scaled_modified_bessel_k1": "bessel_k1_scaled(v)",
}


def dtype_of(*operands: Any) -> Any:
    """The dtype of the operands; the others are numbers."""
    return next(x.dtype for x in operands if hasattr(x, "dtype"))


def check_real(x: Any) -> None:
    """Raises TypeError, as the CPU's kernels do, for complex numbers."""
    if x.dtype.kind == "c":
        raise TypeError(f"not supported for {x.dtype}")


def in_dtype_of_operands(kernel: Any) -> Any:
    """A forward that calls a kernel and casts its result to the operands' dtype, if necessary: of
    16-bit floats some kernels give float64.
    """

    def forward(xp: Any, *operands: Any) -> Any:
        return kernel(*operands).astype(dtype_of(*operands), copy=False)

    return forward


for _name, _kernel in UFUNCS.items():
    ROWS[_name].on("cuda")(in_dtype_of_operands(_kernel))

nan_of_operands = cupy.ElementwiseKernel(
    "T x, T y, T value", "T out", "out = x != x || y != y ? x + y : value", "nan_of_operands"
)


def of_two(kernel: Any) -> Any:
    """The forward of a kernel of two operands that ignores a NaN in some cases."""

    def forward(xp: Any, x: Any, y: Any) -> Any:
        dtype = dtype_of(x, y)
        return nan_of_operands(x, y, kernel(x, y).astype(dtype, copy=False))

    return forward


ROWS["special_zeta"].on("cuda")(of_two(special.zeta))
ROWS["special_gammainc"].on("cuda")(of_two(special.gammainc))
ROWS["special_gammaincc"].on("cuda")(of_two(special.gammaincc))


@ROWS["_polygamma"].on("cuda")
def polygamma(xp: Any, x: Any, n: int) -> Any:
    """The derivatives of `digamma` by Hurwitz' zeta; the first one below 0.5 by reflection."""
    wide = x.astype(xp.float64)
    if n > 1:
        sign = 1.0 if n % 2 else -1.0
        return (sign * math.factorial(n) * special.zeta(n + 1.0, wide)).astype(x.dtype)
    low = wide < 0.5
    right = special.zeta(2.0, xp.where(low, 1 - wide, wide))
    sine = xp.sin(math.pi * wide)
    return xp.where(low, (math.pi / sine) ** 2 - right, right).astype(x.dtype)


# ---- kernels of our own, in float64


def declare(name: str, code: str, preamble: str = "") -> None:
    """Declares the forward of a row of one input by CUDA code: `y`, a double, from `v`."""
    kernel = cupy.ElementwiseKernel(
        "T x",
        "T out",
        f"double v = double(x), y; {code} out = T(y);",
        f"op_{name}",
        preamble=preamble,
    )

    def forward(xp: Any, x: Any) -> Any:
        check_real(x)
        return kernel(x)

    ROWS[name].on("cuda")(forward)


FUNCTIONS = (Path(__file__).parent / "kernels" / "special.cuh").read_text()
for _name, _code in OURS.items():
    declare(_name, f"y = {_code};", FUNCTIONS)


def airy_starts() -> list[tuple[float, float]]:
    """Ai and its derivative at 0, -1, -2, ..."""
    value, derivative = bessel.START
    starts = []
    for c in range(bessel.TAYLOR_RANGE + 1):
        starts.append((float(value), float(derivative)))
        value, derivative = bessel.taylor(-c, value, derivative, -1.0)
    return starts


_values, _derivatives = (", ".join(f"{v!r}" for v in column) for column in zip(*airy_starts()))
# As in ops/special/bessel.py, where the methods are explained.
AIRY = f"""
__device__ double airy_by_bessel_k(double x) {{
  double zeta = 2.0 / 3 * x * sqrt(x);
  double step = 0.2 / fmax(1.0, sqrt(zeta / 20));
  int n = (int)ceil(acosh(1 + 760 / zeta) / step);
  double total = 0.5;
  for (int k = 1; k <= n; ++k) {{
    double t = k * step;
    total += exp(-zeta * (cosh(t) - 1) + t / 3) * (0.5 + 0.5 * exp(-2.0 / 3 * t));
  }}
  return sqrt(x / 3) / {math.pi!r} * total * step * exp(-zeta);
}}
__device__ double airy_by_taylor(double x) {{
  const double values[] = {{{_values}}}, derivatives[] = {{{_derivatives}}};
  int m = (int)ceil(-x - 0.5);
  m = m < 0 ? 0 : m;
  double c = -m, h = x - c, last = 0, a = values[m], b = derivatives[m], power = 1, y = 0;
  for (int n = 0; n < 42; ++n) {{
    y += a * power;
    power *= h;
    double next = n == 0 ? c * a / 2 : (c * a + last) / ((n + 2) * (n + 1));
    last = a;
    a = b;
    b = next;
  }}
  return y;
}}
__device__ double airy_by_asymptotics(double x) {{
  double zeta = 2.0 / 3 * -x * sqrt(-x), even = 1, odd = 0, term = 1;
  for (int n = 1; n < 14; ++n) {{
    term = term * (6 * n - 5) * (6 * n - 3) * (6 * n - 1) / (216.0 * n * (2 * n - 1)) / zeta;
    if (n % 2)
      odd += n % 4 == 1 ? term : -term;
    else
      even += n % 4 == 0 ? term : -term;
  }}
  double phase = zeta - {math.pi / 4!r};
  return (cos(phase) * even + sin(phase) * odd) / ({math.sqrt(math.pi)!r} * sqrt(sqrt(-x)));
}}
"""
declare(
    "special_airy_ai",
    f"""
    if (isnan(v)) y = v;
    else if (v > 110 || isinf(v)) y = 0;
    else if (v >= 1) y = airy_by_bessel_k(v);
    else if (v >= {-bessel.TAYLOR_RANGE - 0.5}) y = airy_by_taylor(v);
    else y = airy_by_asymptotics(v);
    """,
    AIRY,
)

# ---- orthogonal polynomials: a loop over the degrees, which differ from element to element


def declare_polynomial(name: str, base: str, argument: str) -> None:
    """Declares the forward of a row of polynomials. A degree above MAX_DEGREE gives NaN, not an
    error as on the CPU: the error would have to wait for the device.
    """
    first_code, first = float64_code(DEGREE_ONE[base], "v")
    next_code, following = float64_code(recurrence_of(base), "k", "v", "now", "last")
    code = f"""
      double v = {argument}, last = 1;
      {first_code}
      double now = {first};
      if (isnan(v) || n > {MAX_DEGREE}) {{
        now = isnan(v) ? v : nan("");
      }} else if (!(n >= 1)) {{
        now = n > -1 ? 1 : 0;
      }} else {{
        long long degree = (long long)n;
        for (double k = 1; k < degree; k += 1) {{
          {next_code}
          const double next = {following};
          last = now;
          now = next;
        }}
      }}
      out = T(now);
    """
    kernel = cupy.ElementwiseKernel(
        "T x, N n", "T out", code, f"special_{name}", preamble="typedef double acc_t;"
    )

    def forward(xp: Any, x: Any, n: Any) -> Any:
        dtype = dtype_of(x, n)
        x, n = (v if hasattr(v, "dtype") else dtype.type(v) for v in (x, n))
        return kernel(x.astype(dtype, copy=False), n)

    ROWS[f"special_{name}"].on("cuda")(forward)


for _name in DEGREE_ONE:
    declare_polynomial(_name, _name, "double(x)")
    if _name.startswith("chebyshev"):
        declare_polynomial(f"shifted_{_name}", _name, "2 * double(x) - 1")
