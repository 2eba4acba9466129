"""`torch.nn.parallel.distributed`: scripts import DistributedDataParallel from there, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["DistributedDataParallel"]


if TYPE_CHECKING:
    from . import DistributedDataParallel as DistributedDataParallel
else:

    def __getattr__(name: str) -> Any:
        if name in __all__:
            from .. import parallel

            return getattr(parallel, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
