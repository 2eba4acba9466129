"""Forwards for CUDA arrays, of the rows whose own forward does not run on CuPy or is slow there.

The modules import CuPy, so they are loaded with the first CUDA tensor and not before. Each declares
forwards by `@ROWS["name"].on("cuda")`: `forward(cupy, inputs..., attributes...)`.
"""

from importlib import import_module as _import_module

__all__ = ["load"]

FAMILIES: tuple[str, ...] = (
    "convolution",
    "cross_entropy",
    "ctc_loss",
    "index",
    "grid_sample_cdist",
    "linalg",
    "matmul",
    "norm",
    "pooling",
    "random",
    "reduce",
    "rnn_layer",
    "scatter_reduce",
    "softmax",
    "sort",
    "sparse",
    "special",
    "pointwise_rows",  # the last one: it leaves rows that have a forward as they are
)


def load() -> None:
    """Declares the forwards of all families."""
    for family in FAMILIES:
        _import_module(f"{__name__}.{family}")
