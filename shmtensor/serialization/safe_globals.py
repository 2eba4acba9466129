"""The classes and functions that the user trusts: files may construct or call them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_user_globals: dict[tuple[str, str], Any] = {}


def trusted_names() -> dict[tuple[str, str], Any]:
    """(module, name) -> the classes and functions that the user trusts."""
    return dict(_user_globals)


def add_safe_globals(safe: list[Any]) -> None:
    """Trusts classes and functions: files loaded with `weights_only=True` may construct them.

    A file calls them with arguments of its choice, and sets the state of the instances that it has
    constructed (`__setstate__`, or the attributes); it never changes the class or function itself.
    NumPy's and Python's own constructors stay the checked ones of `load`.

    Parameters
    ----------
    safe : list
        Classes or functions, or pairs (class or function, full name in the file).

    See Also
    --------
    safe_globals, load

    Examples
    --------
    >>> import fractions
    >>> st.save(fractions.Fraction(1, 3), "third.pt")
    >>> st.serialization.add_safe_globals([fractions.Fraction])
    >>> st.load("third.pt")
    Fraction(1, 3)
    >>> st.serialization.clear_safe_globals()
    """
    for entry in safe:
        item, full_name = entry if isinstance(entry, tuple) else (entry, None)
        if full_name is None:
            _user_globals[item.__module__, item.__qualname__] = item
            continue
        # In a pickle a nested class is "package.module", "Outer.Inner"; where the module ends is
        # not known.
        parts = full_name.split(".")
        for i in range(1, len(parts)):
            _user_globals[".".join(parts[:i]), ".".join(parts[i:])] = item


def get_safe_globals() -> list[Any]:
    """The classes and functions that the user trusts.

    Returns
    -------
    list

    Examples
    --------
    >>> import datetime
    >>> with st.serialization.safe_globals([datetime.date]):
    ...     st.serialization.get_safe_globals()
    [<class 'datetime.date'>]
    """
    return list({id(item): item for item in _user_globals.values()}.values())


def clear_safe_globals() -> None:
    """Removes all entries of `add_safe_globals`.

    Examples
    --------
    >>> st.serialization.clear_safe_globals()
    >>> st.serialization.get_safe_globals()
    []
    """
    _user_globals.clear()


@contextmanager
def safe_globals(safe: list[Any]) -> Iterator[None]:
    """`add_safe_globals` for the duration of a `with` block.

    Parameters
    ----------
    safe : list
        Classes or functions, or pairs (class or function, full name in the file).

    Returns
    -------
    context manager

    See Also
    --------
    add_safe_globals

    Examples
    --------
    >>> import fractions
    >>> st.save(fractions.Fraction(1, 3), "third.pt")
    >>> with st.serialization.safe_globals([fractions.Fraction]):
    ...     st.load("third.pt")
    Fraction(1, 3)
    """
    previous = dict(_user_globals)
    add_safe_globals(safe)
    try:
        yield
    finally:
        _user_globals.clear()
        _user_globals.update(previous)
