"""What runs around a Module's forward and backward when somebody asked for it.

A module without hooks never comes here: `Module.__call__` looks whether any table has an entry.
"""

from __future__ import annotations

import itertools
import warnings
import weakref
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
        pre_hooks = [*_backward_pre.values(), *module._backward_pre_hooks.values()]
        hooks = [*_backward.values(), *module._backward_hooks.values()]
        if hooks or pre_hooks:
            backward = BackwardHook(module, hooks, pre_hooks)
            args = backward.setup_input_hook(args)
        output = module.forward(*args, **kwargs)
        for number, hook in [*_forward.items(), *module._forward_hooks.items()]:
            done.add(number)
            output = _after(module, number, hook, args, kwargs, output)
        return output if backward is None else backward.setup_output_hook(output)
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
