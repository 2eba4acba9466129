"""The C++17 core: memory/ and ipc/ for processes, kernels/ and dispatch/ for ops; see README.md."""

import sys

if __name__ != "shmtensor.native":  # `torch.native`, where a program made `torch` another name
    name = __name__.rpartition(".")[0]
    raise ImportError(
        f"import {name}: shmtensor is loaded under another name: {name}; it can only be loaded as "
        "shmtensor, hint: import shmtensor.as_torch gives it the name torch"
    )

try:
    import numpy  # noqa: F401, which _core needs

    from ._core import *  # noqa: F403
except ModuleNotFoundError as error:
    from pathlib import Path

    root = Path(__file__).resolve().parents[2]
    if not (root / "setup.py").exists():
        raise
    raise ImportError(
        f"import shmtensor: no module {error.name} for {sys.executable}: {root} is a source tree, "
        f"type `make build PYTHON={sys.executable}` there, or run {root}/.venv/bin/python, which "
        "`make demo` makes"
    ) from error
