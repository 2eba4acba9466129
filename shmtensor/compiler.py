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
    """Warns that nothing is compiled, at the first use of a name in this process.

    Parameters
    ----------
    name : str
        Of the function or module that the program used; the warning begins with it.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     st.compiler.say_once("example")
    ...     st.compiler.say_once("example")
    >>> len(caught) <= 1
    True
    """
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

    Parameters
    ----------
    model : callable, optional
        None: for a decorator with arguments, as `@compile(mode="max-autotune")`.
    fullgraph, dynamic, backend, mode, options, name : object, optional
        PyTorch's. Accepted; have no effect.
    disable : bool, optional
        True: no warning.
    **kwargs : object
        PyTorch's other arguments. Accepted; have no effect.

    Returns
    -------
    callable
        `model`, or a decorator that returns its function.

    Examples
    --------
    >>> model = st.nn.Linear(2, 3)
    >>> st.compile(model, disable=True) is model
    True
    >>> @st.compile(mode="max-autotune", disable=True)
    ... def double(x):
    ...     return x * 2
    >>> double(3)
    6
    """
    if not disable:
        say_once("compile")
    return (lambda function: function) if model is None else model


def _unchanged(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself: there is no compiler.

    Parameters
    ----------
    fn : callable
        Also as a decorator.

    Returns
    -------
    callable
        `fn`.

    Examples
    --------
    >>> @st.compiler.allow_in_graph
    ... def double(x):
    ...     return x * 2
    >>> double(3)
    6
    """
    return fn


allow_in_graph = assume_constant_result = _unchanged


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself, as a decorator with and without arguments.

    Parameters
    ----------
    fn : callable, optional
        The function.
    recursive : bool, optional
        Accepted; has no effect.
    reason : str, optional
        Accepted; has no effect.

    Returns
    -------
    callable
        `fn`, or a decorator that returns its function.

    Examples
    --------
    >>> @st.compiler.disable(recursive=False)
    ... def double(x):
    ...     return x * 2
    >>> double(3)
    6
    """
    return _unchanged if fn is None else fn


def is_compiling() -> bool:
    """False: nothing is compiled; also as `is_dynamo_compiling` and `is_exporting`.

    Returns
    -------
    bool
        False.

    Examples
    --------
    >>> st.compiler.is_compiling()
    False
    """
    return False


is_dynamo_compiling = is_exporting = is_compiling


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """No names: there is no compiler.

    Parameters
    ----------
    exclude_tags : sequence of str, optional
        Accepted; has no effect.

    Returns
    -------
    list of str
        Empty.

    Examples
    --------
    >>> st.compiler.list_backends()
    []
    """
    return []


def reset() -> None:
    """Does nothing: there is no compiler with a state. Also as `cudagraph_mark_step_begin`.

    Examples
    --------
    >>> st.compiler.reset()
    """


cudagraph_mark_step_begin = reset


@contextmanager
def _no_stance() -> Any:
    yield


def set_stance(stance: str = "default", **kwargs: Any) -> Any:
    """Does nothing, as a function, in a `with`, and as a decorator.

    Parameters
    ----------
    stance : str, optional
        Accepted; has no effect.
    **kwargs : object
        PyTorch's other arguments. Accepted; have no effect.

    Returns
    -------
    context manager
        Without a value; also a decorator.

    Examples
    --------
    >>> with st.compiler.set_stance("force_eager"):
    ...     x = st.ones(2)
    """
    return _no_stance()
