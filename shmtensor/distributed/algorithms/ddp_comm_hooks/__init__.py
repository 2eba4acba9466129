"""Communication hooks of DistributedDataParallel: how a bucket of gradients is reduced."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from . import default_hooks as default_hooks
from . import post_localSGD_hook as post_localSGD_hook
from . import powerSGD_hook as powerSGD_hook
from . import quantization_hooks as quantization_hooks

if TYPE_CHECKING:
    from ...ddp.distributed_data_parallel import DistributedDataParallel

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


def power_sgd(hook: Callable[..., Any], rank: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return hook, lambda group: powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=rank)


class DDPCommHookType(Enum):
    """The hooks by name: (hook, function from a process group to the hook's state). Without such a
    function the state is the group.
    """

    ALLREDUCE = (default_hooks.allreduce_hook, None)
    FP16_COMPRESS = (default_hooks.fp16_compress_hook, None)
    BF16_COMPRESS = (default_hooks.bf16_compress_hook, None)
    QUANTIZE_PER_TENSOR = (quantization_hooks.quantization_pertensor_hook, None)
    QUANTIZE_PER_CHANNEL = (quantization_hooks.quantization_perchannel_hook, None)
    POWER_SGD = power_sgd(powerSGD_hook.powerSGD_hook, 1)
    POWER_SGD_RANK2 = power_sgd(powerSGD_hook.powerSGD_hook, 2)
    BATCHED_POWER_SGD = power_sgd(powerSGD_hook.batched_powerSGD_hook, 1)
    BATCHED_POWER_SGD_RANK2 = power_sgd(powerSGD_hook.batched_powerSGD_hook, 2)
    NOOP = (default_hooks.noop_hook, None)


def register_ddp_comm_hook(
    comm_hook_type: DDPCommHookType, model: DistributedDataParallel, state: Any = None
) -> None:
    """Makes the hook of that type reduce the model's buckets.

    Args:
        state: the process group of the reductions, None: the default one.
    """
    hook, make = comm_hook_type.value
    model.register_comm_hook(state if make is None else make(state), hook)
