"""The other process of a case: started, and ended whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["PATIENCE", "partner"]

PATIENCE = 10.0


@contextmanager
def partner(
    context: Any, target: Callable[..., None], *arguments: Any, end: Callable[[], object]
) -> Iterator[Any]:
    """A running process of `context`.

    Args:
        target, arguments: what it does.
        end: tells it to end; it is killed if it does not.
    """
    process = context.Process(target=target, args=arguments, daemon=True)
    process.start()
    try:
        yield process
    finally:
        end()
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()
            process.join()
