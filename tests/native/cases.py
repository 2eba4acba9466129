"""each(): many cases in one test, where the checks after each test cost more than the cases."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def each(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[..., Any]:
    """Like pytest.mark.parametrize, but loops inside the test; a failure names its case."""
    keys = (names,) if isinstance(names, str) else names
    cases = [(v,) if isinstance(names, str) else tuple(v) for v in values]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            for case in cases:
                try:
                    test(**dict(zip(keys, case, strict=True)), **fixtures)
                except Exception as error:
                    raise AssertionError(f"{keys} = {case}") from error

        signature = inspect.signature(test)
        parameters = [p for p in signature.parameters.values() if p.name not in keys]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return run

    return decorate
