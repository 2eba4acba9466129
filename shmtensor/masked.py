"""Reductions and normalisations of what a mask leaves: `torch.masked` by name, without its
MaskedTensor.

ops/reduce/masked.py has what the functions are.
"""

from __future__ import annotations

from typing import Any

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
        raise AttributeError(f"module 'shmtensor.masked' has no attribute {name!r}")
    made = globals()[name] = getattr(table, f"masked_{name}")
    return made


def __dir__() -> list[str]:
    return list(__all__)
