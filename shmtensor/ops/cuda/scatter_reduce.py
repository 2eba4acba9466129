"""scatter_reduce by "prod", "amax" and "amin": CuPy has no `multiply.at`, and its `maximum.at` and
`minimum.at` of float64 round to float32.
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from .. import ROWS
from ..index.gather_scatter import check_index_shape, crop_to_index
from ..index.index_add import flat_indices_along
from ..index.scatter_reduce import neutral
from .sliding_window import kernel_of

__all__: list[str] = []

# Compare and swap, until no other thread has changed the element since it was read. An element that
# stays as it is, is not written. A NaN is larger and smaller than any number.
COMBINE = """
union Bits {{ WORD word; T value; }};
Bits before, after;
WORD* address = (WORD*)&out[indices[i]];
before.word = *address;
while (true) {{
  const T old = before.value, v = values[i];
  after.value = {combined};
  if (after.word == before.word) break;
  const WORD seen = atomicCAS(address, before.word, after.word);
  if (seen == before.word) break;
  before.word = seen;
}}
"""
COMBINED = {
    "prod": "old * v",
    "amax": "v > old || v != v ? v : old",
    "amin": "v < old || v != v ? v : old",
}
WORDS = {4: "unsigned int", 8: "unsigned long long"}


def combine_at(out: Any, indices: Any, values: Any, reduce: str) -> None:
    """Combines values into a vector of elements of 4 or 8 bytes at indices."""
    code = COMBINE.format(combined=COMBINED[reduce]).replace("WORD", WORDS[out.itemsize])
    run = kernel_of(f"scatter_{reduce}", "raw int64 indices, raw T values", "raw T out", code)
    run(indices, values, out, size=indices.size)


@ROWS["_scatter_reduce"].on("cuda")
def scatter_reduce(xp, x, source, index, /, dim, reduce, include_self):
    """Narrow dtypes are computed in float32 or int32."""
    if reduce not in COMBINED or not index.size or source.dtype != x.dtype or x.dtype.kind == "c":
        return ROWS["_scatter_reduce"].forward(xp, x, source, index, dim, reduce, include_self)
    dim = check_index_shape("scatter_reduce", x, index, dim)
    flat = not x.ndim or not index.ndim
    indices = index if flat else flat_indices_along(xp, x.shape, dim, index)
    part = (
        source.reshape(-1)[: index.size] if flat else crop_to_index("scatter_reduce", source, index)
    )
    dtype = x.dtype
    if dtype.itemsize < 4:
        dtype = np.dtype(np.float32 if dtype.kind == "f" else np.int32)
    out = cupy.array(x, dtype, order="C", copy=True)
    target, indices = out.reshape(-1), cupy.ascontiguousarray(indices.reshape(-1), np.int64)
    if not include_self:
        target[indices] = neutral(x.dtype, reduce)
    part = cupy.ascontiguousarray(cupy.broadcast_to(part, index.shape).reshape(-1), dtype)
    combine_at(target, indices, part, reduce)
    return out.astype(x.dtype, copy=False)
