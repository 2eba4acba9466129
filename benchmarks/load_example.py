"""An example's module, run with another library: the same source with PyTorch instead of shmtensor.

`load("digits_cnn", "torch")` reads examples/digits_cnn.py, turns `import shmtensor as st` and
`from shmtensor import nn` into imports of torch, and runs the result as a module. An example that
imports another one gets it with the same library. `shmtensor.dataloaders` is not replaced.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
OURS = "shmtensor"


def load(example: str, library: str = OURS) -> ModuleType:
    """The example as a module whose tensors are `library`'s ("shmtensor" or "torch").

    Raises: FileNotFoundError if there is no such example.
    """
    name = f"{library}_example_{example}"
    if name in sys.modules:
        return sys.modules[name]
    path = EXAMPLES / f"{example}.py"
    tree = ast.parse(path.read_text(), str(path))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                alias.name, old_name = _renamed(alias.name, library), alias.name
                if old_name in (OURS, alias.name) or alias.asname:
                    continue
                alias.asname = old_name  # `import words`
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            node.module = _renamed(node.module, library)
    module = sys.modules[name] = ModuleType(name, ast.get_docstring(tree))
    module.__file__ = str(path)
    try:
        exec(compile(tree, str(path), "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _renamed(module: str, library: str) -> str:
    first, dot, path = module.partition(".")
    if first == OURS and not path.startswith("dataloaders"):
        return library + dot + path
    if not dot and (EXAMPLES / f"{first}.py").exists():
        return load(first, library).__name__
    return module
