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
    """True: cuDNN runs deterministic engines only.

    On the CPU all ops are deterministic anyway. On a GPU the setting has no effect on others, and
    gives no error: sums at indices (`index_add`, `scatter_add`, `index_put_` with `accumulate`,
    gradients of embeddings, sparse products) add with atomics, in an order that differs from run
    to run.
    """
    State.deterministic, State.warn_only = bool(mode), bool(warn_only)
    cudnn_runtime.settings.all_deterministic = bool(mode)


def are_deterministic_algorithms_enabled() -> bool:
    """The setting of `use_deterministic_algorithms`."""
    return State.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """The setting `warn_only` of `use_deterministic_algorithms`."""
    return State.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Stores the setting: 0 or "default", 1 or "warn", 2 or "error".

    Raises:
        RuntimeError: another value.
    """
    words = ["default", "warn", "error"]
    mode = words.index(debug_mode) if debug_mode in words else debug_mode
    if isinstance(mode, str) or mode not in (0, 1, 2):
        raise RuntimeError(f"set_deterministic_debug_mode: one of {words}: {debug_mode!r}")
    use_deterministic_algorithms(mode > 0, warn_only=mode == 1)


def get_deterministic_debug_mode() -> int:
    """The setting of `set_deterministic_debug_mode`, as a number."""
    return (1 if State.warn_only else 2) if State.deterministic else 0


def set_float32_matmul_precision(precision: str) -> None:
    """Sets how precise products of float32 are on a GPU: "high" and "medium" allow TF32, which has
    10 bits of mantissa. On the CPU they are always computed in float32.

    Raises:
        RuntimeError: not one of highest, high, medium.
    """
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(
            f"set_float32_matmul_precision: expected one of highest, high, medium: {precision!r}"
        )
    cupy_runtime.state.precision = precision


def get_float32_matmul_precision() -> str:
    """The setting of `set_float32_matmul_precision`."""
    return cupy_runtime.state.precision


def set_num_interop_threads(n: int) -> None:
    """Stores the setting; ops run one after another.

    Raises:
        RuntimeError: not a positive number.
    """
    if n < 1:
        raise RuntimeError(f"set_num_interop_threads: expected a positive number: {n}")
    State.interop = n


def get_num_interop_threads() -> int:
    """The setting of `set_num_interop_threads`."""
    return State.interop


def set_flush_denormal(mode: bool) -> bool:
    """Whether denormal numbers are flushed to zero: False, never."""
    return False


def set_warn_always(b: bool) -> None:
    """Stores the setting; Python's filters decide how often a warning is shown."""
    State.warn_always = bool(b)


def is_warn_always_enabled() -> bool:
    """The setting of `set_warn_always`."""
    return State.warn_always
