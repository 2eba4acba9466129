"""Calls a module's backward hooks with the gradients of its outputs and inputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from ...autograd import Function, is_grad_enabled
from ...functions import zeros
from ...tensor import Tensor

Hook = Callable[..., Any]


class _IdentityWithCallback(Function):
    """The identity on several tensors; backward passes all their gradients to `callback`."""

    @staticmethod
    def forward(ctx: Any, callback: Any, *tensors: Tensor) -> Any:
        ctx.callback = callback
        ctx.set_materialize_grads(False)
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None, *ctx.callback(gradients))


class BackwardHook:
    """The backward hooks of one call: gradients pass `_on_grad_output`, then `_on_grad_input`.

    Attributes:
        module: the hooks' first argument.
        hooks, pre_hooks: those registered at the time of forward.
        grad_output: the gradients of the outputs, kept from the first of these calls to the second;
            None: the current gradient did not pass the outputs, as in a gradient of a gradient.
        indices: the positions of the inputs that require grad.
    """

    def __init__(self, module: Any, hooks: list[Hook], pre_hooks: list[Hook]) -> None:
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_output: tuple[Any, ...] | None = None
        # (shape, dtype, device) of those that are tensors
        self.inputs: list[tuple[Any, Any, Any] | None] = []
        self.indices: list[int] = []

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.inputs = [
            (x.shape, x.dtype, x.device) if isinstance(x, Tensor) else None for x in args
        ]
        self.indices = _indices_with_grad(args)
        if not self.indices:
            return args
        tensors = _IdentityWithCallback.apply(self._on_grad_input, *(args[i] for i in self.indices))
        return tuple(_replace(args, self.indices, tensors))

    def setup_output_hook(self, output: Any) -> Any:
        if not isinstance(output, (Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of "
                f"Tensors but received {type(output)}",
                stacklevel=4,
            )
            return output
        outputs = output if isinstance(output, tuple) else (output,)
        indices = _indices_with_grad(outputs)
        if not indices:
            return output

        def on_grad_output(gradients: tuple[Any, ...]) -> tuple[Any, ...]:
            grad_output = tuple(_replace([None] * len(outputs), indices, gradients))
            grad_output = self._on_grad_output(grad_output)
            return tuple(grad_output[i] for i in indices)

        tensors = _IdentityWithCallback.apply(on_grad_output, *(outputs[i] for i in indices))
        if not isinstance(output, tuple):
            return tensors[0]
        values = _replace(outputs, indices, tensors)
        return type(output)(*values) if hasattr(output, "_fields") else tuple(values)

    def _on_grad_output(self, grad_output: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.pre_hooks:
            result = hook(self.module, grad_output)
            if result is not None:
                grad_output = _check_count("register_full_backward_pre_hook", result, grad_output)
        self.grad_output = grad_output
        if not self.indices:  # `_on_grad_input` will not run
            self._without_inputs(grad_output)
        return grad_output

    def _without_inputs(self, grad_output: tuple[Any, ...]) -> None:
        if self.hooks:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module "
                f"outputs since no inputs of {type(self.module).__name__} require gradients",
                stacklevel=2,
            )
        for hook in self.hooks:
            result = hook(self.module, (None,) * len(self.inputs), grad_output)
            is_none = isinstance(result, tuple) and all(g is None for g in result)
            if result is not None and not is_none:
                raise RuntimeError(
                    "register_full_backward_hook: Backward hook for Modules where no input "
                    "requires gradient should always return None or None for all gradients: "
                    f"{result!r}"
                )
        self.grad_output = None

    def _on_grad_input(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        grad_output, self.grad_output = self.grad_output, None
        if grad_output is None:
            return gradients
        grad_input = tuple(
            zeros(g[0], dtype=g[1], device=g[2]) if isinstance(g, tuple) else g
            for g in _replace(self.inputs, self.indices, gradients)
        )
        for hook in self.hooks:
            result = hook(self.module, grad_input, grad_output)
            if result is not None:
                grad_input = _check_count("register_full_backward_hook", result, grad_input)
        return tuple(grad_input[i] for i in self.indices)


def _indices_with_grad(values: Iterable[Any]) -> list[int]:
    """The indices of the tensors that get a gradient."""
    if not is_grad_enabled():
        return []
    return [i for i, x in enumerate(values) if isinstance(x, Tensor) and x.requires_grad]


def _replace(values: Iterable[Any], indices: list[int], replacements: Iterable[Any]) -> list[Any]:
    """The values with replacements at `indices`; None replaces nothing."""
    result = list(values)
    for i, replacement in zip(indices, replacements, strict=True):
        result[i] = result[i] if replacement is None else replacement
    return result


def _check_count(where: str, result: Any, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    """A hook's result as a tuple, one gradient for each that it got."""
    result = result if isinstance(result, tuple) else (result,)
    if len(result) != len(gradients):
        raise RuntimeError(
            f"{where}: the hook returned an invalid number of gradients: {len(result)}, expected "
            f"{len(gradients)}"
        )
    return result
