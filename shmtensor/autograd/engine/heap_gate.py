"""The heap's gate around user code inside an op: shut, so that a user's own arrays stay private."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import native

__all__ = ["shut"]


def shut(run: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Calls user code with the heap shut; it is as before on every way out."""
    token = native.gate_shut()
    try:
        return run(*args, **named)
    finally:
        native.gate_close(token)
