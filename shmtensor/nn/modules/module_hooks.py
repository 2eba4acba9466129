"""Hooks around a Module's forward and backward.

A module without hooks does not call this file: `Module.__call__` checks whether any table has an
entry.
"""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ...autograd import Function, is_grad_enabled
from ...functions import zeros
from ...tensor import Tensor

if TYPE_CHECKING:
    from .module import Module

__all__ = [
    "BackwardHook",
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


# A dictionary of hooks. Handles refer to it weakly, and a saved module names no class of ours.
if TYPE_CHECKING:
    Table = OrderedDict[int, Any]
else:
    Table = OrderedDict


_ids = itertools.count()
_global_forward_pre_hooks, _global_forward_hooks = Table(), Table()
_global_backward_pre_hooks, _global_backward_hooks = Table(), Table()
_global_forward_hooks_with_kwargs, _global_forward_hooks_always_called = Table(), Table()
# Ids of the hooks for all modules: `Module.__call__` only checks whether it is empty.
global_hook_ids = Table()
# Hooks that run when any module registers a parameter, buffer or submodule.
parameter_registration_hooks, buffer_registration_hooks = Table(), Table()
module_registration_hooks = Table()


class RemovableHandle:
    """Removes the hook that it was returned for: `remove()`, or the end of a `with` block.

    Parameters
    ----------
    hooks_dict : dict
        The table that has the hook under this handle's `id`.
    extra_dict : iterable of dict, optional
        Further tables with an entry of that id.

    Examples
    --------
    >>> layer = nn.Linear(2, 2)
    >>> handle = layer.register_forward_hook(lambda module, args, result: print("called"))
    >>> y = layer(st.ones(1, 2))
    called
    >>> handle.remove()
    >>> y = layer(st.ones(1, 2))
    """

    id: int
    hooks_dict_ref: weakref.ReferenceType[Table]
    extra_dict_ref: tuple[weakref.ReferenceType[Table], ...]

    def __init__(self, hooks_dict: Table, *, extra_dict: Iterable[Table] = ()) -> None:
        self.id = next(_ids)
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.extra_dict_ref = tuple(weakref.ref(table) for table in extra_dict)

    def remove(self) -> None:
        """Removes the hook; a second call does nothing."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            table = reference()
            if table is not None:
                table.pop(self.id, None)

    def __getstate__(self) -> tuple[Table | None, int, tuple[Table | None, ...]]:
        return self.hooks_dict_ref(), self.id, tuple(table() for table in self.extra_dict_ref)

    def __setstate__(self, state: tuple[Table | None, int, tuple[Table | None, ...]]) -> None:
        # A table that nothing else refers to dies at once; then the handle does nothing.
        hooks_dict, self.id, extra = state
        self.hooks_dict_ref, *extra_refs = (
            weakref.ref(Table() if table is None else table) for table in (hooks_dict, *extra)
        )
        self.extra_dict_ref = tuple(extra_refs)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def insert(
    hook: Any, table: Table, flags: Iterable[Table] = (), prepend: bool = False
) -> RemovableHandle:
    handle = RemovableHandle(table, extra_dict=flags)
    while handle.id in table:  # of a module that another process has saved
        handle.id = next(_ids)
    items = list(table.items()) if prepend else []
    if prepend:
        table.clear()
    table[handle.id] = hook
    table.update(items)
    for flag in flags:
        flag[handle.id] = True
    return handle


def run_registration_hooks(table: Table, module: Module, name: str, value: Any) -> Any:
    """The value to register as `name` of the module, which the hooks of the table may replace."""
    for hook in table.values():
        result = hook(module, name, value)
        value = value if result is None else result
    return value


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, args)` before the forward of every module; what it returns replaces args."""
    return insert(hook, _global_forward_pre_hooks, [global_hook_ids])


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """`hook(module, args, output)` after every forward; what it returns replaces the output.

    Args: as `Module.register_forward_hook`.
    """
    flags = [global_hook_ids]
    flags += [_global_forward_hooks_with_kwargs] if with_kwargs else []
    flags += [_global_forward_hooks_always_called] if always_call else []
    return insert(hook, _global_forward_hooks, flags)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, grad_output)` before the backward of every module."""
    return insert(hook, _global_backward_pre_hooks, [global_hook_ids])


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, grad_input, grad_output)` after the backward of every module."""
    return insert(hook, _global_backward_hooks, [global_hook_ids])


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The older name of `register_module_full_backward_hook`."""
    return register_module_full_backward_hook(hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, parameter)` when a module gets one; what it returns replaces it."""
    return insert(hook, parameter_registration_hooks)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, buffer)` when a module gets one; what it returns replaces it."""
    return insert(hook, buffer_registration_hooks)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, submodule)` when a module gets one; what it returns replaces it."""
    return insert(hook, module_registration_hooks)


class Hooked:
    """The hook tables of one module, and the methods that register hooks."""

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


def call_with_hooks(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Forward with all hooks around it."""
    called: set[int] = set()
    output: Any = None
    try:
        args, kwargs = _run_forward_pre_hooks(module, args, kwargs)
        backward = None
        pre_hooks = [*_global_backward_pre_hooks.values(), *module._backward_pre_hooks.values()]
        hooks = [*_global_backward_hooks.values(), *module._backward_hooks.values()]
        if hooks or pre_hooks:
            backward = BackwardHook(module, hooks, pre_hooks)
            args = backward.setup_input_hook(args)
        output = module.forward(*args, **kwargs)
        for hook_id, hook in [*_global_forward_hooks.items(), *module._forward_hooks.items()]:
            called.add(hook_id)
            output = _run_forward_hook(module, hook_id, hook, args, kwargs, output)
        return output if backward is None else backward.setup_output_hook(output)
    except BaseException:
        for hook_id, hook in [*_global_forward_hooks.items(), *module._forward_hooks.items()]:
            if hook_id in called or not (
                hook_id in _global_forward_hooks_always_called
                or hook_id in module._forward_hooks_always_called
            ):
                continue
            try:
                _run_forward_hook(module, hook_id, hook, args, kwargs, output)
            except Exception as error:  # forward's own error is raised below
                warnings.warn(
                    "module forward hook with always_call=True raised an exception that was "
                    f"silenced as another error was raised in forward: {error!r}",
                    UserWarning,
                    stacklevel=3,
                )
        raise


def _run_forward_pre_hooks(
    module: Module, args: Any, kwargs: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    for hook_id, hook in [*_global_forward_pre_hooks.items(), *module._forward_pre_hooks.items()]:
        if hook_id in module._forward_pre_hooks_with_kwargs:
            result = hook(module, args, kwargs)
            if result is None:
                continue
            if not (isinstance(result, tuple) and len(result) == 2):
                raise RuntimeError(
                    "register_forward_pre_hook: a hook with_kwargs must return None or "
                    f"(args, kwargs): got {result!r}"
                )
            args, kwargs = result
        else:
            result = hook(module, args)
            if result is not None:
                args = result if isinstance(result, tuple) else (result,)
    return args, kwargs


def _run_forward_hook(
    module: Module, hook_id: int, hook: Any, args: Any, kwargs: dict[str, Any], output: Any
) -> Any:
    if hook_id in _global_forward_hooks_with_kwargs or hook_id in module._forward_hooks_with_kwargs:
        result = hook(module, args, kwargs, output)
    else:
        result = hook(module, args, output)
    return output if result is None else result


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

    Parameters
    ----------
    module : Module
        The hooks' first argument.
    hooks, pre_hooks : list of callable
        Those registered at the time of forward.

    Attributes
    ----------
    grad_output : tuple or None
        The gradients of the outputs, kept from the first of these calls to the second; None: the
        current gradient did not pass the outputs, as in a gradient of a gradient.
    indices : list of int
        The positions of the inputs that require grad.

    Examples
    --------
    Modules make these themselves; `Module.register_full_backward_hook` adds a hook:

    >>> def show(module, grad_input, grad_output):
    ...     print(grad_output)
    >>> hook = st.utils.hooks.BackwardHook(None, [show], [])
    >>> (x,) = hook.setup_input_hook((st.ones(2, requires_grad=True),))
    >>> hook.setup_output_hook(x * 3).sum().backward()
    (tensor([1., 1.]),)
    """

    def __init__(
        self, module: Any, hooks: list[Callable[..., Any]], pre_hooks: list[Callable[..., Any]]
    ) -> None:
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
