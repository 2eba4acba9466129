"""Grad mode: whether ops record history. Per thread and per asyncio task (a ContextVar)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .. import native

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

F = TypeVar("F", bound=Callable[..., Any])

recording: ContextVar[bool] = ContextVar("shmtensor_recording", default=True)
inferring: ContextVar[bool] = ContextVar("shmtensor_inferring", default=False)
FROZEN = native.set_inferring(inferring)  # the version of inference tensors


def is_grad_enabled() -> bool:
    """Whether operations on tensors that require grad are recorded now, in this thread.

    Returns
    -------
    bool
        True, unless `no_grad`, `inference_mode` or `set_grad_enabled(False)` is in force.

    See Also
    --------
    no_grad, set_grad_enabled

    Examples
    --------
    >>> with st.no_grad():
    ...     st.is_grad_enabled()
    False
    """
    return recording.get()


def is_inference_mode_enabled() -> bool:
    """Whether an `inference_mode` block is open in this thread.

    Returns
    -------
    bool
        True inside of one.

    See Also
    --------
    inference_mode

    Examples
    --------
    >>> with st.inference_mode():
    ...     st.is_inference_mode_enabled()
    True
    """
    return inferring.get()


class Mode:
    """Sets the mode in a `with`, in a decorated function, or while a decorated generator runs.

    It restores the former value by setting it, not by a token, because a generator may end in
    another context than it began in.
    """

    value = True
    former: bool

    @overload
    def __new__(cls, function: None = ...) -> Self: ...
    @overload
    def __new__(cls, function: F) -> F: ...  # type: ignore[misc]  # as @no_grad
    def __new__(cls, function: Any = None, *args: Any, **kwargs: Any) -> Any:
        mode = super().__new__(cls)
        if callable(function):  # as @no_grad, without parentheses
            mode.__init__()  # type: ignore[misc]
            return mode(function)
        return mode

    def __enter__(self) -> None:
        self.former = recording.get()
        recording.set(self.value)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        recording.set(self.former)

    def copy(self) -> Mode:
        """A new instance for each call of a decorated function, which may be recursive."""
        mode: Mode = type(self)()
        return mode

    @overload
    def __call__(self, function: F, /) -> F: ...
    @overload  # of what is decorated as @no_grad, which mypy takes for a mode
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __call__(self, function: Any) -> Any:
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
                generator = function(*args, **kwargs)
                resume, value = generator.send, None
                while True:
                    try:
                        with self.copy():
                            item = resume(value)
                    except StopIteration as end:
                        return end.value
                    try:
                        resume, value = generator.send, (yield item)
                    except GeneratorExit:
                        with self.copy():
                            generator.close()
                        raise
                    except BaseException as error:
                        resume, value = generator.throw, error

            return generate

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self.copy():
                return function(*args, **kwargs)

        return run


class no_grad(Mode):
    """Records no history: a context manager and a decorator, for evaluation and updates.

    Parameters
    ----------
    function : callable, optional
        What is decorated, as `@no_grad` without parentheses.
    *args, **kwargs : Any
        Accepted; have no effect.

    See Also
    --------
    enable_grad, inference_mode, set_grad_enabled

    Notes
    -----
    Used as `with no_grad():`, `@no_grad()` or `@no_grad`. Results do not require grad, and no
    memory is kept for a backward. The mode is that of the thread or asyncio task; a decorated
    generator has it only while it runs.

    Examples
    --------
    >>> x = st.ones(2, requires_grad=True)
    >>> with st.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    >>> @st.no_grad()
    ... def double(x):
    ...     return x * 2
    >>> double(x).requires_grad
    False
    """

    value = False


class enable_grad(Mode):
    """Records history, also inside of `no_grad`: a context manager and a decorator.

    Parameters
    ----------
    function : callable, optional
        What is decorated, as `@enable_grad` without parentheses.
    *args, **kwargs : Any
        Accepted; have no effect.

    See Also
    --------
    no_grad, set_grad_enabled

    Examples
    --------
    >>> x = st.ones(2, requires_grad=True)
    >>> with st.no_grad(), st.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    value = True


class set_grad_enabled(Mode):
    """Sets whether history is recorded: as a function, a context manager or a decorator.

    Parameters
    ----------
    mode : bool
        True records it.

    See Also
    --------
    no_grad, enable_grad

    Notes
    -----
    As a function it sets the mode at once and for good; in a `with` until its end; as a decorator
    in each call.

    Examples
    --------
    >>> x, train = st.ones(2, requires_grad=True), False
    >>> with st.set_grad_enabled(train):
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def __new__(cls, mode: bool) -> Self:
        return object.__new__(cls)

    def __init__(self, mode: bool) -> None:
        self.former = recording.get()
        self.value = bool(mode)
        recording.set(self.value)

    def __enter__(self) -> None:
        recording.set(self.value)

    def copy(self) -> Mode:
        return set_grad_enabled(self.value)

    def __call__(self, function: Any) -> Any:
        recording.set(self.former)
        return super().__call__(function)


class inference_mode(Mode):
    """Records no history, and marks new tensors as results of inference, which have none later
    either.

    Parameters
    ----------
    mode : bool, optional
        False ends the mode inside of the block: history is recorded.

    See Also
    --------
    no_grad

    Notes
    -----
    A context manager and a decorator. Tensors made in it (`x.is_inference()`) may later neither be
    saved for backward nor written in place outside of the mode.

    Examples
    --------
    >>> x = st.ones(2, requires_grad=True)
    >>> with st.inference_mode():
    ...     y = x * 2
    >>> y.requires_grad, y.is_inference()
    (False, True)
    """

    value = False
    former_inferring: bool

    @overload
    def __new__(cls, mode: bool = ...) -> Self: ...
    @overload
    def __new__(cls, mode: F) -> F: ...  # type: ignore[misc]
    def __new__(cls, mode: Any = True) -> Any:
        return super().__new__(cls, mode)

    def __init__(self, mode: Any = True) -> None:
        self.mode = mode if isinstance(mode, bool) else True

    def __enter__(self) -> None:
        self.former_inferring = inferring.get()
        self.former = recording.get()
        inferring.set(self.mode)
        native.inference(1)
        recording.set(not self.mode)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        native.inference(-1)
        inferring.set(self.former_inferring)
        recording.set(self.former)

    def copy(self) -> Mode:
        return inference_mode(self.mode)


multithreading: ContextVar[bool] = ContextVar("shmtensor_multithreading", default=True)


class set_multithreading_enabled:
    """Sets what `is_multithreading_enabled` returns, as a function and in a `with`, and nothing
    else: backward runs in the calling thread.

    Parameters
    ----------
    mode : bool
        The value.

    Examples
    --------
    >>> with st.autograd.set_multithreading_enabled(False):
    ...     st.autograd.is_multithreading_enabled()
    False
    >>> st.autograd.is_multithreading_enabled()
    True
    """

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self.former = multithreading.get()
        multithreading.set(self.mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        multithreading.set(self.former)


def is_multithreading_enabled() -> bool:
    """The last value of `set_multithreading_enabled`; True by default.

    Returns
    -------
    bool
        It has no effect: backward runs in the calling thread.

    Examples
    --------
    >>> st.autograd.is_multithreading_enabled()
    True
    """
    return multithreading.get()
