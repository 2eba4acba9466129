"""The door to DistributedDataParallel, which lives in `distributed`, above this layer."""

from __future__ import annotations

from typing import Any

__all__ = ["DistributedDataParallel"]  # noqa: F822


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":
        from ..distributed import DistributedDataParallel

        return DistributedDataParallel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
