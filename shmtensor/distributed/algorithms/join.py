"""torch.distributed.algorithms.join: names that ../ddp/join.py defines."""

from ..ddp.join import Join as Join
from ..ddp.join import Joinable as Joinable
from ..ddp.join import JoinHook as JoinHook
