"""ChannelShuffle: a layer that mixes the groups of channels."""

from __future__ import annotations

from ...tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """Takes the channels of (N, C, *size) in turn from each of the groups.

    Args:
        groups: number of groups; C must be a multiple of it.
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *size), in another order of the channels."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
