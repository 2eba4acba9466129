"""The names of `torch.jit`: there is no TorchScript, functions and modules are returned unchanged.

The first use in a process warns. What needs a compiled program (`jit.load`, `jit.save`) raises.
"""

from __future__ import annotations

import builtins
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, NoReturn

from .compiler import say_once
from .nn import Module

__all__ = [
    "Attribute",
    "Error",
    "Final",
    "Future",
    "ScriptFunction",
    "ScriptModule",
    "ScriptWarning",
    "TracerWarning",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

Error = RuntimeError


class ScriptWarning(Warning):
    """Of TorchScript: for filters of warnings."""


class TracerWarning(Warning):
    """Of TorchScript's tracer: for filters of warnings."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Does nothing."""


class ScriptModule(Module):
    """A plain Module, as a base class; no other module is an instance of it.

    Examples
    --------
    >>> class Double(st.jit.ScriptModule):
    ...     def forward(self, x):
    ...         return x * 2
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     model = Double()
    >>> model(st.ones(2))
    tensor([2., 2.])
    >>> isinstance(nn.Linear(2, 2), st.jit.ScriptModule)
    False
    """

    def __init__(self) -> None:
        super().__init__()
        say_once("jit")


RecursiveScriptModule = TopLevelTracedModule = TracedModule = ScriptModule


class ScriptFunction:
    """A compiled function of PyTorch, for annotations: there are none.

    Parameters
    ----------
    *args, **kwargs : object
        PyTorch's.

    Raises
    ------
    TypeError
        It is made.

    Examples
    --------
    >>> def call(function: st.jit.ScriptFunction, x):
    ...     return function(x)
    >>> call(st.sqrt, st.tensor(4.0))
    tensor(2.)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("jit.ScriptFunction: functions are not compiled: use the function itself")


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """The function, class or module itself: nothing is compiled. The first call warns.

    Parameters
    ----------
    obj : callable
        A function, class or module; also as a decorator.
    *args, **kwargs : object
        PyTorch's other arguments. Accepted; have no effect.

    Returns
    -------
    callable
        `obj`.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     @st.jit.script
    ...     def double(x):
    ...         return x * 2
    >>> double(st.ones(2))
    tensor([2., 2.])
    """
    say_once("jit")
    return obj


def trace(func: Any, *args: Any, **kwargs: Any) -> Any:
    """The function or module itself, which is not called; also as `trace_module`, `freeze` and
    `optimize_for_inference`.

    Parameters
    ----------
    func : callable
        A function or module.
    *args, **kwargs : object
        PyTorch's other arguments, as example inputs. Accepted; have no effect.

    Returns
    -------
    callable
        `func`.

    Examples
    --------
    >>> model = nn.Linear(2, 3)
    >>> st.jit.trace(model, st.ones(1, 2)) is model
    True
    >>> st.jit.freeze(model) is model
    True
    """
    say_once("jit")
    return func


trace_module = freeze = optimize_for_inference = trace


def _mark(fn: Any) -> Any:
    """The function itself, as a decorator: `export`, `unused`, `script_method`, `script_if_tracing`
    and `interface`.

    Parameters
    ----------
    fn : callable
        A function or class.

    Returns
    -------
    callable
        `fn`.

    Examples
    --------
    >>> @st.jit.export
    ... def double(x):
    ...     return x * 2
    >>> double(3)
    6
    """
    say_once("jit")
    return fn


export = unused = script_method = script_if_tracing = interface = _mark


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function itself, as a decorator with and without arguments.

    Parameters
    ----------
    drop : bool or callable, optional
        The function; or an argument of the decorator, which has no effect.
    **kwargs : object
        PyTorch's other arguments. Accepted; have no effect.

    Returns
    -------
    callable
        The function, or a decorator that returns it.

    Examples
    --------
    >>> @st.jit.ignore(drop=True)
    ... def double(x):
    ...     return x * 2
    >>> double(3)
    6
    """
    say_once("jit")
    return drop if callable(drop) else lambda fn: fn


def is_scripting() -> bool:
    """False: nothing is compiled or traced; also as `is_tracing`.

    Returns
    -------
    bool
        False.

    Examples
    --------
    >>> st.jit.is_scripting()
    False
    """
    return False


is_tracing = is_scripting


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value itself, which a compiler would take to be of the type.

    Parameters
    ----------
    the_type : type
        Accepted; has no effect.
    the_value : object
        Any.

    Returns
    -------
    object
        `the_value`.

    Examples
    --------
    >>> st.jit.annotate(list[int], [1, 2])
    [1, 2]
    """
    return the_value


class Attribute(NamedTuple):
    """A value with its type, as an attribute of a ScriptModule."""

    value: Any
    type: Any


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type, also of one like `List[int]` or `Optional[str]`, by its
    elements.

    Parameters
    ----------
    obj : object
        Any.
    target_type : type or sequence of types
        A class, a generic type, a union, None, or several of these: any of them.

    Returns
    -------
    bool
        Whether it is, its elements, keys and values included.

    Examples
    --------
    >>> st.jit.isinstance([1, 2], list[int])
    True
    >>> st.jit.isinstance({"a": 1.5}, dict[str, int])
    False
    """
    origin, parts = typing.get_origin(target_type), typing.get_args(target_type)
    if builtins.isinstance(target_type, (tuple, list)):
        return any(isinstance(obj, part) for part in target_type)
    if target_type is None:
        return obj is None
    if origin is None:
        return builtins.isinstance(obj, target_type)
    if not builtins.isinstance(origin, type) or origin.__name__ == "UnionType":
        return any(isinstance(obj, part) for part in parts)
    if not builtins.isinstance(obj, origin):
        return False
    items: Any = obj
    if origin is dict:
        return all(isinstance(k, parts[0]) and isinstance(v, parts[1]) for k, v in items.items())
    if origin is tuple and parts[-1:] != (...,):
        return len(items) == len(parts) and all(isinstance(x, p) for x, p in zip(items, parts))
    return all(isinstance(x, parts[0]) for x in items)


class Future:
    """The result of `fork`, which has been computed.

    Parameters
    ----------
    result : object
        What the function returned.

    Examples
    --------
    >>> future = st.jit.Future(3)
    >>> future.done(), future.wait()
    (True, 3)
    """

    def __init__(self, result: Any) -> None:
        self.result = result

    def wait(self) -> Any:
        """The result."""
        return self.result

    value = wait

    def done(self) -> bool:
        """True."""
        return True


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Calls a function at once, in this thread.

    Parameters
    ----------
    func : callable
        A function or module.
    *args, **kwargs : object
        Its arguments.

    Returns
    -------
    Future
        Its `wait` returns the result.

    See Also
    --------
    wait

    Examples
    --------
    >>> future = st.jit.fork(st.add, st.ones(2), 1)
    >>> st.jit.wait(future)
    tensor([2., 2.])
    """
    say_once("jit")
    return Future(func(*args, **kwargs))


def wait(future: Future) -> Any:
    """The result of `fork`, which has been computed.

    Parameters
    ----------
    future : Future
        What `fork` returned.

    Returns
    -------
    object
        What the function returned.

    Examples
    --------
    >>> st.jit.wait(st.jit.fork(max, 3, 5))
    5
    """
    return future.wait()


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A `with` without effect: nothing is compiled.

    Parameters
    ----------
    should_optimize : bool
        Accepted; has no effect.

    Returns
    -------
    context manager
        Without a value.

    Examples
    --------
    >>> with st.jit.optimized_execution(True):
    ...     x = st.ones(2)
    """
    yield


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """A `with` without effect."""
    yield


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """The strategy itself: nothing is compiled.

    Parameters
    ----------
    strategy : list of (str, int)
        Accepted; has no effect.

    Returns
    -------
    list of (str, int)
        `strategy`.

    Examples
    --------
    >>> st.jit.set_fusion_strategy([("STATIC", 2)])
    [('STATIC', 2)]
    """
    return strategy


def enable_onednn_fusion(enabled: bool) -> None:
    """Has no effect: nothing is compiled.

    Parameters
    ----------
    enabled : bool
        Accepted; has no effect.

    Examples
    --------
    >>> st.jit.enable_onednn_fusion(True)
    >>> st.jit.onednn_fusion_enabled()
    False
    """


def onednn_fusion_enabled() -> bool:
    """False: nothing is compiled.

    Returns
    -------
    bool
        False.

    Examples
    --------
    >>> st.jit.onednn_fusion_enabled()
    False
    """
    return False


def load(*args: Any, **kwargs: Any) -> NoReturn:
    """Not there: models are not compiled, so there are no files of compiled ones; .

    Parameters
    ----------
    *args, **kwargs : object
        PyTorch's.

    Raises
    ------
    NotImplementedError
        Always.

    Examples
    --------
    >>> st.jit.load("model.pt")
    Traceback (most recent call last):
    NotImplementedError: jit: models are not compiled, ...

    Instead of it:

    >>> model = nn.Linear(2, 3)
    >>> st.save(model.state_dict(), "model.pt")
    >>> nn.Linear(2, 3).load_state_dict(st.load("model.pt"))
    <All keys matched successfully>
    """
    raise NotImplementedError(
        "jit: models are not compiled, they run as they are: save(model.state_dict(), f), and "
        "load_state_dict(load(f)) of a model that the program makes"
    )


save = load
