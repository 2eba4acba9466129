"""Copies of views: PyTorch's `..._copy` functions, for functional transformations."""

from __future__ import annotations

from typing import Any

from ..table.op_table import composite

VIEWS = (
    "diagonal", "expand", "narrow", "permute", "select", "squeeze",
    "t", "transpose", "unfold", "unsqueeze", "view", "view_as_complex", "view_as_real",
)  # fmt: skip
LIST_VIEWS = {"split_with_sizes": "split", "unbind": "unbind"}


def declare_copy(name: str) -> Any:
    """Declares `<name>_copy`."""

    def compute(ops, input, *args, **kwargs):
        if name == "narrow" and input.ndim:
            dim = args[0] if args else kwargs.get("dim", 0)
            if not -input.ndim <= dim < input.ndim:  # an IndexError in other functions
                raise RuntimeError(
                    f"narrow_copy: dim is out of range: {dim}, shape {tuple(input.shape)}"
                )
        return ops.clone(getattr(ops, name)(input, *args, **kwargs))

    compute.__doc__ = f"A copy of `{name}`. Copies: one (the result)."
    return composite(compute, name=f"{name}_copy", method=name == "narrow")


def declare_list_copy(name: str, view: str) -> Any:
    """Declares `<name>_copy` of a view with several results."""

    def compute(ops, input, *args, **kwargs):
        return tuple(ops.clone(x) for x in getattr(ops, view)(input, *args, **kwargs))

    compute.__doc__ = f"A copy of `{name}`. Copies: one (the result)."
    return composite(compute, name=f"{name}_copy", method=False)


for _view in VIEWS:
    declare_copy(_view)
for _name, _view in LIST_VIEWS.items():
    declare_list_copy(_name, _view)


@composite(method=False)
def alias_copy(ops, input):
    """A copy of the tensor. Copies: one (the result)."""
    return ops.clone(input)


@composite(method=False)
def detach_copy(ops, input):
    """A copy of `detach`. Copies: one (the result)."""
    return ops.clone(input.detach())


@composite(method=False)
def slice_copy(ops, input, dim=0, start=None, end=None, step=1):
    """A copy of `input[start:end:step]` along a dimension. Copies: one (the result).

    Raises:
        RuntimeError: step is not positive.
        IndexError: there is no such dimension.
    """
    if step <= 0:
        raise RuntimeError(f"slice_copy: step must be positive: {step}")
    if not -input.ndim <= dim < input.ndim:
        raise IndexError(f"slice_copy: no such dimension: {dim} of {tuple(input.shape)}")
    index = (slice(None),) * (dim % input.ndim) + (slice(start, end, step),)
    return ops.clone(input[index])


@composite(method=False)
def split_copy(ops, input, split_size, dim=0):
    """A copy of `split`. Copies: one (the result)."""
    return tuple(ops.clone(part) for part in ops.split(input, split_size, dim))


@composite
def unsafe_chunk(ops, input, chunks, dim=0):
    """`chunk`, which is safe here."""
    return ops.chunk(input, chunks, dim)


@composite
def unsafe_split(ops, tensor, split_size_or_sections, dim=0):
    """`split`, which is safe here."""
    return ops.split(tensor, split_size_or_sections, dim)


unsafe_split.alias("unsafe_split_with_sizes")
