"""Reductions and normalizations of unmasked elements: `torch.masked` by name, without its
MaskedTensor. They are implemented in ops/reduce/masked.py.
"""

from __future__ import annotations

from typing import Any

from .absent_names import missing
from .autograd import table

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise missing(__name__, name)
    function = globals()[name] = getattr(table, f"masked_{name}")
    return function


def __dir__() -> list[str]:
    return list(__all__)
