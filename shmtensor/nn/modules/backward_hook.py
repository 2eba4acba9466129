"""What shows a module's backward hooks the gradients of its outputs and inputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from ...autograd import Function, is_grad_enabled
from ...functions import zeros
from ...tensor import Tensor

__all__ = ["BackwardHook"]

Hook = Callable[..., Any]


class _Passage(Function):
    """The identity on several tensors at once; backward shows all their gradients to `seen`."""

    @staticmethod
    def forward(ctx: Any, seen: Any, *tensors: Tensor) -> Any:
        ctx.seen = seen
        ctx.set_materialize_grads(False)
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None, *ctx.seen(gradients))


class BackwardHook:
    """The backward hooks of one call: gradients pass `_outgoing`, then `_incoming`.

    Attributes:
        module: what the hooks are told.
        hooks, pre_hooks: those that there were in forward.
        grad_output: the gradients of the outputs, between the two; None: the gradient on its way
            did not come through the outputs, as in a gradient of a gradient.
        places: of the inputs that require grad.
    """

    def __init__(self, module: Any, hooks: list[Hook], pre_hooks: list[Hook]) -> None:
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_output: tuple[Any, ...] | None = None
        self.inputs: list[tuple[Any, Any] | None] = []  # (shape, dtype) of those that are tensors
        self.places: list[int] = []

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.inputs = [(x.shape, x.dtype) if isinstance(x, Tensor) else None for x in args]
        self.places = _tracked(args)
        if not self.places:
            return args
        watched = _Passage.apply(self._incoming, *(args[i] for i in self.places))
        return tuple(_replaced(args, self.places, watched))

    def setup_output_hook(self, output: Any) -> Any:
        if not isinstance(output, (Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of "
                f"Tensors but received {type(output)}",
                stacklevel=4,
            )
            return output
        outputs = output if isinstance(output, tuple) else (output,)
        places = _tracked(outputs)
        if not places:
            return output

        def outgoing(gradients: tuple[Any, ...]) -> tuple[Any, ...]:
            changed = self._outgoing(tuple(_replaced([None] * len(outputs), places, gradients)))
            return tuple(changed[i] for i in places)

        watched = _Passage.apply(outgoing, *(outputs[i] for i in places))
        if not isinstance(output, tuple):
            return watched[0]
        changed = _replaced(outputs, places, watched)
        return type(output)(*changed) if hasattr(output, "_fields") else tuple(changed)

    def _outgoing(self, grad_output: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.pre_hooks:
            changed = hook(self.module, grad_output)
            if changed is not None:
                grad_output = _as_many("register_full_backward_pre_hook", changed, grad_output)
        self.grad_output = grad_output
        if not self.places:  # no gradient will come out of the other end
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
            changed = hook(self.module, (None,) * len(self.inputs), grad_output)
            is_none = isinstance(changed, tuple) and all(g is None for g in changed)
            if changed is not None and not is_none:
                raise RuntimeError(
                    "register_full_backward_hook: Backward hook for Modules where no input "
                    "requires gradient should always return None or None for all gradients: "
                    f"{changed!r}"
                )
        self.grad_output = None

    def _incoming(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        grad_output, self.grad_output = self.grad_output, None
        if grad_output is None:
            return gradients
        grad_input = tuple(
            zeros(g[0], dtype=g[1]) if isinstance(g, tuple) else g
            for g in _replaced(self.inputs, self.places, gradients)
        )
        for hook in self.hooks:
            changed = hook(self.module, grad_input, grad_output)
            if changed is not None:
                grad_input = _as_many("register_full_backward_hook", changed, grad_input)
        return tuple(grad_input[i] for i in self.places)


def _tracked(values: Iterable[Any]) -> list[int]:
    """Where among the values the tensors are that get a gradient."""
    if not is_grad_enabled():
        return []
    return [i for i, x in enumerate(values) if isinstance(x, Tensor) and x.requires_grad]


def _replaced(values: Iterable[Any], places: list[int], others: Iterable[Any]) -> list[Any]:
    """The values, with others in those places; None leaves what is there."""
    changed = list(values)
    for i, other in zip(places, others, strict=True):
        changed[i] = changed[i] if other is None else other
    return changed


def _as_many(where: str, changed: Any, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a hook returned, a gradient for each that it got."""
    changed = changed if isinstance(changed, tuple) else (changed,)
    if len(changed) != len(gradients):
        raise RuntimeError(
            f"{where}: the hook returned an invalid number of gradients: {len(changed)}, expected "
            f"{len(gradients)}"
        )
    return changed
