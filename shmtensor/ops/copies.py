"""Views as copies: PyTorch's `..._copy` functions, which functional transformations want."""

from __future__ import annotations

from typing import Any

from .table import composite

VIEWS = (
    "diagonal", "expand", "narrow", "permute", "select", "squeeze",
    "t", "transpose", "unfold", "unsqueeze", "view",
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


@composite
def unsafe_chunk(ops, input, chunks, dim=0):
    """`chunk`: nothing is unsafe here."""
    return ops.chunk(input, chunks, dim)


@composite
def unsafe_split(ops, tensor, split_size_or_sections, dim=0):
    """`split`: nothing is unsafe here."""
    return ops.split(tensor, split_size_or_sections, dim)


unsafe_split.alias("unsafe_split_with_sizes")
