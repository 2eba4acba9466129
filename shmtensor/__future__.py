"""Switches for how modules change the dtype or device of their parameters, by PyTorch's names."""

from __future__ import annotations

__all__ = [
    "get_overwrite_module_params_on_conversion",
    "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion",
    "set_swap_module_params_on_conversion",
]

_overwrite = False
_swap = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether `Module.to` and its kin put new Parameters in the place of the old ones.

    By default (False) each Parameter stays and its `data` changes.
    """
    global _overwrite
    _overwrite = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether `Module.to` and its kin put new Parameters in the place of the old ones."""
    return _overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether each Parameter stays in any case, whatever the other switch says, and also when
    `load_state_dict(assign=True)` gives it another tensor's memory.
    """
    global _swap
    _swap = value


def get_swap_module_params_on_conversion() -> bool:
    """Whether each Parameter stays in any case."""
    return _swap
