"""The other process of a case, which always ends with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE = 10.0


@contextmanager
def partner(
    context: Any, target: Callable[..., None], *arguments: Any, end: Callable[[], object]
) -> Iterator[Any]:
    """A running process of `context`.

    Args:
        target, arguments: its function.
        end: asks it to end; it is killed if it does not.
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
