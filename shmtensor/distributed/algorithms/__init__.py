"""Algorithms on top of the collectives, by the names of torch.distributed.algorithms."""

from . import ddp_comm_hooks as ddp_comm_hooks
from . import model_averaging as model_averaging
from .join import Join as Join
from .join import Joinable as Joinable
from .join import JoinHook as JoinHook
