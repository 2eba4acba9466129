"""What goes on top of the collectives, by the names of torch.distributed.algorithms."""

from ..join import Join as Join
from ..join import Joinable as Joinable
from ..join import JoinHook as JoinHook
from . import ddp_comm_hooks as ddp_comm_hooks
