"""Communication hooks of DistributedDataParallel: how a bucket of gradients is reduced."""

from __future__ import annotations

from enum import Enum, EnumMeta
from typing import TYPE_CHECKING, Any

from ....absent_names import missing as _missing
from ....absent_names import reason_of
from . import default_hooks as default_hooks

if TYPE_CHECKING:
    from ...ddp.distributed_data_parallel import DistributedDataParallel

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]

# Words in the names of PyTorch's other hooks -> their modules.
GONE = {"POWER_SGD": "powerSGD_hook", "QUANTIZE": "quantization_hooks"}


class HookTypes(EnumMeta):
    """Says what to use instead of PyTorch's other hooks."""

    def __getitem__(cls, name: str) -> Any:
        if name in cls.__members__:
            return super().__getitem__(name)
        raise KeyError(cls.why_missing(name))

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            if name in cls.__members__:  # Python 3.11 looks members up here
                return cls.__members__[name]
            raise AttributeError(cls.why_missing(name), name=name, obj=cls)

    def why_missing(cls, name: str) -> str:
        module = next((module for word, module in GONE.items() if word in name), "")
        reason = reason_of(f"{__name__}.{module}")
        return f"{cls.__name__} has no {name!r}" + f": {reason}" * bool(reason)


class DDPCommHookType(Enum, metaclass=HookTypes):
    """The hooks by name. Their state is a process group."""

    ALLREDUCE = (default_hooks.allreduce_hook,)
    FP16_COMPRESS = (default_hooks.fp16_compress_hook,)
    BF16_COMPRESS = (default_hooks.bf16_compress_hook,)
    NOOP = (default_hooks.noop_hook,)


def register_ddp_comm_hook(
    comm_hook_type: DDPCommHookType, model: DistributedDataParallel, state: Any = None
) -> None:
    """Makes the hook of that type reduce the model's buckets.

    Args:
        state: the process group of the reductions, None: the default one.
    """
    model.register_comm_hook(state, comm_hook_type.value[0])


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise _missing(__name__, name)
