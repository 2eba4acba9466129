"""Special functions, `torch.special` by name.

They are implemented in ops/special: ndtr_zeta_gammainc.py, bessel.py, orthogonal_polynomials.py and
lgamma_polygamma.py, which cite the sources of their algorithms.
"""

from __future__ import annotations

from typing import Any

from .absent_names import missing
from .autograd import table

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]

# Functions that the op table has under another name without `special_`.
CORE = {
    "expit": "sigmoid",
    "gammaln": "lgamma",
    "modified_bessel_i0": "i0",
    "modified_bessel_i1": "i1",
    "psi": "digamma",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise missing(__name__, name)
    core = getattr(table, CORE.get(name, name), None)
    function = globals()[name] = core or getattr(table, f"special_{name}")
    return function


def __dir__() -> list[str]:
    return list(__all__)
