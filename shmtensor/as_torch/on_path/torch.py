"""`import torch` of a process that has this folder in its PYTHONPATH: gives shmtensor."""

import sys
from pathlib import Path

if (root := str(Path(__file__).resolve().parents[3])) not in sys.path:
    sys.path.append(root)  # a source tree that is not installed

import shmtensor.as_torch  # noqa: F401, which puts shmtensor in this module's place
