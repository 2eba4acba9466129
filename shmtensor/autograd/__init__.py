"""Autograd: the graph, backward, Function, grad modes, gradient checks."""

from .backward import backward, grad
from .dispatch import table
from .function import Function, once_differentiable
from .gradcheck import GradcheckError, gradcheck, gradgradcheck
from .mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .wrapping import fill, wrap

__all__ = [
    "Function",
    "GradcheckError",
    "backward",
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
    "set_grad_enabled",
    "table",
    "wrap",
]
