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
    """A plain Module, as a base class; no other module is an instance of it."""

    def __init__(self) -> None:
        super().__init__()
        say_once("jit")


RecursiveScriptModule = TopLevelTracedModule = TracedModule = ScriptModule


class ScriptFunction:
    """A compiled function of PyTorch, for annotations: there are none.

    Raises:
        TypeError: it is made.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("jit.ScriptFunction: functions are not compiled: use the function itself")


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """The function, class or module itself. PyTorch's other arguments have no effect.

    Example:
        >>> import warnings, shmtensor as st
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
    """The function or module itself, which is not called. PyTorch's other arguments have no
    effect.
    """
    say_once("jit")
    return func


trace_module = freeze = optimize_for_inference = trace


def _mark(fn: Any) -> Any:
    """The function itself."""
    say_once("jit")
    return fn


export = unused = script_method = script_if_tracing = interface = _mark


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function itself, as a decorator with and without arguments."""
    say_once("jit")
    return drop if callable(drop) else lambda fn: fn


def is_scripting() -> bool:
    """False: nothing is compiled."""
    return False


is_tracing = is_scripting


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value itself."""
    return the_value


class Attribute(NamedTuple):
    """A value with its type, as an attribute of a ScriptModule."""

    value: Any
    type: Any


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type, also of one like `List[int]` or `Optional[str]`, by its
    elements.
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

    Attributes:
        result: what the function returned.
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
    """Calls the function at once; `wait` returns its result."""
    say_once("jit")
    return Future(func(*args, **kwargs))


def wait(future: Future) -> Any:
    """The result of `fork`."""
    return future.wait()


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A `with` without effect."""
    yield


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """A `with` without effect."""
    yield


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """The strategy itself; it has no effect."""
    return strategy


def enable_onednn_fusion(enabled: bool) -> None:
    """Has no effect."""


def onednn_fusion_enabled() -> bool:
    """False."""
    return False


def load(*args: Any, **kwargs: Any) -> NoReturn:
    """Not there.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "jit: models are not compiled, they run as they are: save(model.state_dict(), f), and "
        "load_state_dict(load(f)) of a model that the program makes"
    )


save = load
