"""Groups of processes and their collectives in shared memory, DistributedDataParallel, the
launcher: torch.distributed's names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .collectives import *  # noqa: F403
from .contract import ReduceOp as ReduceOp
from .group import ProcessGroup as ProcessGroup
from .group import Work as Work
from .membership import *  # noqa: F403
from .objects import *  # noqa: F403

if TYPE_CHECKING:
    from .parallel import DistributedDataParallel as DistributedDataParallel

group = GroupMember  # noqa: F405 (group.WORLD, as in torch.distributed)


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":  # it stands on nn, which a mere collective does not need
        from .parallel import DistributedDataParallel

        return DistributedDataParallel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
