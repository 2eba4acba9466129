"""`shmtensor.utils.data`, `checkpoint`, `dlpack`, `hooks` and `tensorboard`, by PyTorch's names."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..absent_names import missing as _missing
from . import checkpoint as checkpoint
from . import data as data
from . import dlpack as dlpack
from . import tensorboard as tensorboard

if TYPE_CHECKING:
    from . import hooks as hooks

__all__ = ["checkpoint", "data", "dlpack", "hooks", "tensorboard"]


if not TYPE_CHECKING:  # with it a checker would take any name for one of the module's

    def __getattr__(name: str) -> Any:
        if name == "hooks":  # imports nn
            return import_module(f"{__name__}.hooks")
        raise _missing(__name__, name)


def __dir__() -> list[str]:
    return sorted(__all__)
