"""Linear algebra, `torch.linalg` by name; batched over leading dimensions, on NumPy's LAPACK.

They are implemented in ops/linalg: inverse_det_matrix_exp.py, cholesky_qr.py, lu_ldl.py,
eig_svd.py, solve_lstsq.py, matrix_norm.py and multi_dot_vander.py, which cite the sources of their
gradients.
"""

from __future__ import annotations

from typing import Any

from .absent_names import missing
from .autograd import table
from .errors import LinAlgError

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise missing(__name__, name)
    function = globals()[name] = getattr(table, name if name == "matmul" else f"linalg_{name}")
    return function


def __dir__() -> list[str]:
    return list(__all__)
