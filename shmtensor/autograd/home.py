"""Homes: where an optimizer, or DistributedDataParallel, wants the gradient of a leaf to lie.

Note [Born at home]
A home is an array in a block of gradients. While nobody else looks at it, a pullback that knows
`into` (ops/table.py) writes the gradient there at once; of the others' gradients the walk copies
the first one there. So with these pullbacks nothing is copied between a product and the reduction
of a bucket, or the optimizer's step. "Nobody else" is told by the count of references: the
gradient of a step before that somebody keeps, or one that a hook has put away, is never written
anew. A tensor that is used twice gets the second gradient elsewhere, because the first one is then
referred to by the walk.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy as np

from .. import native
from .leaf import Leaf

__all__ = ["offered"]

# How many references `offered` sees of a home that nobody looks at differs between Python versions.
limit = 0


def offered(edge: Any) -> Any:
    """The home of a leaf if nobody looks at it, its own `.grad` neither; else None."""
    if edge.__class__ is not Leaf:
        return None
    home = edge.home
    return home if home is not None and getrefcount(home) <= limit else None


def calibrate() -> None:
    """Finds the smallest limit with which a home that nobody else sees is offered."""
    global limit
    leaf = Leaf(native.wrap(np.empty(1)))
    leaf.home = np.empty(1)
    while offered(leaf) is None:
        limit += 1


calibrate()
