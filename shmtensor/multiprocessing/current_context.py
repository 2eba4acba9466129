"""The context in force, for what context.py itself imports: pools and managers."""

from __future__ import annotations

from typing import Any

default_context: Any = None  # set by context.py


def current_context() -> Any:
    """The result of `get_context()`."""
    return default_context.get_context()
