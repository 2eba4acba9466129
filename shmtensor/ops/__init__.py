"""The ops: a table of rows, a file per family. Arrays only; `autograd` turns rows into functions of
Tensors.
"""

from importlib import import_module as _import_module

from .table import COMPOSITES, ROWS, Row, composite, op

__all__ = ["COMPOSITES", "FAMILIES", "ROWS", "Row", "composite", "op"]

FAMILIES = (
    "fitting",
    "pointwise",
    "powers",
    "extremes",
    "rounding",
    "exponential",
    "trigonometry",
    "complex",
    "comparison",
    "bitwise",
    "reduction",
    "norm",
    "gamma",
    "statistics",
    "order",
    "uniqueness",
    "scan",
    "movement",
    "views",
    "joining",
    "indexing",
    "gathering",
    "combining",
    "triangle",
    "matmul",
    "einsum",
    "matrices",
    "activation",
    "softmax",
    "normalisation",
    "padding",
    "convolution",
    "pooling",
    "pools",
    "resampling",
    "columns",
    "attention",
    "warping",
    "loss",
    "distance",
    "margins",
    "bags",
    "channels",
    "histogram",
    "slope",
    "creation",
    "grids",
    "tapers",
    "sampling",
    "counts",
    "filling",
    "strides",
    "copies",
)

for _family in FAMILIES:  # in this order the rows stand in the table, and in the reference
    _import_module(f"{__name__}.{_family}")
