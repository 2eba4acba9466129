"""The `dataloaders` package by PyTorch's name, imported at first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataloaders import *  # noqa: F403


__path__: list[str] = []  # ../other_names.py finds what is imported beneath it


def __getattr__(name: str) -> Any:
    return getattr(import_module("dataloaders"), name)


def __dir__() -> list[str]:
    return dir(import_module("dataloaders"))
