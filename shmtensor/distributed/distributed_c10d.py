"""`torch.distributed.distributed_c10d`: names that scripts import from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .collectives.coalescing import _coalescing_manager
from .group.process_group import ProcessGroup
from .group.world import group_of

__all__ = ["_coalescing_manager", "_get_default_group"]


def _get_default_group() -> ProcessGroup:
    """The default group.

    Raises:
        ValueError: there is none.
    """
    return group_of("_get_default_group", None)


if TYPE_CHECKING:
    from . import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        return getattr(import_module("shmtensor.distributed"), name)
