"""Which ops get 16-bit floats as they lie in memory; all others compute in float32 what they are
given in float16 or bfloat16, and round once (docs/design/bfloat16.md).

Computing would be right for those that move elements, too, but for views and for what writes in
place; so the list is about memory, and about time.
"""

from __future__ import annotations

__all__ = ["AS_STORED"]

MOVES = frozenset(
    [
        "cast",
        "overwrite",
        "copy",
        "clone",
        "packed",
        "flip",
        "roll",
        "repeat",
        "sliced",
        "cat",
        "stack",
        "getitem",
        "written",
        "masked_write",
        "selected",
        "gathered",
        "tril",
        "triu",
        "parts",
        "unbind",
        "diagonal_set",
        "first",
        "blanked",
        "through",
        "planted",
        "zeroed",
        "take_along",
    ]
)
# They ask for the dtype itself: its limits, its neighbours, whether there is such an algorithm.
ASK = frozenset(
    [
        "nan_to_num",
        "nextafter",
        "uniform_fill",
        "normal_fill",
        "inverse",
        "solved",
        "slogdet",
        "det",
        "svd_parts",
        "singular_values",
        "pinverse",
        "linalg_cholesky_lower",
        "linalg_eig_parts",
        "linalg_eigh_parts",
        "linalg_lu_packed",
        "linalg_pinv_cut",
        "linalg_qr_parts",
        "linalg_svd_full",
    ]
)
# They choose a kernel of 16 bits themselves.
CHOOSE = frozenset(["relu"])
AS_STORED = MOVES | ASK | CHOOSE
