"""Parametrizations of a weight: orthogonal, weight_norm, spectral_norm.

Sources: Lezcano-Casado 2019, "Trivializations for gradient-based optimization on manifolds"
(orthogonal); Salimans, Kingma 2016 (weight_norm); Miyato et al. 2018 (spectral_norm).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from ... import functions, linalg
from ...autograd import no_grad, table
from ...tensor import Tensor
from .. import functional as F
from ..modules.module import Module
from .parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

M = TypeVar("M", bound=Module)

_ORTHOGONAL_MAPS = ("matrix_exp", "cayley", "householder")


def _orthonormal(a: Tensor) -> Tensor:
    """The orthogonal factor of `a`, with the signs that make it unique (and uniform for normal a).

    Shape (..., n, k) with n >= k.
    """
    x, tau = table.geqrf(a)
    q: Tensor = linalg.householder_product(x, tau)
    return q * x.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def _is_orthonormal(q: Tensor) -> bool:
    """Whether the columns of q (..., n, k) are orthonormal up to rounding."""
    n, k = q.shape[-2:]
    identity = functions.eye(k, dtype=q.dtype, device=q.device)
    tolerance = 10.0 * n * float(np.finfo(q.dtype).eps)
    return bool(((q.mH @ q - identity).abs() <= tolerance).all())


class _Orthogonal(Module):
    """A matrix with orthonormal columns (rows, if it is wide) from any matrix of that shape."""

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        """(..., n, k), same shape out."""
        n, k = X.shape[-2:]
        if n < k:
            return self._tall(X.mT).mT
        return self._tall(X)

    def _tall(self, X: Tensor) -> Tensor:
        n, k = X.shape[-2:]
        if self.orthogonal_map == "householder":
            # Column i of A, with a one on the diagonal, is the vector of reflection i.
            A = X.tril(-1)
            tau = 2.0 / (1.0 + (A * A).sum(-2))
            Q: Tensor = linalg.householder_product(A, tau)
            Q = Q * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            X = X.tril()
            if n != k:  # a square skew-symmetric matrix, whose columns beyond k are not used
                X = functions.cat([X, X.new_zeros(*X.shape[:-2], n, n - k)], -1)
            A = X - X.mH
            if self.orthogonal_map == "matrix_exp":
                Q = linalg.matrix_exp(A)
            else:
                identity = functions.eye(n, dtype=A.dtype, device=A.device)
                Q = linalg.solve(identity - 0.5 * A, identity + 0.5 * A)
            if n != k:
                Q = Q[..., :k]
        base = self._buffers.get("base")
        return Q if base is None else base @ Q

    def right_inverse(self, Q: Tensor) -> Tensor:
        """A matrix that `forward` maps to the orthonormal factor of Q.

        Raises:
            ValueError: another shape than the weight's.
            NotImplementedError: matrix_exp and cayley without a base have no inverse.
        """
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. "
                f"Got a tensor of shape {Q.shape}."
            )
        wide = Q.shape[-2] < Q.shape[-1]
        tall = Q.mT if wide else Q
        n, k = tall.shape[-2:]
        if "base" in self._buffers:
            # The base is the value; the optimised matrix starts where forward gives the identity.
            if n != k:
                shape = (*tall.shape[:-2], n, n - k)
                noise = functions.randn(shape, dtype=tall.dtype, device=tall.device)
                self.base = _orthonormal(functions.cat([tall, noise], -1))
            else:
                self.base = tall.clone() if _is_orthonormal(tall) else _orthonormal(tall)
            start = functions.zeros_like(Q)
            start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return start
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        A, tau = table.geqrf(tall)
        signs = A.diagonal(dim1=-2, dim2=-1)
        signs.copy_(signs.sign() * table.where(tau == 0, -1.0, 1.0))
        return A.mT if wide else A


def orthogonal(
    module: M,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> M:
    """Makes a matrix of the module orthogonal: orthonormal columns, or rows if it is wide.

    Parameters
    ----------
    module : Module
        The module, which is changed.
    name : str, optional
        Its parameter or buffer, of shape `(..., n, k)`.
    orthogonal_map : str, optional
        "matrix_exp" (the exponential of a skew-symmetric matrix), "cayley" or "householder" (a
        product of reflections); by default matrix_exp for square and complex matrices, otherwise
        householder.
    use_trivialization : bool, optional
        Whether the map is relative to a base, a buffer, so that any matrix can be assigned.

    Returns
    -------
    Module
        The module.

    Raises
    ------
    ValueError
        No such tensor, fewer than 2 dimensions, or another map.

    Examples
    --------
    >>> from shmtensor.nn.utils.parametrizations import orthogonal
    >>> weight = orthogonal(nn.Linear(4, 2)).weight
    >>> st.allclose(weight @ weight.T, st.eye(2), atol=1e-5)
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _ORTHOGONAL_MAPS:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    parametrization = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, parametrization, unsafe=True)


class _WeightNorm(Module):
    """`original0 * original1 / norm(original1)`, the norm over all dimensions but `dim`."""

    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """The norms and the directions, to the weight."""
        return weight_norm_of(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The weight's norms, and the weight."""
        return table.norm_except_dim(weight, 2, self.dim), weight


def weight_norm_of(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """`g * v / norm(v)`, the norm over all dimensions but `dim` (-1: over all)."""
    return v * (g / table.norm_except_dim(v, 2, dim))


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Splits a weight into its norms and its directions, which are trained separately (Salimans
    and Kingma 2016).

    A state_dict of the older `nn.utils.weight_norm` can be loaded.

    Parameters
    ----------
    module : Module
        The module, which is changed.
    name : str, optional
        Its parameter.
    dim : int, optional
        The dimension with separate norms; None is one norm of the full weight.

    Returns
    -------
    Module
        The module.

    Examples
    --------
    >>> from shmtensor.nn.utils.parametrizations import weight_norm
    >>> for name, p in weight_norm(nn.Linear(3, 2)).named_parameters():
    ...     print(name, tuple(p.shape))
    bias (2,)
    parametrizations.weight.original0 (2, 1)
    parametrizations.weight.original1 (2, 3)
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict: Any, prefix: str, *_: Any) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    """`weight / sigma`, sigma being its largest singular value by power iteration."""

    _u: Tensor
    _v: Tensor

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                "Dimension out of range (expected to be in range of "
                f"[-{weight.ndim}, {weight.ndim - 1}] but got {dim})"
            )
        check_power_iterations(n_power_iterations)
        self.dim = dim if dim >= 0 else dim + weight.ndim
        self.eps = eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            with no_grad():
                matrix = as_matrix(weight, self.dim)
                for key, size in zip(("_u", "_v"), matrix.shape, strict=True):
                    vector = matrix.new_empty(size).normal_(0, 1)
                    self.register_buffer(key, F.normalize(vector, dim=0, eps=eps))
                power_iteration(matrix, self._u, self._v, 15, eps)

    def forward(self, weight: Tensor) -> Tensor:
        """Same shape out."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            power_iteration(matrix, self._u, self._v, self.n_power_iterations, self.eps)
        # copies, since the next forward changes both in place before this one's backward may run
        u, v = self._u.clone(), self._v.clone()
        return weight / table.vdot(u, matrix.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value itself."""
        return value


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """`weight` with dimension `dim` first and all others flattened, (n, m)."""
    if weight.ndim <= 2 and dim == 0:
        return weight
    order: Sequence[int] = [dim, *(d for d in range(weight.ndim) if d != dim)]
    return weight.permute(*order).reshape(weight.shape[dim], -1)


def power_iteration(matrix: Tensor, u: Tensor, v: Tensor, n: int, eps: float) -> None:
    """Moves u (n,) and v (m,) towards the largest singular vectors of `matrix`, in place."""
    with no_grad():
        matrix = matrix.detach()
        for _ in range(n):
            u.copy_(F.normalize(matrix.mv(v), dim=0, eps=eps))
            v.copy_(F.normalize(matrix.mH.mv(u), dim=0, eps=eps))


def check_power_iterations(n_power_iterations: int) -> None:
    """Raises ValueError if the number is not positive."""
    if n_power_iterations <= 0:
        raise ValueError(
            "Expected n_power_iterations to be positive, but "
            f"got n_power_iterations={n_power_iterations}"
        )


def output_dim(module: Module) -> int:
    """The dimension of a module's weight that counts its outputs: 1 in transposed convolutions."""
    return 1 if getattr(module, "transposed", False) else 0


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """Divides a weight by its largest singular value (Miyato et al. 2018).

    Each forward in training mode takes `n_power_iterations` further steps of power iteration.

    Parameters
    ----------
    module : Module
        The module, which is changed.
    name : str, optional
        Its parameter or buffer.
    n_power_iterations : int, optional
        Steps for each computation, positive.
    eps : float, optional
        Lower bound of the norms divided by.
    dim : int, optional
        The dimension that counts outputs; 0 by default, or 1 for transposed convolutions.

    Returns
    -------
    Module
        The module.

    Raises
    ------
    ValueError
        No such tensor, or n_power_iterations is not positive.

    Examples
    --------
    >>> from shmtensor.nn.utils.parametrizations import spectral_norm
    >>> layer = spectral_norm(nn.Linear(4, 2), n_power_iterations=20)
    >>> st.linalg.matrix_norm(layer.weight, 2).detach().round(decimals=2)
    tensor(1.)
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    parametrization = _SpectralNorm(
        weight, n_power_iterations, output_dim(module) if dim is None else dim, eps
    )
    return register_parametrization(module, name, parametrization)
