"""Orthogonal polynomials of any degree, by their three-term recurrences (Abramowitz and Stegun
22.7); no gradients, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..table.op_table import op
from ..table.samples import ints, reals
from .ndtr_zeta_gammainc import as_float64

SAMPLES = [
    (reals((3, 4), -1.5, 1.5), ints((3, 4), 8)),
    (reals((2, 1), -1.0, 1.0), ints((3,), 12)),
    (reals((3,), 0.0, 1.0), ints((), 5, 4)),
]

MAX_DEGREE = 100_000  # the recurrence takes a step for each degree

# The polynomial of degree 1, and the recurrence for degree k + 1.
DEGREE_ONE: dict[str, Any] = {
    "chebyshev_polynomial_t": lambda x: x,
    "chebyshev_polynomial_u": lambda x: 2 * x,
    "chebyshev_polynomial_v": lambda x: 2 * x - 1,
    "chebyshev_polynomial_w": lambda x: 2 * x + 1,
    "hermite_polynomial_h": lambda x: 2 * x,
    "hermite_polynomial_he": lambda x: x,
    "laguerre_polynomial_l": lambda x: 1 - x,
    "legendre_polynomial_p": lambda x: x,
}
RECURRENCES: dict[str, Any] = {
    "chebyshev": lambda k, x, now, last: 2 * x * now - last,
    "hermite_polynomial_h": lambda k, x, now, last: 2 * x * now - 2 * k * last,
    "hermite_polynomial_he": lambda k, x, now, last: x * now - k * last,
    "laguerre": lambda k, x, now, last: ((2 * k + 1 - x) * now - k * last) / (k + 1),
    "legendre": lambda k, x, now, last: ((2 * k + 1) * x * now - k * last) / (k + 1),
}


def recurrence_of(name: str) -> Any:
    """The recurrence of a polynomial."""
    return RECURRENCES.get(name) or RECURRENCES[name.partition("_")[0]]


def polynomial(name: str, x: Any, n: Any) -> Any:
    """The polynomials of degrees n at x; 0 for negative degrees."""
    recurrence = recurrence_of(name)
    x, n = np.broadcast_arrays(as_float64(x), np.array(n).astype(np.int64))
    if np.max(n, initial=0) > MAX_DEGREE:
        raise RuntimeError(f"{name}: degrees are at most {MAX_DEGREE}: {np.max(n)}")
    previous, current = np.ones_like(x), DEGREE_ONE[name](x)
    out = np.where(n == 0, previous, np.where(n == 1, current, 0.0))
    for k in range(1, int(np.max(n, initial=0))):
        previous, current = current, recurrence(k, x, current, previous)
        out = np.where(n == k + 1, current, out)
    return np.where(np.isnan(x), x, out)


def declare_polynomial(name: str, base: str, doc: str, formula: str, example: str) -> None:
    """Declares a row of polynomials; shifted ones are polynomials of 2 x - 1.

    Args:
        formula: what defines them, for the docstring.
        example: the values at 0, 0.5 and 1 of the polynomial of degree 2.
    """
    shifted = name.startswith("shifted")

    def forward(xp, x, n, /):
        return polynomial(base, 2 * as_float64(x) - 1 if shifted else x, n).astype(x.dtype)

    forward.__doc__ = f"""The {doc} of degree n.

    Parameters
    ----------
    input : Tensor or number
        Where it is evaluated; integers are converted to the default dtype.
    n : Tensor or int
        The degree, at most {MAX_DEGREE}, broadcast against `input`.

    Returns
    -------
    Tensor
        Of the broadcast shape; 0 for negative degrees.

    Raises
    ------
    RuntimeError
        The degree is too large.

    Notes
    -----
    {formula} By the three-term recurrence (Abramowitz and Stegun 22.7). No gradients.

    Examples
    --------
    >>> st.special.{name}(st.tensor([0., 0.5, 1.]), 2)
    tensor([{example}])
    """
    op(
        name=f"special_{name}",
        method=False,
        function=False,
        broadcast=True,
        promote="float",
        inplace=False,
        samples=SAMPLES,
    )(forward)


# kind, what defines it with x = cos(t), its values and those of the shifted one
CHEBYSHEV = (
    ("t", "cos(n t)", "-1.0000, -0.5000,  1.0000", " 1., -1.,  1."),
    ("u", "sin((n + 1) t) / sin(t)", "-1.,  0.,  3.", " 3., -1.,  3."),
    ("v", "cos((n + 1/2) t) / cos(t / 2)", "-1., -1.,  1.", " 5., -1.,  1."),
    ("w", "sin((n + 1/2) t) / sin(t / 2)", "-1.,  1.,  5.", " 1., -1.,  5."),
)
for _kind, _formula, _values, _shifted in CHEBYSHEV:
    _name = f"chebyshev_polynomial_{_kind}"
    _doc = f"Chebyshev polynomial {_kind.upper()}"
    declare_polynomial(_name, _name, _doc, f"At cos(t) it is {_formula}.", _values)
    declare_polynomial(
        f"shifted_{_name}",
        _name,
        f"{_doc}, of 2 * input - 1,",
        f"Where 2 * input - 1 is cos(t), it is {_formula}.",
        _shifted,
    )
declare_polynomial(
    "hermite_polynomial_h",
    "hermite_polynomial_h",
    "physicists' Hermite polynomial",
    "H_n(x) is (-1)^n exp(x^2) times the n-th derivative of exp(-x^2).",
    "-2., -1.,  2.",
)
declare_polynomial(
    "hermite_polynomial_he",
    "hermite_polynomial_he",
    "probabilists' Hermite polynomial",
    "He_n(x) is (-1)^n exp(x^2 / 2) times the n-th derivative of exp(-x^2 / 2).",
    "-1.0000, -0.7500,  0.0000",
)
declare_polynomial(
    "laguerre_polynomial_l",
    "laguerre_polynomial_l",
    "Laguerre polynomial",
    "L_n(x) is exp(x) / n! times the n-th derivative of x^n exp(-x).",
    " 1.0000,  0.1250, -0.5000",
)
declare_polynomial(
    "legendre_polynomial_p",
    "legendre_polynomial_p",
    "Legendre polynomial",
    "P_n(x) is 1 / (2^n n!) times the n-th derivative of (x^2 - 1)^n.",
    "-0.5000, -0.1250,  1.0000",
)
