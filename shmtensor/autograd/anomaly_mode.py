"""Anomaly mode: an error or NaN in backward names the forward line of its node."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .. import native
from .engine.accumulate_grad import node_name
from .engine.node_hooks import inducing, observer_count, tracing

__all__ = [
    "detect_anomaly",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "set_anomaly_enabled",
    "set_detect_anomaly",
]

_check_nan: list[bool] = [True]


class set_detect_anomaly:
    """Turns anomaly mode on or off; in a `with`, until its end.

    Every op then notes its caller's line, and backward checks for NaN. A warning with that line
    precedes an error in backward. It slows everything down.

    Parameters
    ----------
    mode : bool
        On or off.
    check_nan : bool, optional
        Whether a NaN in a gradient is an error.

    See Also
    --------
    detect_anomaly

    Examples
    --------
    >>> with st.autograd.set_detect_anomaly(True):
    ...     (st.ones(1, requires_grad=True) * 2).backward()
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.former = tracing.get(), _check_nan[0]
        set_mode(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        set_mode(*self.former)


def set_mode(mode: bool, check_nan: bool) -> None:
    if mode != tracing.get():
        observer_count.add(1 if mode else -1)
    tracing.set(mode)
    _check_nan[0] = check_nan


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Turns anomaly mode on or off, until it is set again.

    Parameters
    ----------
    mode : bool
        On or off.
    check_nan : bool, optional
        Whether a NaN in a gradient is an error.

    Examples
    --------
    >>> st.set_anomaly_enabled(True)
    >>> st.is_anomaly_enabled()
    True
    >>> st.set_anomaly_enabled(False)
    """
    set_mode(mode, check_nan)


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on.

    Returns
    -------
    bool

    Examples
    --------
    >>> st.is_anomaly_enabled()
    False
    """
    return tracing.get()


def is_anomaly_check_nan_enabled() -> bool:
    """Whether a NaN in a gradient is an error in anomaly mode.

    Returns
    -------
    bool

    Examples
    --------
    >>> st.is_anomaly_check_nan_enabled()
    True
    """
    return _check_nan[0]


class detect_anomaly:
    """Anomaly mode in a block: backward names the op that made a NaN, and the line that called it.

    Parameters
    ----------
    check_nan : bool, optional
        Whether a NaN in a gradient is an error.

    Raises
    ------
    RuntimeError
        In backward: "Function 'LogBackward0' returned nan values in its 0th output".

    See Also
    --------
    set_detect_anomaly

    Notes
    -----
    A warning precedes the error and shows where forward called the op. Everything is slower.

    Examples
    --------
    >>> import warnings
    >>> x = st.tensor([0.0], requires_grad=True)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     with st.autograd.detect_anomaly():
    ...         (x.log() * 0).sum().backward()
    Traceback (most recent call last):
        ...
    RuntimeError: backward: Function 'LogBackward0' returned nan values in its 0th output.
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


def warn_failed_node(node: Any) -> None:
    """Warns about a node whose backward failed, with its forward line."""
    line = note_of(node, "forward")
    if line is None:
        message = (
            "No forward pass information available. Enable detect anomaly during forward pass."
        )
    else:
        message = f"Traceback of forward call that caused the error:\n{line}"
    warnings.warn(f"Error detected in {node_name(node)}. {message}", stacklevel=3)
    while (node := note_of(node, "induced")) is not None:
        warnings.warn(
            f"\n\nPrevious calculation was induced by {node_name(node)}. Traceback of forward call "
            f"that induced the previous calculation:\n{note_of(node, 'forward') or 'not known'}",
            stacklevel=3,
        )


def note_of(node: Any, key: str) -> Any:
    """The note about a node's creation, or None."""
    return None if node.hooks is None else node.hooks.metadata.get(key)


def gradients(create_graph: bool, node: Any, *arguments: Any) -> tuple[Any, ...]:
    """The gradients of a node's inputs. Nodes created in this call note this node as their inducer.

    Raises:
        RuntimeError: a gradient has a NaN.
    """
    token = inducing.set(node)
    try:
        compute = node.row.tensors if create_graph else node.row.arrays
        grads: tuple[Any, ...] = compute(node, *arguments)
        inspect(node, grads)
    except Exception:
        warn_failed_node(node)
        raise
    finally:
        inducing.reset(token)
    return grads


def inspect(node: Any, grads: tuple[Any, ...]) -> None:
    """Checks a node's gradients for NaN.

    Raises:
        RuntimeError: a gradient has a NaN.
    """
    if not _check_nan[0]:
        return
    for i, g in enumerate(grads):
        g = getattr(g, "numbers", g)  # of a sparse gradient
        array = g.array if isinstance(g, native.TensorBase) else g
        is_numbers = native.is_array(array) or isinstance(array, np.generic)  # no dimensions
        if is_numbers and array.dtype.kind in "fc" and has_nan(array):
            raise RuntimeError(
                f"backward: Function '{node_name(node)}' returned nan values in its {i}th output."
            )


def has_nan(array: Any) -> bool:
    """Whether an array has a NaN; reads one on a GPU, so it waits for the work on it."""
    if isinstance(array, (np.ndarray, np.generic)):
        return bool(np.isnan(array).any())
    with array.device:
        return bool((array != array).any())
