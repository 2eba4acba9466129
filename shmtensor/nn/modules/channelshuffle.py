"""ChannelShuffle: a layer that mixes the groups of channels."""

from __future__ import annotations

from ...tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """Takes the channels in turn from each of the groups (Zhang et al. 2018).

    Parameters
    ----------
    groups : int
        Number of groups of neighbouring channels; C is a multiple of it.

    Notes
    -----
    Shape: `(N, C, ...)`, and the result has the same.

    Examples
    --------
    >>> nn.ChannelShuffle(2)(st.arange(4.).reshape(1, 4, 1, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *size), in another order of the channels."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
