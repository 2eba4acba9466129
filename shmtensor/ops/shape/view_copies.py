"""Views as copies: PyTorch's `..._copy` functions, which functional transformations want."""

from __future__ import annotations

from typing import Any

from ..table.op_definition import composite

VIEWS = (
    "diagonal", "expand", "narrow", "permute", "select", "squeeze",
    "t", "transpose", "unfold", "unsqueeze", "view", "view_as_complex", "view_as_real",
)  # fmt: skip
PARTS = {"split_with_sizes": "split", "unbind": "unbind"}


def copied(name: str) -> Any:
    """`<name>_copy`."""

    def compute(ops, input, *arguments, **named):
        if name == "narrow" and input.ndim:
            dim = arguments[0] if arguments else named.get("dim", 0)
            if not -input.ndim <= dim < input.ndim:  # an IndexError everywhere but here
                raise RuntimeError(
                    f"narrow_copy: dim is out of range: {dim}, shape {tuple(input.shape)}"
                )
        return ops.clone(getattr(ops, name)(input, *arguments, **named))

    compute.__doc__ = f"`{name}` in memory of its own. Copies: one (the result)."
    return composite(compute, name=f"{name}_copy", method=name == "narrow")


def parted(name: str, view: str) -> Any:
    """`<name>_copy` of what gives several."""

    def compute(ops, input, *arguments, **named):
        return tuple(ops.clone(x) for x in getattr(ops, view)(input, *arguments, **named))

    compute.__doc__ = f"`{name}` in memory of its own. Copies: one (the result)."
    return composite(compute, name=f"{name}_copy", method=False)


for _view in VIEWS:
    copied(_view)
for _name, _view in PARTS.items():
    parted(_name, _view)


@composite(method=False)
def alias_copy(ops, input):
    """The tensor in memory of its own. Copies: one (the result)."""
    return ops.clone(input)


@composite(method=False)
def detach_copy(ops, input):
    """`detach` in memory of its own. Copies: one (the result)."""
    return ops.clone(input.detach())


@composite(method=False)
def slice_copy(ops, input, dim=0, start=None, end=None, step=1):
    """`input[start:end:step]` along a dimension, in memory of its own. Copies: one (the result).

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
    """`split` in memory of its own. Copies: one (the result)."""
    return tuple(ops.clone(part) for part in ops.split(input, split_size, dim))


@composite
def unsafe_chunk(ops, input, chunks, dim=0):
    """`chunk`: nothing is unsafe here."""
    return ops.chunk(input, chunks, dim)


@composite
def unsafe_split(ops, tensor, split_size_or_sections, dim=0):
    """`split`: nothing is unsafe here."""
    return ops.split(tensor, split_size_or_sections, dim)


unsafe_split.alias("unsafe_split_with_sizes")
