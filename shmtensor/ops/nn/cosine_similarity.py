"""The cosines of pairs of vectors: for cosine_similarity and cosine_embedding_loss."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import native
from ..reduce.norm_logsumexp import _vector_norm
from ..table.op_table import op


@op(
    native=native.cosine_similarity,
    promote="float",
    inplace=False,
    saves="x_norm y_norm",
    samples=[
        ((3, 4), (3, 4)),
        ((2, 3, 5), (2, 3, 5), 3.0),
        ((3, 4), (3, 4), 0.1, True),
        ((4,), (4,)),
    ],
    vmap="alone",
)
def _cosine_similarity(xp, x, y, /, eps=1e-8, is_added=False):
    """The cosines of the angles between vectors in the last dimension. Norms are at least eps, or
    with is_added the roots of the sum of squares and eps.
    """
    x_norm, y_norm = (
        xp.hypot(norm, x.dtype.type(math.sqrt(eps)))
        if is_added
        else xp.maximum(norm, norm.dtype.type(eps))
        for norm in (_vector_norm.forward(xp, v, 2, -1, False) for v in (x, y))
    )
    # x / |x| cannot overflow when it is multiplied, as x could.
    return (x / x_norm[..., None] * y).sum(-1) / y_norm, x_norm, y_norm


def cosine_similarity_backward(
    ops: Any, needed: tuple[bool, ...], g: Any, x: Any, y: Any, out: Any, x_norm: Any, y_norm: Any,
    eps: float, is_added: bool,
) -> tuple[Any, Any]:  # fmt: skip
    """The gradients by x and y: one call of a kernel, or composed where they need history, on
    devices, and where the kernel refuses.
    """
    gradients: Any = None
    if isinstance(g, np.ndarray):
        gradients = native.call(
            native.cosine_similarity_backward, g, x, y, out, x_norm, y_norm, eps, is_added
        )
    if gradients is not None:
        g_x, g_y = gradients
        return g_x, g_y
    norms = []
    for v in (x, y):  # with history, unlike x_norm and y_norm
        norm = ops._vector_norm(v, 2, -1, True)
        norms.append(ops.sqrt(norm * norm + eps) if is_added else ops.clamp(norm, eps))
    units = [v / norm for v, norm in zip((x, y), norms, strict=True)]
    g = ops.unsqueeze(g, -1)
    cosine = ops.unsqueeze(out, -1)
    gradients = []
    for unit, other, norm in ((*units, norms[0]), (*reversed(units), norms[1])):
        # A norm of eps does not depend on the vector.
        own = cosine if is_added else ops._where_other(norm <= eps, cosine, 0.0)
        gradients.append((other - own * unit) * (g / norm))
    return gradients[0], gradients[1]


_cosine_similarity.joint_pullback(cosine_similarity_backward, x="x y", y="x y")
