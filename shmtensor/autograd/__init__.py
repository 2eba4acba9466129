"""Autograd: the graph, backward, Function, grad modes, hooks, forward mode, gradient checks."""

from typing import TYPE_CHECKING

from ..absent_names import missing as _missing
from . import forward_ad as forward_ad
from . import functional as functional
from . import graph as graph
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .dispatch.op_function import table
from .engine.backward import backward
from .engine.grad import grad
from .engine.saved_tensors import save_on_cpu, saved_tensors_hooks
from .engine.wrap_array import fill, wrap
from .function import Function, once_differentiable
from .grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from .gradcheck import GradcheckError, gradcheck, gradgradcheck

if TYPE_CHECKING:
    from .variable import Variable as Variable

__all__ = [
    "Function",
    "GradcheckError",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "fill",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_multithreading_enabled",
    "no_grad",
    "once_differentiable",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "table",
    "wrap",
]


if TYPE_CHECKING:
    from . import profiler as profiler
    from . import variable as variable
    from .variable import Variable as Variable
else:

    def __getattr__(name: str) -> object:
        if name not in ("profiler", "variable", "Variable"):  # imported on first access
            raise _missing(__name__, name)
        from importlib import import_module

        module = import_module(f"{__name__}.{name.lower()}")
        return module if name.islower() else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), "Variable", "profiler", "variable"})
