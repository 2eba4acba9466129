"""`shmtensor.utils`: benchmark, checkpoint, collect_env, data, dlpack, hooks and tensorboard."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..absent_names import missing as _missing
from . import checkpoint as checkpoint
from . import data as data
from . import dlpack as dlpack
from . import tensorboard as tensorboard

if TYPE_CHECKING:
    from . import benchmark as benchmark
    from . import collect_env as collect_env
    from . import hooks as hooks

LAZY = ("benchmark", "collect_env", "hooks")  # what few programs need
__all__ = ["benchmark", "checkpoint", "collect_env", "data", "dlpack", "hooks", "tensorboard"]


if not TYPE_CHECKING:  # with it a checker would take any name for one of the module's

    def __getattr__(name: str) -> Any:
        if name in LAZY:
            return import_module(f"{__name__}.{name}")
        raise _missing(__name__, name)


def __dir__() -> list[str]:
    return sorted(__all__)
