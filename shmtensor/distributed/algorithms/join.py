"""Uneven inputs, by the name of torch.distributed.algorithms.join; they live in ../join.py."""

from ..ddp.join import Join as Join
from ..ddp.join import Joinable as Joinable
from ..ddp.join import JoinHook as JoinHook
