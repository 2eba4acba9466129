"""What PyTorch needs in a worker: one thread, and a `default_collate` that writes into our memory.

PyTorch is never imported for it. So this is done again for each batch: a data set may import it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shmtensor.other_names import foreign_module

from ..collate import collate_torch

_limited: Any = None  # the module `torch` whose threads this process has limited
_extended: Any = None  # the module of `default_collate` that has our function


def prepare_torch() -> None:
    """Limits PyTorch to one thread in this worker, as its own loader does: workers are many, and
    OpenMP's threads do not survive a fork. Registers `stack_shared` in the table that PyTorch has
    for such extensions, so that a `collate_fn` which calls PyTorch's `default_collate` makes a
    batch that is sent without a copy.
    """
    global _limited, _extended
    torch = foreign_module("torch")
    if torch is not _limited and hasattr(torch, "set_num_threads"):
        torch.set_num_threads(1)
        _limited = torch
    module = foreign_module("torch.utils.data._utils.collate")
    if module is not _extended and hasattr(module, "default_collate"):
        fns = module.default_collate_fn_map
        tensor_type = module.torch.Tensor
        if fns.get(tensor_type) is module.collate_tensor_fn:  # not one of the user's
            fns[tensor_type] = stack_shared
        _extended = module


def stack_shared(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """PyTorch's `collate_tensor_fn` with a result in shared memory; its errors are PyTorch's."""
    try:
        return collate_torch(batch)
    except (RuntimeError, TypeError):
        return _extended.collate_tensor_fn(batch, collate_fn_map=collate_fn_map)
