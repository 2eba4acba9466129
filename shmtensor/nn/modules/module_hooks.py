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

from .backward_hook import BackwardHook

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

    Args:
        hooks_dict: the table that has the hook under this handle's `id`.
        extra_dict: further tables with an entry of that id.
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
