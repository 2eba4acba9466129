"""Autograd: the graph, backward, Function, grad modes, hooks, forward mode, gradient checks."""

from typing import TYPE_CHECKING

from . import forward_ad as forward_ad
from . import functional as functional
from . import graph as graph
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .dispatch.op_function import table
from .engine.backward import backward, grad
from .engine.saved_tensors import save_on_cpu, saved_tensors_hooks
from .engine.wrap_array import fill, wrap
from .function import Function, once_differentiable
from .grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from .gradcheck import GradcheckError, gradcheck, gradgradcheck

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
else:

    def __getattr__(name: str) -> object:
        if name != "profiler":  # imported on first access
            raise AttributeError(f"module 'shmtensor.autograd' has no attribute {name!r}")
        from importlib import import_module

        return import_module(f"{__name__}.profiler")
