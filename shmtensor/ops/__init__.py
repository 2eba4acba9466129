"""The ops: a table of rows, a file per family. Arrays only; `autograd` turns rows into functions of
Tensors.
"""

from importlib import import_module as _import_module

from .table import COMPOSITES, ROWS, Row, composite, op

__all__ = ["COMPOSITES", "FAMILIES", "LATER", "ROWS", "Row", "composite", "load", "op"]

FAMILIES = (
    "fitting",
    "pointwise",
    "multiples",
    "powers",
    "representation",
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
    "separation",
    "order",
    "searching",
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
    "curves",
    "activation",
    "softmax",
    "rows",
    "normalisation",
    "padding",
    "convolution",
    "pooling",
    "pools",
    "fractional",
    "resampling",
    "columns",
    "attention",
    "heads",
    "neighbours",
    "warping",
    "loss",
    "alignment",
    "measures",
    "distance",
    "margins",
    "bags",
    "channels",
    "histogram",
    "slope",
    "creation",
    "spacing",
    "grids",
    "tapers",
    "sampling",
    "counts",
    "filling",
    "strides",
    "copies",
    "shorthand",
)

# Families that are declared when one of their ops is first asked for: the import stays cheap.
# The names of their ops begin with the word, and they are reached by namespaces (shmtensor.linalg).
LATER = {
    "fft": ("fourier", "frames"),
    "linalg": ("factors", "elimination", "eigen", "solving", "matrixnorms", "products"),
    "masked": ("masked",),
    "recurrent": ("recurrent_layer", "recurrent"),
    "special": ("special", "bessel", "polynomials"),
}


def load(word: str = "") -> bool:
    """Declares the later families of a word, or all of them; whether any were not declared yet."""
    words = (word,) if word else tuple(LATER)
    families = [family for w in words for family in LATER.get(w, ())]
    known = len(ROWS) + len(COMPOSITES)
    for family in families:
        _import_module(f"{__name__}.{family}")
    return len(ROWS) + len(COMPOSITES) > known


for _family in FAMILIES:  # in this order the rows stand in the table, and in the reference
    _import_module(f"{__name__}.{_family}")
