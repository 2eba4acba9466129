"""Tensors in files: `save` and `load` in PyTorch's zip format, and safetensors."""

from . import safetensors as safetensors
from .load import load as load
from .safe_globals import add_safe_globals as add_safe_globals
from .safe_globals import clear_safe_globals as clear_safe_globals
from .safe_globals import get_safe_globals as get_safe_globals
from .safe_globals import safe_globals as safe_globals
from .save import save as save

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "load",
    "safe_globals",
    "safetensors",
    "save",
]
