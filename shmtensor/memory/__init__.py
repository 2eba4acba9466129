"""Memory that several processes see: the domain, the heap of tensor data, the ledger of holds.

`docs/design/memory.md` has the picture. Most users need only `shared_numpy()`, `statistics()` and
`summary()`; `multiprocessing` is built on blocks and their handles:

    allocate(n)   -> Block      a block of this process
    export(x)     -> handle     72 bytes; in flight until acknowledged, void or expired
    receive(h)    -> Block      the same memory, held by this process until the Block is freed
    acknowledge(h)              no longer in flight: it has arrived or never will; `receive` does it
"""

from ..native import (
    Block,
    acknowledge,
    allocate,
    block_of,
    domain_environment,
    domain_id,
    export,
    held_elsewhere,
    is_shared,
    receive,
)
from .heap import private_numpy, shared_numpy, trim, uninstall
from .join_domain import adopt, preparation
from .list_names import Name, names
from .named_tensor import Domain, domains, open, publish, unpublish
from .statistics import Statistics, check, statistics, summary

__all__ = [
    "Block",
    "Domain",
    "Name",
    "Statistics",
    "acknowledge",
    "adopt",
    "allocate",
    "block_of",
    "check",
    "domain_environment",
    "domain_id",
    "domains",
    "export",
    "held_elsewhere",
    "is_shared",
    "names",
    "open",
    "preparation",
    "private_numpy",
    "publish",
    "receive",
    "shared_numpy",
    "statistics",
    "summary",
    "trim",
    "uninstall",
    "unpublish",
]
