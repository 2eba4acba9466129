"""The environment of programs that tests start."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["ROOT", "environment"]

ROOT = Path(__file__).resolve().parents[1]


def environment(*folders: Path, **settings: object) -> dict[str, str]:
    """This process's environment, with these folders first in PYTHONPATH and what it holds already
    behind them: packages that are found there are found by the program, too.

    Args:
        folders: by default the root of the checkout.
        settings: other variables.
    """
    first = [str(folder) for folder in folders or (ROOT,)]
    rest = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = [*first, *(folder for folder in rest if folder and folder not in first)]
    given = {name: str(value) for name, value in settings.items()}
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), **given}
