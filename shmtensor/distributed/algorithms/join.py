"""Uneven inputs, by the name of torch.distributed.algorithms.join; they live in ../join.py."""

from ..join import Join as Join
from ..join import Joinable as Joinable
from ..join import JoinHook as JoinHook
