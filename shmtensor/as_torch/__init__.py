"""`import torch` and `import torchvision` give this library, in this process and its children.

    python -m shmtensor.as_torch script.py args     or -m module, -c code
    import shmtensor.as_torch                       first in a script

`torch.nn` is then the module `shmtensor.nn` itself. Children get it by the folder `on_path`, which
is in their PYTHONPATH, however they are started.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from .. import dtypes, nn
from ..other_names import is_ours
from ..tensor import Tensor
from . import missing_names
from .torch_modules import TorchFinder
from .torch_version import TorchVersion

__all__ = ["install"]

ON_PATH = str(Path(__file__).with_name("on_path"))


def install() -> None:
    """Makes `torch` and `torchvision` names of this library; the import of this module calls it.

    Raises:
        ImportError: the program has imported PyTorch or torchvision already.
    """
    for name in ("torch", "torchvision"):
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None) or ""
        if module is not None and not is_ours(module) and not file.startswith(ON_PATH):
            raise ImportError(
                f"shmtensor.as_torch: {name} is imported already, from {file or module}: import "
                "shmtensor.as_torch first, or run python -m shmtensor.as_torch script.py"
            )
    package: Any = sys.modules["shmtensor"]
    sys.modules["torch"] = package
    sys.meta_path.insert(0, TorchFinder())
    if ON_PATH not in sys.path:
        sys.path.insert(1, ON_PATH)  # behind the program's own folder
    entries = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if ON_PATH not in entries:
        os.environ["PYTHONPATH"] = os.pathsep.join([ON_PATH, *entries])
    package.__version__ = TorchVersion()
    # Programs look for "torch" in str(type(x)).
    Tensor.__module__ = "torch"
    nn.Parameter.__module__ = "torch.nn.parameter"
    dtypes.library = "torch"  # and at x.type() and str(x.dtype)
    missing_names.start()


install()
