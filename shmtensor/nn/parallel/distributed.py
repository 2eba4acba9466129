"""`torch.nn.parallel.distributed`: scripts import DistributedDataParallel from there, too."""

from __future__ import annotations

from typing import Any

__all__ = ["DistributedDataParallel"]  # noqa: F822


def __getattr__(name: str) -> Any:
    if name in __all__:
        from .. import parallel

        return getattr(parallel, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
