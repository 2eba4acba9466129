"""The names of `torch.compiler`: nothing is compiled, models and functions run as they are."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
    "say_once",
    "set_stance",
]

said: set[str] = set()


def say_once(name: str) -> None:
    """Warns that nothing is compiled, at the first use of a name in this process."""
    if name not in said:
        said.add(name)
        warnings.warn(
            f"{name}: models are not compiled, they run as they are", UserWarning, stacklevel=3
        )


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    **kwargs: Any,
) -> Any:
    """The model or function itself: there is no compiler. The first call of a process warns.

    Args:
        model: None: for a decorator with arguments, as `@compile(mode="max-autotune")`.
        disable: True: no warning.

    The other arguments, PyTorch's, have no effect.

    Example:
        >>> import shmtensor as st
        >>> model = st.nn.Linear(2, 3)
        >>> st.compile(model, disable=True) is model
        True
    """
    if not disable:
        say_once("compile")
    return (lambda function: function) if model is None else model


def _unchanged(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself."""
    return fn


allow_in_graph = assume_constant_result = _unchanged


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself, as a decorator with and without arguments."""
    return _unchanged if fn is None else fn


def is_compiling() -> bool:
    """False: nothing is compiled."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """No names: there is no compiler."""
    return []


def reset() -> None:
    """Does nothing: there is no compiler with a state."""


cudagraph_mark_step_begin = reset


@contextmanager
def _no_stance() -> Any:
    yield


def set_stance(stance: str = "default", **kwargs: Any) -> Any:
    """Does nothing, as a function, in a `with`, and as a decorator."""
    return _no_stance()
