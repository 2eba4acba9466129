"""`record_function`: a block, or a function, with a name in the profile."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from . import profiling

F = TypeVar("F", bound=Callable[..., Any])


class record_function:
    """Names a block, or a function, in a profile; does nothing without a profile.

    Parameters
    ----------
    name : str
        The name in the profile.
    args : str, optional
        Accepted as in PyTorch, and ignored.

    Raises
    ------
    TypeError
        The name is not a str.

    See Also
    --------
    profile

    Notes
    -----
    Copies: none. A block that begins before the profile, or ends after it, is left out.

    Examples
    --------
    >>> from shmtensor.profiler import profile, record_function
    >>> with profile() as prof, record_function("mine"):
    ...     y = st.ones(3)
    >>> "mine" in [average.key for average in prof.key_averages()]
    True

    As a decorator:

    >>> @record_function("normalize")
    ... def normalize(x):
    ...     return x / x.sum()
    >>> normalize(st.ones(2))
    tensor([0.5000, 0.5000])
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError(f"record_function: the name must be a str: got {type(name).__name__}")
        self.name: str = str(name)
        self.began = 0

    def __enter__(self) -> record_function:
        self.began = profiling.begin() if profiling.on else 0
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.began:
            profiling.end(self.began, self.name, profiling.RANGE)

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return function(*args, **kwargs)

        return recorded  # type: ignore[return-value]
