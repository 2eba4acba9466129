"""Modules as functions of their parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..autograd import table


def find_entry(module: Any, name: str) -> tuple[Any, str]:
    """(the dictionary of parameters or buffers, the key) of a dotted name.

    Raises:
        KeyError: the module has no such parameter or buffer.
    """
    *path, last = name.split(".")
    owner = module
    for name_part in path:
        owner = owner._modules.get(name_part) if owner is not None else None
    if owner is None:
        raise KeyError(name)
    for entries in (owner._parameters, owner._buffers):
        if last in entries:
            return entries, last
    raise KeyError(name)


def names_by_tensor(module: Any) -> dict[int, list[str]]:
    """All names of each tensor of the module, by the tensor's id."""
    names: dict[int, list[str]] = {}
    for prefix, owner in module.named_modules(remove_duplicate=False):
        for entries in (owner._parameters, owner._buffers):
            for key, value in entries.items():
                if value is not None:
                    names.setdefault(id(value), []).append(f"{prefix}.{key}" if prefix else key)
    return names


@contextmanager
def reparametrize_module(
    module: Any, tensors: dict[str, Any], tie_weights: bool, strict: bool
) -> Iterator[None]:
    """In this block the module has the given tensors."""
    names = names_by_tensor(module)
    replacements = dict(tensors)
    unknown = []
    for name, value in tensors.items():
        try:
            entries, key = find_entry(module, name)
        except KeyError:
            unknown.append(name)
            replacements.pop(name)
            continue
        if tie_weights:
            for other in names.get(id(entries[key]), ()):
                if replacements.setdefault(other, value) is not value:
                    raise ValueError(
                        f"functional_call got multiple values for keys {sorted((name, other))}, "
                        "which are tied. Consider using tie_weights=False"
                    )
    if strict:
        missing = [
            all_names[0] for all_names in names.values() if not set(all_names) & set(replacements)
        ]
        if unknown or missing:
            raise RuntimeError(
                f"functional_call: strict: unexpected names {unknown}, missing names {missing}"
            )
    former = []
    try:
        for name, value in replacements.items():
            entries, key = find_entry(module, name)
            former.append((entries, key, entries[key]))
            entries[key] = value
        yield
    finally:
        for entries, key, value in reversed(former):
            entries[key] = value


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls a module with other parameters and buffers.

    Parameters
    ----------
    module : Module
        What is called; it stays as it is.
    parameter_and_buffer_dicts : dict or sequence of dict
        Tensors by dotted names; the module's own tensors are used for other names.
    args : tuple or any, optional
        For the module; a single argument need not be in a tuple.
    kwargs : dict, optional
        For the module.
    tie_weights : bool, optional
        Whether a tensor with several names is replaced under all of them.
    strict : bool, optional
        Whether the names must be exactly those of the module.

    Returns
    -------
    any
        What the module returns. Copies: none.

    Raises
    ------
    RuntimeError
        Under strict, unexpected or missing names.
    ValueError
        A name is in two dictionaries, or names of one tensor have two values.

    See Also
    --------
    stack_module_state

    Examples
    --------
    >>> model = nn.Linear(2, 1, bias=False)
    >>> st.func.functional_call(model, {"weight": st.tensor([[1., 10.]])}, st.tensor([2., 3.]))
    tensor([32.])
    """
    tensors: dict[str, Any] = {}
    dicts = parameter_and_buffer_dicts
    for dictionary in dicts if isinstance(dicts, (list, tuple)) else (dicts,):
        duplicates = set(dictionary) & set(tensors)
        if duplicates:
            raise ValueError(
                f"functional_call: {sorted(duplicates)} appeared in multiple dictionaries"
            )
        tensors.update(dictionary)
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    with reparametrize_module(module, tensors, tie_weights, strict):
        return module(*positional, **(kwargs or {}))


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and buffers of models of one class, each stacked along a new first dimension,
    for `vmap` over `functional_call`.

    Parameters
    ----------
    models : sequence of Module
        Of one class, in one mode.

    Returns
    -------
    (parameters, buffers) : dict, dict
        Tensors by dotted names. Copies: one.

    Raises
    ------
    RuntimeError
        No models, of several classes, or in different modes.

    See Also
    --------
    functional_call, vmap

    Examples
    --------
    >>> models = [nn.Linear(2, 1) for _ in range(3)]
    >>> parameters, buffers = st.func.stack_module_state(models)
    >>> {name: tuple(x.shape) for name, x in parameters.items()}
    {'weight': (3, 1, 2), 'bias': (3, 1)}
    >>> def run(parameters, x):
    ...     return st.func.functional_call(models[0], parameters, x)
    >>> st.func.vmap(run, in_dims=(0, None))(parameters, st.ones(4, 2)).shape
    Size([3, 4, 1])
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({type(m) for m in models}) > 1 or len({m.training for m in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to be of the same class and in the same mode: "
            f"{sorted({type(m).__name__ for m in models})}"
        )
    parameters = {
        name: construct_stacked_leaf([dict(m.named_parameters())[name] for m in models])
        for name, _ in models[0].named_parameters()
    }
    buffers = {
        name: construct_stacked_leaf([dict(m.named_buffers())[name] for m in models])
        for name, _ in models[0].named_buffers()
    }
    return parameters, buffers


def construct_stacked_leaf(tensors: list[Any]) -> Any:
    """A new leaf, stacked from the tensors."""
    leaf = table.stack([t.detach() for t in tensors])
    return leaf.requires_grad_() if tensors[0].requires_grad else leaf
