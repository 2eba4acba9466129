"""The `dataloaders` package by PyTorch's name, imported at first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataloaders import *  # noqa: F403
    from dataloaders import datasets as datasets
    from dataloaders import transforms as transforms


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return getattr(import_module("dataloaders"), name)


def __dir__() -> list[str]:
    return dir(import_module("dataloaders"))
