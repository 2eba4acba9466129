"""Anomaly mode: an error in backward, or a NaN, names the forward line that made its node."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .. import native
from .engine.accumulate_grad import node_name
from .engine.node_hooks import inducing, tracing, watching

__all__ = [
    "detect_anomaly",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "set_anomaly_enabled",
    "set_detect_anomaly",
]

_checking_nan: list[bool] = [True]


class set_detect_anomaly:
    """Turns anomaly mode on or off; in a `with`, until its end.

    Every op then notes the line that called it, and backward looks for NaN: an error there is
    preceded by a warning with that line. It slows everything down.

    Args:
        mode: on or off.
        check_nan: whether a NaN in a gradient is an error.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.former = tracing.get(), _checking_nan[0]
        turn(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        turn(*self.former)


def turn(mode: bool, check_nan: bool) -> None:
    if mode != tracing.get():
        watching.add(1 if mode else -1)
    tracing.set(mode)
    _checking_nan[0] = check_nan


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Anomaly mode on or off, until it is set again."""
    turn(mode, check_nan)


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return tracing.get()


def is_anomaly_check_nan_enabled() -> bool:
    """Whether a NaN in a gradient is an error in anomaly mode."""
    return _checking_nan[0]


class detect_anomaly:
    """Anomaly mode in a block: `with autograd.detect_anomaly(): ...`.

    Args:
        check_nan: whether a NaN in a gradient is an error.

    Raises:
        RuntimeError: in backward: "Function 'LogBackward0' returned nan values in its 0th output".
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self.mode = set_detect_anomaly(True, self.check_nan)

    def __exit__(self, *error: object) -> None:
        self.mode.__exit__(*error)


def blame(node: Any) -> None:
    """Warns about a node whose backward failed, with the line that made it."""
    line = noted(node, "forward")
    if line is None:
        told = "No forward pass information available. Enable detect anomaly during forward pass."
    else:
        told = f"Traceback of forward call that caused the error:\n{line}"
    warnings.warn(f"Error detected in {node_name(node)}. {told}", stacklevel=3)
    while (node := noted(node, "induced")) is not None:
        warnings.warn(
            f"\n\nPrevious calculation was induced by {node_name(node)}. Traceback of forward call "
            f"that induced the previous calculation:\n{noted(node, 'forward') or 'not known'}",
            stacklevel=3,
        )


def noted(node: Any, what: str) -> Any:
    """What was noted of a node as it was made, or None."""
    return None if node.hooks is None else node.hooks.metadata.get(what)


def gradients(node: Any, g: Any, create: bool) -> tuple[Any, ...]:
    """What a node gives in a backward; nodes made on the way know what induced them.

    Raises:
        RuntimeError: there is a NaN in it.
    """
    token = inducing.set(node)
    try:
        grads: tuple[Any, ...] = (node.row.tensors if create else node.row.arrays)(node, g)
        inspect(node, grads)
    except Exception:
        blame(node)
        raise
    finally:
        inducing.reset(token)
    return grads


def inspect(node: Any, grads: tuple[Any, ...]) -> None:
    """Refuses NaN in what a node gave.

    Raises:
        RuntimeError: there is one.
    """
    if not _checking_nan[0]:
        return
    for i, g in enumerate(grads):
        g = getattr(g, "numbers", g)  # of a sparse one
        array = g.array if isinstance(g, native.TensorBase) else g
        if isinstance(array, np.ndarray) and array.dtype.kind in "fc" and np.isnan(array).any():
            raise RuntimeError(
                f"backward: Function '{node_name(node)}' returned nan values in its {i}th output."
            )
