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

    Parameters
    ----------
    value : bool
        False, the default: each Parameter stays and its `data` changes.

    Examples
    --------
    >>> layer = nn.Linear(2, 2)
    >>> old = layer.weight
    >>> layer.double().weight is old
    True
    >>> st.__future__.set_overwrite_module_params_on_conversion(True)
    >>> layer.float().weight is old
    False
    >>> st.__future__.set_overwrite_module_params_on_conversion(False)
    """
    global _overwrite
    _overwrite = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether `Module.to` and its kin put new Parameters in the place of the old ones.

    Returns
    -------
    bool
        False by default.

    Examples
    --------
    >>> st.__future__.get_overwrite_module_params_on_conversion()
    False
    """
    return _overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether each Parameter stays in any case, whatever the other switch says, and also when
    `load_state_dict(assign=True)` gives it another tensor's memory.

    Parameters
    ----------
    value : bool
        False by default.

    Examples
    --------
    >>> layer, other = nn.Linear(2, 2), nn.Linear(2, 2)
    >>> old = layer.weight
    >>> st.__future__.set_swap_module_params_on_conversion(True)
    >>> result = layer.load_state_dict(other.state_dict(), assign=True)
    >>> layer.weight is old
    True
    >>> st.__future__.set_swap_module_params_on_conversion(False)
    """
    global _swap
    _swap = value


def get_swap_module_params_on_conversion() -> bool:
    """Whether each Parameter stays in any case.

    Returns
    -------
    bool
        False by default.

    Examples
    --------
    >>> st.__future__.get_swap_module_params_on_conversion()
    False
    """
    return _swap
