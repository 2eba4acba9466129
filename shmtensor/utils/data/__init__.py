"""The package `shmtensor.dataloaders` by PyTorch's name, imported at first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...absent_names import missing as _missing

if TYPE_CHECKING:
    from ...dataloaders import *  # noqa: F403
    from ...dataloaders import datasets as datasets
    from ...dataloaders import transforms as transforms

_SUBMODULES = {"_utils", "dataloader", "dataset", "distributed", "sampler"}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _SUBMODULES:
            return import_module(f"{__name__}.{name}")
        is_pythons = name.startswith("__") and name != "__all__"
        if is_pythons or not hasattr(package := import_module("shmtensor.dataloaders"), name):
            raise _missing(__name__, name)
        return getattr(package, name)


def __dir__() -> list[str]:
    return sorted({*dir(import_module("shmtensor.dataloaders")), *_SUBMODULES})
