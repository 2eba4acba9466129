"""Shuts the heap's gate around user code inside an op, so that a user's own arrays stay private."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import native


def call_with_gate_shut(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls user code with the gate shut, and restores the gate afterwards."""
    token = native.gate_shut()
    try:
        return function(*args, **kwargs)
    finally:
        native.gate_close(token)
