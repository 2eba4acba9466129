"""`torch.nn.parallel.distributed`: scripts import DistributedDataParallel from there, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...absent_names import missing as _missing

__all__ = ["DistributedDataParallel"]


if TYPE_CHECKING:
    from . import DistributedDataParallel as DistributedDataParallel
else:

    def __getattr__(name: str) -> Any:
        if name in __all__:
            from .. import parallel

            return getattr(parallel, name)
        raise _missing(__name__, name)
