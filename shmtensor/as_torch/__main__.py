"""`python -m shmtensor.as_torch [--missing] script.py args`, or -m module, or -c code: runs it by a
Python in whose PYTHONPATH `torch` is this library.

The import of the package, which comes before this file, has set PYTHONPATH.
"""

from __future__ import annotations

import os
import subprocess
import sys

from .missing_names import VARIABLE

USAGE = """usage: python -m shmtensor.as_torch [--missing] script.py [args ...]
       python -m shmtensor.as_torch [--missing] -m module [args ...]
       python -m shmtensor.as_torch [--missing] -c code [args ...]

`import torch` and `import torchvision` give shmtensor in the program and its children.
--missing prints at the end which names of PyTorch the program asked for and shmtensor lacks."""


def main() -> None:
    """Replaces this process by the program's."""
    arguments = sys.argv[1:]
    if arguments and arguments[0] in ("-h", "--help"):
        print(USAGE)
        return
    if arguments and arguments[0] == "--missing":
        os.environ.setdefault(VARIABLE, "1")
        arguments = arguments[1:]
    if not arguments or (arguments[0][:1] == "-" and arguments[0] not in ("-m", "-c", "-")):
        sys.exit(USAGE)
    if sys.flags.ignore_environment:
        sys.exit("shmtensor.as_torch: python -E or -I ignores PYTHONPATH, which it needs")
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    os.execv(sys.executable, [sys.executable, *flags, *arguments])


if __name__ == "__main__":
    main()
