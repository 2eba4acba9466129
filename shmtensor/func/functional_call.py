"""Modules as functions of their parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..autograd import table

__all__ = ["functional_call", "stack_module_state"]


def place_of(module: Any, name: str) -> tuple[Any, str]:
    """(the table of parameters or buffers, the key) that a dotted name means.

    Raises:
        KeyError: the module has no such parameter or buffer.
    """
    *path, last = name.split(".")
    owner = module
    for part in path:
        owner = owner._modules.get(part) if owner is not None else None
    if owner is None:
        raise KeyError(name)
    for kind in (owner._parameters, owner._buffers):
        if last in kind:
            return kind, last
    raise KeyError(name)


def ties(module: Any) -> dict[int, list[str]]:
    """All names of each tensor of the module."""
    found: dict[int, list[str]] = {}
    for prefix, owner in module.named_modules(remove_duplicate=False):
        for kind in (owner._parameters, owner._buffers):
            for key, value in kind.items():
                if value is not None:
                    found.setdefault(id(value), []).append(f"{prefix}.{key}" if prefix else key)
    return found


@contextmanager
def holding(module: Any, given: dict[str, Any], tie_weights: bool, strict: bool) -> Iterator[None]:
    """In this block the module has those tensors."""
    names = ties(module)
    wanted = dict(given)
    unknown = []
    for name, value in given.items():
        try:
            kind, key = place_of(module, name)
        except KeyError:
            unknown.append(name)
            wanted.pop(name)
            continue
        if tie_weights:
            for other in names.get(id(kind[key]), ()):
                if wanted.setdefault(other, value) is not value:
                    raise ValueError(
                        f"functional_call got multiple values for keys {sorted((name, other))}, "
                        "which are tied. Consider using tie_weights=False"
                    )
    if strict:
        missing = [all_names[0] for all_names in names.values() if not set(all_names) & set(wanted)]
        if unknown or missing:
            raise RuntimeError(
                f"functional_call: strict: unexpected names {unknown}, missing names {missing}"
            )
    before = []
    try:
        for name, value in wanted.items():
            kind, key = place_of(module, name)
            before.append((kind, key, kind[key]))
            kind[key] = value
        yield
    finally:
        for kind, key, value in reversed(before):
            kind[key] = value


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """What a module computes with other parameters and buffers than its own. Copies: none.

    Args:
        parameter_and_buffer_dicts: tensors by dotted names, a dictionary or several; what they do
            not name stays the module's own.
        args, kwargs: for the module; one argument need not be in a tuple.
        tie_weights: what the module has under several names is replaced under all of them.
        strict: every name must be the module's, and none of the module's be missing.

    Raises:
        RuntimeError: under strict, other names.
        ValueError: a name is in two dictionaries, or names of one tensor have two values.
    """
    given: dict[str, Any] = {}
    dicts = parameter_and_buffer_dicts
    for part in dicts if isinstance(dicts, (list, tuple)) else (dicts,):
        twice = set(part) & set(given)
        if twice:
            raise ValueError(f"functional_call: {sorted(twice)} appeared in multiple dictionaries")
        given.update(part)
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    with holding(module, given, tie_weights, strict):
        return module(*positional, **(kwargs or {}))


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(parameters, buffers) of models of one class, each stacked along a new first dimension, for
    `vmap` over `functional_call`. Copies: one.

    Raises:
        RuntimeError: no models, of several classes, or in different modes.
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({type(m) for m in models}) > 1 or len({m.training for m in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to be of the same class and in the same mode: "
            f"{sorted({type(m).__name__ for m in models})}"
        )
    parameters = {
        name: stacked([dict(m.named_parameters())[name] for m in models])
        for name, _ in models[0].named_parameters()
    }
    buffers = {
        name: stacked([dict(m.named_buffers())[name] for m in models])
        for name, _ in models[0].named_buffers()
    }
    return parameters, buffers


def stacked(tensors: list[Any]) -> Any:
    """A new leaf of them all."""
    made = table.stack([t.detach() for t in tensors])
    return made.requires_grad_() if tensors[0].requires_grad else made
