"""Copies of views: PyTorch's `..._copy` functions, for functional transformations."""

from __future__ import annotations

from typing import Any

from ..table.op_table import composite

# name: (the arguments after the tensor, an example of them, the tensor, the result)
VIEWS = {
    "diagonal": ("offset, dim1, dim2", "", "[[1, 2], [3, 4]]", "[1, 4]"),
    "expand": ("size", ", (2, 2)", "[1, 2]", "[[1, 2],\n            [1, 2]]"),
    "narrow": ("dim, start, length", ", 0, 1, 2", "[1, 2, 3, 4]", "[2, 3]"),
    "permute": ("dims", ", (1, 0)", "[[1, 2], [3, 4]]", "[[1, 3],\n            [2, 4]]"),
    "select": ("dim, index", ", 1, 0", "[[1, 2], [3, 4]]", "[1, 3]"),
    "squeeze": ("dim", ", 0", "[[1, 2]]", "[1, 2]"),
    "t": ("none", "", "[[1, 2], [3, 4]]", "[[1, 3],\n            [2, 4]]"),
    "transpose": ("dim0, dim1", ", 0, 1", "[[1, 2], [3, 4]]", "[[1, 3],\n            [2, 4]]"),
    "unfold": ("dimension, size, step", ", 0, 2, 1", "[1, 2, 3]", "[[1, 2],\n            [2, 3]]"),
    "unsqueeze": ("dim", ", 0", "[1, 2]", "[[1, 2]]"),
    "view": ("size or dtype", ", (2, 2)", "[1, 2, 3, 4]", "[[1, 2],\n            [3, 4]]"),
    "view_as_complex": ("none", "", "[[1., 2.], [3., 4.]]", "[1.+2.j, 3.+4.j]"),
    "view_as_real": ("none", "", "[1 + 2j]", "[[1., 2.]]"),
}
# name: (the view, then as above)
LIST_VIEWS = {
    "split_with_sizes": ("split", "sizes, dim", ", [1, 2]", "[1, 2, 3]", "[1]), tensor([2, 3]"),
    "unbind": ("unbind", "dim", "", "[[1, 2], [3, 4]]", "[1, 2]), tensor([3, 4]"),
}


def text_of(several: bool, name: str, arguments: str, example: str, data: str, result: str) -> str:
    """The docstring of `<name>_copy`."""
    kind, copies = ("tuple of Tensor", "Copies of the") if several else ("Tensor", "A copy of the")
    output = f"(tensor({result}))" if several else f"tensor({result})"
    return f"""{copies} view{"s" if several else ""} that `{name}` returns.

    Parameters
    ----------
    input : Tensor
        The tensor.
    *args, **kwargs : Any
        The arguments of `{name}`: {arguments}.

    Returns
    -------
    {kind}
        Memory of {"their" if several else "its"} own; writes to it do not change `input`.

    See Also
    --------
    {name}

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.{name}_copy(st.tensor({data}){example})
    {output}
    """


def declare_copy(name: str, *texts: str) -> Any:
    """Declares `<name>_copy`; texts: for its docstring."""

    def compute(ops, input, *args, **kwargs):
        if name == "narrow" and input.ndim:
            dim = args[0] if args else kwargs.get("dim", 0)
            if not -input.ndim <= dim < input.ndim:  # an IndexError in other functions
                raise RuntimeError(
                    f"narrow_copy: dim is out of range: {dim}, shape {tuple(input.shape)}"
                )
        return ops.clone(getattr(ops, name)(input, *args, **kwargs))

    compute.__doc__ = text_of(False, name, *texts)
    return composite(compute, name=f"{name}_copy", method=name == "narrow")


def declare_list_copy(name: str, view: str, *texts: str) -> Any:
    """Declares `<name>_copy` of a view with several results; texts: for its docstring."""

    def compute(ops, input, *args, **kwargs):
        return tuple(ops.clone(x) for x in getattr(ops, view)(input, *args, **kwargs))

    compute.__doc__ = text_of(True, name, *texts)
    return composite(compute, name=f"{name}_copy", method=False)


for _name, _texts in VIEWS.items():
    declare_copy(_name, *_texts)
for _name, (_view, *_texts_of_list) in LIST_VIEWS.items():
    declare_list_copy(_name, _view, *_texts_of_list)


@composite(method=False)
def alias_copy(ops, input):
    """A copy of a tensor.

    Parameters
    ----------
    input : Tensor
        The tensor.

    Returns
    -------
    Tensor
        Memory of its own.

    See Also
    --------
    clone

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> x = st.tensor([1, 2])
    >>> y = st.alias_copy(x)
    >>> x[0] = 9
    >>> y
    tensor([1, 2])
    """
    return ops.clone(input)


@composite(method=False)
def detach_copy(ops, input):
    """A copy of a tensor without its history.

    Parameters
    ----------
    input : Tensor
        The tensor.

    Returns
    -------
    Tensor
        Memory of its own; it does not require grad.

    See Also
    --------
    detach, clone

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.detach_copy(st.ones(2, requires_grad=True))
    tensor([1., 1.])
    """
    return ops.clone(input.detach())


@composite(method=False)
def slice_copy(ops, input, dim=0, start=None, end=None, step=1):
    """A copy of a range of a dimension.

    Parameters
    ----------
    input : Tensor
        With at least one dimension.
    dim : int, optional
        The dimension.
    start, end, step : int, optional
        The range, as in `input[start:end:step]`.

    Returns
    -------
    Tensor
        The range, in memory of its own.

    Raises
    ------
    RuntimeError
        `step` is not positive.
    IndexError
        There is no such dimension.

    See Also
    --------
    narrow

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.slice_copy(st.arange(6), 0, 1, 5, 2)
    tensor([1, 3])
    """
    if step <= 0:
        raise RuntimeError(f"slice_copy: step must be positive: {step}")
    if not -input.ndim <= dim < input.ndim:
        raise IndexError(f"slice_copy: no such dimension: {dim} of {tuple(input.shape)}")
    index = (slice(None),) * (dim % input.ndim) + (slice(start, end, step),)
    return ops.clone(input[index])


@composite(method=False)
def split_copy(ops, input, split_size, dim=0):
    """Copies of consecutive parts of a tensor along a dimension.

    Parameters
    ----------
    input : Tensor
        With at least one dimension.
    split_size : int or sequence of int
        The size of every part but the last, or the size of each.
    dim : int, optional
        The dimension that is split.

    Returns
    -------
    tuple of Tensor
        The parts, in memory of their own.

    See Also
    --------
    split

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.split_copy(st.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return tuple(ops.clone(part) for part in ops.split(input, split_size, dim))


@composite
def unsafe_chunk(ops, input, chunks, dim=0):
    """The same as `chunk`: its results may be written in place here, too.

    Parameters
    ----------
    input : Tensor
        With at least one dimension.
    chunks : int
        How many parts at most.
    dim : int, optional
        The dimension that is split.

    Returns
    -------
    tuple of Tensor
        The parts, views of the tensor.

    See Also
    --------
    chunk

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.unsafe_chunk(st.arange(4), 2)
    (tensor([0, 1]), tensor([2, 3]))
    """
    return ops.chunk(input, chunks, dim)


@composite
def unsafe_split(ops, tensor, split_size_or_sections, dim=0):
    """The same as `split`: its results may be written in place here, too.

    Parameters
    ----------
    tensor : Tensor
        With at least one dimension.
    split_size_or_sections : int or sequence of int
        The size of every part but the last, or the size of each.
    dim : int, optional
        The dimension that is split.

    Returns
    -------
    tuple of Tensor
        The parts, views of the tensor.

    See Also
    --------
    split

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.unsafe_split(st.arange(4), 3)
    (tensor([0, 1, 2]), tensor([3]))
    """
    return ops.split(tensor, split_size_or_sections, dim)


unsafe_split.alias("unsafe_split_with_sizes")
