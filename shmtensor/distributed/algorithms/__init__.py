"""Algorithms on top of the collectives, by the names of torch.distributed.algorithms."""

from typing import TYPE_CHECKING, Any

from ...absent_names import missing as _missing
from . import ddp_comm_hooks as ddp_comm_hooks
from .join import Join as Join
from .join import Joinable as Joinable
from .join import JoinHook as JoinHook

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise _missing(__name__, name)
