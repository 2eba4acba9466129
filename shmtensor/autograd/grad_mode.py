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
    """Whether ops on tensors that require grad record history now.

    Returns
    -------
    bool

    Examples
    --------
    >>> with st.no_grad():
    ...     st.is_grad_enabled()
    False
    """
    return recording.get()


def is_inference_mode_enabled() -> bool:
    """Whether an `inference_mode` block is open.

    Returns
    -------
    bool

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
    """No history is recorded in a block, or in a decorated function: results do not require grad.

    Parameters
    ----------
    function : callable, optional
        What `@no_grad` decorates; `@no_grad()` works, too.
    *args, **kwargs
        None are taken.

    See Also
    --------
    enable_grad, inference_mode, Tensor.detach

    Notes
    -----
    The mode is each thread's and task's own. Parameters may be written in place in it.

    Examples
    --------
    >>> x = st.ones(2, requires_grad=True)
    >>> with st.no_grad():
    ...     y = x * 2
    ...     x -= 0.5
    >>> y.requires_grad, x
    (False, tensor([0.5000, 0.5000], requires_grad=True))
    >>> @st.no_grad()
    ... def predict(x):
    ...     return x * 2
    >>> predict(x).requires_grad
    False
    """

    value = False


class enable_grad(Mode):
    """History is recorded in a block, or in a decorated function, also inside `no_grad`.

    Parameters
    ----------
    function : callable, optional
        What `@enable_grad` decorates.
    *args, **kwargs
        None are taken.

    See Also
    --------
    no_grad, set_grad_enabled

    Examples
    --------
    >>> x = st.ones(2, requires_grad=True)
    >>> with st.no_grad():
    ...     with st.enable_grad():
    ...         y = x * 2
    >>> y.requires_grad
    True
    """

    value = True


class set_grad_enabled(Mode):
    """Sets whether history is recorded: at once and for good; in a `with`, until its end; as a
    decorator, in each call.

    Parameters
    ----------
    mode : bool
        Whether.

    See Also
    --------
    no_grad, is_grad_enabled

    Examples
    --------
    >>> training = False
    >>> x = st.ones(2, requires_grad=True)
    >>> with st.set_grad_enabled(training):
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
    """As `no_grad`; tensors made in it may later neither be saved for backward nor written in
    place outside the mode.

    Parameters
    ----------
    mode : bool or callable, optional
        False leaves the mode for a block; a function is decorated.

    See Also
    --------
    no_grad, is_inference_mode_enabled

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

    Examples
    --------
    >>> st.autograd.is_multithreading_enabled()
    True
    """
    return multithreading.get()
