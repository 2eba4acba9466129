"""Memory that several processes see: the domain, the heap of tensor data, the ledger of holds.

`docs/design/memory.md` has the picture. Most users need only `shared_numpy()`, `statistics()` and
`summary()`; `multiprocessing` is built on `export`, `receive` and the other functions.
"""

from .heap import private_numpy, shared_numpy, trim, uninstall
from .join_domain import adopt, domain_environment, domain_id, preparation
from .ledger import (
    Block,
    acknowledge,
    allocate,
    block_of,
    export,
    held_elsewhere,
    is_shared,
    receive,
)
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
