"""`import torchvision` of a process that has this folder in its PYTHONPATH: gives ours."""

import sys
from pathlib import Path

if (root := str(Path(__file__).resolve().parents[3])) not in sys.path:
    sys.path.append(root)  # a source tree that is not installed

import shmtensor.as_torch  # noqa: F401
from shmtensor.as_torch import torchvision

sys.modules[__name__] = torchvision
