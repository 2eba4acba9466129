"""PyTorch's global settings: each function says what the setting means here."""

from __future__ import annotations

from .. import cudnn_runtime, cupy_runtime
from ..device import get_default_device, set_default_device

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_default_device",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_warn_always_enabled",
    "set_default_device",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_warn_always",
    "use_deterministic_algorithms",
]


class State:
    deterministic = False
    warn_only = False
    interop = 1
    warn_always = False


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Whether cuDNN runs deterministic engines only.

    Parameters
    ----------
    mode : bool
        True: deterministic ones only.
    warn_only : bool, optional
        Stored; `is_deterministic_algorithms_warn_only_enabled` returns it.

    See Also
    --------
    are_deterministic_algorithms_enabled

    Notes
    -----
    On the CPU all ops are deterministic anyway. On a GPU the setting has no effect on others, and
    gives no error: sums at indices (`index_add`, `scatter_add`, `index_put_` with `accumulate`,
    gradients of embeddings, sparse products) add with atomics, in an order that differs from run to
    run.

    Examples
    --------
    >>> st.use_deterministic_algorithms(True)
    >>> st.are_deterministic_algorithms_enabled()
    True
    >>> st.use_deterministic_algorithms(False)
    """
    State.deterministic, State.warn_only = bool(mode), bool(warn_only)
    cudnn_runtime.settings.all_deterministic = bool(mode)


def are_deterministic_algorithms_enabled() -> bool:
    """The setting of `use_deterministic_algorithms`.

    Returns
    -------
    bool
        False by default.

    See Also
    --------
    use_deterministic_algorithms

    Examples
    --------
    >>> st.are_deterministic_algorithms_enabled()
    False
    """
    return State.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """The argument `warn_only` of `use_deterministic_algorithms`.

    Returns
    -------
    bool
        False by default.

    See Also
    --------
    use_deterministic_algorithms

    Examples
    --------
    >>> st.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return State.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Sets `use_deterministic_algorithms` by a word or a number.

    Parameters
    ----------
    debug_mode : int or str
        0 or "default": off; 1 or "warn": on, with `warn_only`; 2 or "error": on.

    Raises
    ------
    RuntimeError
        It is another value.

    See Also
    --------
    get_deterministic_debug_mode

    Examples
    --------
    >>> st.set_deterministic_debug_mode("warn")
    >>> st.get_deterministic_debug_mode()
    1
    >>> st.set_deterministic_debug_mode(0)
    """
    words = ["default", "warn", "error"]
    mode = words.index(debug_mode) if debug_mode in words else debug_mode
    if isinstance(mode, str) or mode not in (0, 1, 2):
        raise RuntimeError(f"set_deterministic_debug_mode: one of {words}: {debug_mode!r}")
    use_deterministic_algorithms(mode > 0, warn_only=mode == 1)


def get_deterministic_debug_mode() -> int:
    """The setting of `set_deterministic_debug_mode`.

    Returns
    -------
    int
        0, 1 or 2.

    See Also
    --------
    set_deterministic_debug_mode

    Examples
    --------
    >>> st.get_deterministic_debug_mode()
    0
    """
    return (1 if State.warn_only else 2) if State.deterministic else 0


def set_float32_matmul_precision(precision: str) -> None:
    """Sets how precise products of float32 matrices are on a GPU.

    Parameters
    ----------
    precision : str
        "highest"; "high" and "medium" allow TF32, which has 10 bits of mantissa.

    Raises
    ------
    RuntimeError
        It is another word.

    See Also
    --------
    get_float32_matmul_precision

    Notes
    -----
    On the CPU products are always computed in float32.

    Examples
    --------
    >>> st.set_float32_matmul_precision("high")
    >>> st.get_float32_matmul_precision()
    'high'
    >>> st.set_float32_matmul_precision("highest")
    """
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(
            f"set_float32_matmul_precision: expected one of highest, high, medium: {precision!r}"
        )
    cupy_runtime.state.precision = precision


def get_float32_matmul_precision() -> str:
    """The setting of `set_float32_matmul_precision`.

    Returns
    -------
    str
        "highest" by default.

    See Also
    --------
    set_float32_matmul_precision

    Examples
    --------
    >>> st.get_float32_matmul_precision()
    'highest'
    """
    return cupy_runtime.state.precision


def set_num_interop_threads(n: int) -> None:
    """Stores a number of threads, without effect: operations run one after another.

    Parameters
    ----------
    n : int
        A positive number.

    Raises
    ------
    RuntimeError
        It is not positive.

    See Also
    --------
    set_num_threads

    Examples
    --------
    >>> st.set_num_interop_threads(1)
    """
    if n < 1:
        raise RuntimeError(f"set_num_interop_threads: expected a positive number: {n}")
    State.interop = n


def get_num_interop_threads() -> int:
    """The setting of `set_num_interop_threads`.

    Returns
    -------
    int
        1 by default.

    See Also
    --------
    set_num_interop_threads

    Examples
    --------
    >>> st.get_num_interop_threads()
    1
    """
    return State.interop


def set_flush_denormal(mode: bool) -> bool:
    """Asks that denormal numbers are flushed to 0, which does not happen here.

    Parameters
    ----------
    mode : bool
        Accepted; has no effect.

    Returns
    -------
    bool
        Whether they are: always False.

    Examples
    --------
    >>> st.set_flush_denormal(True)
    False
    """
    return False


def set_warn_always(b: bool) -> None:
    """Stores a setting, without effect: Python's filters decide how often a warning is shown.

    Parameters
    ----------
    b : bool
        The setting.

    See Also
    --------
    is_warn_always_enabled

    Examples
    --------
    >>> st.set_warn_always(False)
    """
    State.warn_always = bool(b)


def is_warn_always_enabled() -> bool:
    """The setting of `set_warn_always`.

    Returns
    -------
    bool
        False by default.

    See Also
    --------
    set_warn_always

    Examples
    --------
    >>> st.is_warn_always_enabled()
    False
    """
    return State.warn_always
