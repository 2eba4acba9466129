"""What runs around a Module's forward and backward when somebody asked for it.

A module without hooks never comes here: `Module.__call__` looks whether any table has an entry.
"""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ...autograd import Function
from ...functions import zeros
from ...tensor import Tensor

if TYPE_CHECKING:
    from .module import Module

__all__ = [
    "Hooked",
    "RemovableHandle",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]


class Table(dict[int, Any]):
    """A dictionary of hooks (a class of its own so that a handle may hold it weakly)."""


_numbers = itertools.count()
_forward_pre, _forward, _backward_pre, _backward = Table(), Table(), Table(), Table()
_forward_with_kwargs, _forward_always_called = Table(), Table()
# Numbers of the hooks for all modules: its truth is all that `Module.__call__` looks at.
everywhere = Table()
# Hooks for what every module registers.
on_parameter, on_buffer, on_module = Table(), Table(), Table()


class RemovableHandle:
    """Removes the hook that it was returned for: `remove()`, or the end of a `with` block.

    Args:
        hooks_dict: the table that has the hook under this handle's `id`.
        extra_dict: further tables with an entry of that id.
    """

    def __init__(self, hooks_dict: Table, *, extra_dict: Iterable[Table] = ()) -> None:
        self.id = next(_numbers)
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.extra_dict_ref = tuple(weakref.ref(table) for table in extra_dict)

    def remove(self) -> None:
        """Takes the hook away; a second call does nothing."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            table = reference()
            if table is not None:
                table.pop(self.id, None)

    def __getstate__(self) -> tuple[Table | None, int, tuple[Table | None, ...]]:
        return self.hooks_dict_ref(), self.id, tuple(table() for table in self.extra_dict_ref)

    def __setstate__(self, state: tuple[Table | None, int, tuple[Table | None, ...]]) -> None:
        # A table that nothing else holds is gone at once, as is the handle's purpose.
        hooks_dict, self.id, extra = state
        self.hooks_dict_ref, *others = (
            weakref.ref(Table() if table is None else table) for table in (hooks_dict, *extra)
        )
        self.extra_dict_ref = tuple(others)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def insert(
    hook: Any, table: Table, flags: Iterable[Table] = (), prepend: bool = False
) -> RemovableHandle:
    handle = RemovableHandle(table, extra_dict=flags)
    others = list(table.items()) if prepend else []
    if prepend:
        table.clear()
    table[handle.id] = hook
    table.update(others)
    for flag in flags:
        flag[handle.id] = True
    return handle


def registered(table: Table, module: Module, name: str, value: Any) -> Any:
    """What becomes `name` of the module after the hooks of the table saw, or replaced, it."""
    for hook in table.values():
        changed = hook(module, name, value)
        value = value if changed is None else changed
    return value


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, args)` before the forward of every module; what it returns replaces args."""
    return insert(hook, _forward_pre, [everywhere])


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """`hook(module, args, output)` after every forward; what it returns replaces the output.

    Args: as `Module.register_forward_hook`.
    """
    flags = [everywhere]
    flags += [_forward_with_kwargs] if with_kwargs else []
    flags += [_forward_always_called] if always_call else []
    return insert(hook, _forward, flags)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, grad_output)` before the backward of every module."""
    return insert(hook, _backward_pre, [everywhere])


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, grad_input, grad_output)` after the backward of every module."""
    return insert(hook, _backward, [everywhere])


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The older name of `register_module_full_backward_hook`."""
    return register_module_full_backward_hook(hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, parameter)` when a module gets one; what it returns replaces it."""
    return insert(hook, on_parameter)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, buffer)` when a module gets one; what it returns replaces it."""
    return insert(hook, on_buffer)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, submodule)` when a module gets one; what it returns replaces it."""
    return insert(hook, on_module)


class Hooked:
    """The tables of one module and the methods that fill them."""

    _forward_pre_hooks: Table
    _forward_pre_hooks_with_kwargs: Table
    _forward_hooks: Table
    _forward_hooks_with_kwargs: Table
    _forward_hooks_always_called: Table
    _backward_pre_hooks: Table
    _backward_hooks: Table

    TABLES = (
        "_forward_pre_hooks",
        "_forward_pre_hooks_with_kwargs",
        "_forward_hooks",
        "_forward_hooks_with_kwargs",
        "_forward_hooks_always_called",
        "_backward_pre_hooks",
        "_backward_hooks",
        "_state_dict_hooks",
        "_state_dict_pre_hooks",
        "_load_state_dict_pre_hooks",
        "_load_state_dict_post_hooks",
    )

    def _make_tables(self) -> None:
        for name in Hooked.TABLES:
            self.__dict__.setdefault(name, Table())

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """`hook(module, args)` or, with_kwargs, `hook(module, args, kwargs)` before forward.

        What it returns replaces args (or the pair of both).
        """
        flags = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return insert(hook, self._forward_pre_hooks, flags, prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """`hook(module, args, output)`, or with kwargs before output, after forward.

        What it returns replaces the output. `always_call`: also when forward raises.
        """
        flags = [self._forward_hooks_with_kwargs] if with_kwargs else []
        flags += [self._forward_hooks_always_called] if always_call else []
        return insert(hook, self._forward_hooks, flags, prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(module, grad_output)` before the module's backward; may return a replacement."""
        return insert(hook, self._backward_pre_hooks, prepend=prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` after backward; may replace grad_input."""
        return insert(hook, self._backward_hooks, prepend=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older name of `register_full_backward_hook`."""
        return self.register_full_backward_hook(hook)


def call(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Forward with all hooks around it."""
    done: set[int] = set()
    output: Any = None
    try:
        args, kwargs = _before(module, args, kwargs)
        backward = None
        if _backward or _backward_pre or module._backward_hooks or module._backward_pre_hooks:
            backward = _Backward(module)
            args = backward.watch_inputs(args)
        output = module.forward(*args, **kwargs)
        for number, hook in [*_forward.items(), *module._forward_hooks.items()]:
            done.add(number)
            output = _after(module, number, hook, args, kwargs, output)
        return output if backward is None else backward.watch_outputs(output)
    except BaseException:
        for number, hook in [*_forward.items(), *module._forward_hooks.items()]:
            if number in done or not (
                number in _forward_always_called or number in module._forward_hooks_always_called
            ):
                continue
            try:
                _after(module, number, hook, args, kwargs, output)
            except Exception as error:  # the one on its way is the one to hear of
                warnings.warn(
                    "module forward hook with always_call=True raised an exception that was "
                    f"silenced as another error was raised in forward: {error!r}",
                    UserWarning,
                    stacklevel=3,
                )
        raise


def _before(module: Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    for number, hook in [*_forward_pre.items(), *module._forward_pre_hooks.items()]:
        if number in module._forward_pre_hooks_with_kwargs:
            changed = hook(module, args, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(
                    "register_forward_pre_hook: a hook with_kwargs must return None or "
                    f"(args, kwargs): got {changed!r}"
                )
            args, kwargs = changed
        else:
            changed = hook(module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
    return args, kwargs


def _after(
    module: Module, number: int, hook: Any, args: Any, kwargs: dict[str, Any], output: Any
) -> Any:
    if number in _forward_with_kwargs or number in module._forward_hooks_with_kwargs:
        changed = hook(module, args, kwargs, output)
    else:
        changed = hook(module, args, output)
    return output if changed is None else changed


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


class _Backward:
    """One call of a module with backward hooks: gradients pass `_outgoing`, then `_incoming`.

    Attributes:
        grad_output: the gradients of the outputs, between the two; None: the gradient on its way
            did not come through the outputs, as in a gradient of a gradient.
        places: of the inputs that require grad.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.grad_output: tuple[Any, ...] | None = None
        self.inputs: list[tuple[Any, Any] | None] = []  # (shape, dtype) of those that are tensors
        self.places: list[int] = []

    def watch_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.inputs = [(x.shape, x.dtype) if isinstance(x, Tensor) else None for x in args]
        self.places = _tracked(args)
        if not self.places:
            return args
        watched = _Passage.apply(self._incoming, *(args[i] for i in self.places))
        return tuple(_replaced(args, self.places, watched))

    def watch_outputs(self, output: Any) -> Any:
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
        for hook in [*_backward_pre.values(), *self.module._backward_pre_hooks.values()]:
            changed = hook(self.module, grad_output)
            if changed is not None:
                grad_output = _as_many("register_full_backward_pre_hook", changed, grad_output)
        self.grad_output = grad_output
        if not self.places:  # no gradient will come out of the other end
            self._without_inputs(grad_output)
        return grad_output

    def _without_inputs(self, grad_output: tuple[Any, ...]) -> None:
        hooks = [*_backward.values(), *self.module._backward_hooks.values()]
        if hooks:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module "
                f"outputs since no inputs of {type(self.module).__name__} require gradients",
                stacklevel=2,
            )
        for hook in hooks:
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
        grad_input = tuple(_replaced(self.inputs, self.places, gradients))
        grad_input = tuple(
            zeros(g[0], dtype=g[1]) if isinstance(g, tuple) else g for g in grad_input
        )
        for hook in [*_backward.values(), *self.module._backward_hooks.values()]:
            changed = hook(self.module, grad_input, grad_output)
            if changed is not None:
                grad_input = _as_many("register_full_backward_hook", changed, grad_input)
        return tuple(grad_input[i] for i in self.places)


def _tracked(values: Iterable[Any]) -> list[int]:
    """Where among the values the tensors are that require grad."""
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
