"""Programs that tests start, and their environment."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

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


def run_program(
    program: str | Path, *arguments: str | Path, timeout: float = 200, **settings: object
) -> subprocess.CompletedProcess[str]:
    """Runs a program in an interpreter that imports the same shmtensor, in a session of its own.

    Args:
        program: its file, its text, or "-m", before the name of its module.
        settings: variables of its environment.
    """
    spec = find_spec("shmtensor")
    assert spec is not None
    assert spec.origin is not None
    is_text = isinstance(program, str) and program != "-m"
    what = ["-c", textwrap.dedent(str(program))] if is_text else [str(program)]
    return subprocess.run(
        [sys.executable, *what, *arguments],
        env=environment(Path(spec.origin).parents[1], **settings),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        start_new_session=True,
    )
