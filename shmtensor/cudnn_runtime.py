"""Finding cuDNN, and the switches of `backends.cudnn`.

cuDNN is used through NVIDIA's Python frontend (`nvidia-cudnn-frontend`, the module `cudnn`), which
is imported by the first convolution on a GPU, or when a program asks for cuDNN's version, and not
before.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import threading
import warnings
from types import ModuleType

EXTRA = 'pip install "shmtensor[cudnn12]" (or cudnn13)'
MINIMUM_FRONTEND = (1, 14)
MINIMUM_CUDNN = 90000
OLD = "is too old, and convolutions run without it; needed is at least"
# Names a CUDA runtime for the frontend, which else takes any that it finds.
RUNTIME_VARIABLE = "CUDNN_FRONTEND_CUDART_LIB_NAME"


class Settings:
    """The switches, with PyTorch's defaults; see `backends.cudnn`.

    Attributes:
        all_deterministic: the setting of `use_deterministic_algorithms`.
        choice: what a plan depends on: the number of plans to try (0: the heuristics' choice, -1:
            all), whether it is deterministic, and whether it may use TF32.
    """

    __slots__ = ("__dict__", "choice")
    choice: tuple[int, bool, bool]

    def __init__(self) -> None:
        self.enabled = True
        self.benchmark = False
        self.benchmark_limit = 10
        self.deterministic = False
        self.allow_tf32 = True
        self.all_deterministic = False

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if "all_deterministic" in self.__dict__:  # the last one that __init__ sets
            number = (self.benchmark_limit or -1) if self.benchmark else 0
            is_deterministic = self.deterministic or self.all_deterministic
            super().__setattr__("choice", (number, is_deterministic, self.allow_tf32))


class State:
    """What this process knows of cuDNN.

    Attributes:
        asked: the frontend was looked for.
        module: the frontend; None: it cannot be used.
        reason: why it cannot.
    """

    def __init__(self) -> None:
        self.asked = False
        self.module: ModuleType | None = None
        self.reason = ""


settings = Settings()
state = State()
lock = threading.Lock()


# A thread of the parent may hold it at a fork.
os.register_at_fork(after_in_child=lambda: lock._at_fork_reinit())  # type: ignore[attr-defined]


def find() -> tuple[ModuleType | None, str]:
    """The frontend, and why it cannot be used."""
    try:
        module = importlib.import_module("cudnn")
    except ModuleNotFoundError as error:
        return None, f"cuDNN's frontend is not installed: {error}; {EXTRA}"
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        return None, f"cuDNN or its frontend cannot be loaded: {text}; {EXTRA}"
    try:
        version = int(module.backend_version())
        frontend_version = tuple(map(int, str(module.__version__).split(".")[:2]))
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        return None, f"cuDNN cannot be loaded: {text}; {EXTRA}"
    if frontend_version < MINIMUM_FRONTEND:
        wanted = ".".join(map(str, MINIMUM_FRONTEND))
        return None, f"nvidia-cudnn-frontend {module.__version__} {OLD}: {wanted}; {EXTRA}"
    if version < MINIMUM_CUDNN:
        return None, f"cuDNN {version} {OLD}: {MINIMUM_CUDNN}; {EXTRA}"
    return module, ""


def frontend() -> ModuleType | None:
    """The module `cudnn` with a library that can be used; None without. It is looked for once, and
    one that is too old is a warning.
    """
    if not state.asked:
        with lock:
            if not state.asked:
                state.module, state.reason = find()
                state.asked = True
                if OLD in state.reason:
                    warnings.warn(state.reason, stacklevel=2)
    return state.module


def why_missing() -> str:
    """Why cuDNN cannot be used; empty if it can."""
    return "" if frontend() is not None else state.reason


def load_cuda_runtime(major: int) -> None:
    """Loads the CUDA runtime of NVIDIA's packages for the frontend, which looks for one by name.

    Nothing happens if there is none: a program may have set LD_LIBRARY_PATH, or the variable.

    Args:
        major: of CUDA's version.
    """
    if os.environ.get(RUNTIME_VARIABLE):
        return
    try:
        folders = list(importlib.import_module("nvidia").__path__)
    except ModuleNotFoundError:
        return
    for folder in folders:
        for part in (f"cu{major}", "cuda_runtime"):
            path = os.path.join(folder, part, "lib", f"libcudart.so.{major}")
            if os.path.exists(path):
                ctypes.CDLL(path)
                os.environ[RUNTIME_VARIABLE] = path
                return
