"""Samples into a batch: every array of the batch is written straight into one shared block.

Collation visits the samples' structure twice. `flatten` collects the leaves and their shapes; one
block for all of them is allocated and filled, with one copy per sample; `unflatten` builds the
batch, with a tensor over a part of the block for each leaf: one of the library whose arrays the
samples hold (shmtensor, PyTorch or JAX).
"""

from __future__ import annotations

import copy
import dataclasses
import sys
from array import array as NumberArray
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from shmtensor.autograd import is_grad_enabled, wrap
from shmtensor.dtypes import promote_types
from shmtensor.functions import stack
from shmtensor.other_names import foreign_module
from shmtensor.tensor import Tensor, make_tensor
from shmtensor.tensor.foreign_arrays import (
    LIBRARIES,
    as_library,
    as_numpy,
    library_of,
    numpy_dtype_of,
)

from .loader.batch_block import Array, BlockAllocator, allocate_parts, stack_into
from .loader.worker_info import is_worker_process
from .tensor_dataset import Rows

__all__ = [
    "collate",
    "collate_torch",
    "default_collate",
    "default_collate_fn_map",
    "default_convert",
    "is_default_of_torch",
    "map_leaves",
]

CollateMap = dict[Any, Callable[..., Any]]

# Of these types no key of `default_collate_fn_map` is a base class, unless it is the type itself.
BUILTIN = frozenset({dict, list, tuple})

# Values of these types are no tensors and hold none, for `map_leaves`.
PLAIN = frozenset(
    {int, float, complex, bool, type(None), str, bytes, bytearray, memoryview, range, NumberArray}
)
# Of these types `map_leaves` enters no subclass either: they are sequences of numbers or text.
LEAVES = (Tensor, np.ndarray, str, bytes, bytearray, memoryview, NumberArray)

# Bytes of a tensor of PyTorch from which the view as an array (0.7 us) costs less than it saves:
# large samples are copied by `stack_into`, smaller ones by `torch.stack`.
LARGE = 128 << 10


class JaxTensor(Tensor):
    """An array of JAX to be, in a worker, which never calls JAX: a fork has none of its threads.
    The consumer makes the array of JAX, over the same memory (output.py)."""


class Leaf:
    """A tensor of the batch: its samples, and its part of the block.

    Attributes:
        library: whose tensor it becomes, "shmtensor", "torch" or "jax"; None for NumPy's arrays and
            for numbers: PyTorch's or JAX's if the sample has arrays of these, else shmtensor's.
    """

    __slots__ = ("array", "dtype", "library", "samples", "shape", "tensor", "where")
    array: Array  # once there is a block

    def __init__(
        self,
        samples: Sequence[Any],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        where: str,
        library: str | None = None,
    ) -> None:
        self.samples = samples
        self.shape = shape
        self.dtype = dtype
        self.where = where
        self.library = library
        self.tensor: Any = None  # the tensor of the batch, where filling has made one


class Value:
    """A finished part of the batch: the result of a collate function, or strings.

    Attributes:
        library: "torch" of a tensor of PyTorch with a history, else None.
    """

    __slots__ = ("library", "value")

    def __init__(self, value: Any, library: str | None = None) -> None:
        self.value = value
        self.library = library


class Node:
    """A container in the batch: its children, and the function that builds it from them."""

    __slots__ = ("build", "children")

    def __init__(self, build: Callable[[list[Any]], Any], children: list[Any]) -> None:
        self.build = build
        self.children = children


def collate(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    """Samples into a batch, by the functions of a map.

    Parameters
    ----------
    batch : sequence
        Samples of one structure.
    collate_fn_map : dict, optional
        Type (or tuple of types) -> function(samples, *, collate_fn_map); exact types are looked up
        first, then the first key the sample is an instance of. Entries taken from
        `default_collate_fn_map` all write into the same block.

    Returns
    -------
    any
        The batch, in the structure of the samples (tuples become lists, as in PyTorch). Tensors of
        PyTorch become one of PyTorch, arrays of JAX one of JAX, and so do NumPy's arrays and the
        numbers in a sample that has arrays of these libraries (PyTorch's, if it has both). All
        others become tensors of shmtensor.

    Raises
    ------
    TypeError
        A sample holds something that neither is a container nor has a function, or an array that
        NumPy cannot view (on a GPU, sparse, quantised, of another dtype).
    RuntimeError
        Samples differ in structure, shape or dtype.

    See Also
    --------
    default_collate

    Notes
    -----
    Copies: one (each sample into the batch's block).

    Examples
    --------
    >>> from shmtensor.dataloaders import collate
    >>> def join(samples, *, collate_fn_map=None):
    ...     return "-".join(samples)
    >>> collate(["a", "b"], collate_fn_map={str: join})
    'a-b'
    """
    stack_rows = (collate_fn_map or {}).get(Tensor)
    if isinstance(batch, Rows) and stack_rows is collate_tensors:
        return batch.batch()
    nodes: list[Leaf | Value] = []
    tree = flatten(batch, collate_fn_map, nodes, "")
    leaves = [node for node in nodes if type(node) is Leaf]
    for leaf, array in (
        zip(leaves, allocate_parts((leaf.shape, leaf.dtype) for leaf in leaves), strict=True)
        if leaves
        else ()
    ):
        fill(array, leaf)
        leaf.array = array
    libraries = {node.library for node in nodes}
    library = next((name for name in LIBRARIES if name in libraries), "shmtensor")
    return unflatten(tree, library)


def default_collate(batch: Sequence[Any]) -> Any:
    """Samples into a batch: arrays, tensors and numbers are stacked, containers entered.

    Tensors and NumPy arrays become a tensor with a new first dimension, Python floats (and ints
    mixed with them) a float64 tensor, ints int64, bools bool; strings and bytes stay; dicts, lists,
    tuples (as lists), named tuples and dataclasses are batched part by part. Samples that hold
    tensors of PyTorch or arrays of JAX give a batch of these. See `collate`.

    Tensors that require grad are stacked by their own library, so that gradients flow to the
    samples; a worker cannot send such a batch.

    Parameters
    ----------
    batch : sequence
        Samples of one structure.

    Returns
    -------
    any
        The batch, in the structure of the samples.

    Raises
    ------
    TypeError, RuntimeError
        As `collate`.

    See Also
    --------
    collate, default_convert

    Notes
    -----
    Copies: one (each sample into the batch's block).

    Examples
    --------
    >>> from shmtensor.dataloaders import default_collate
    >>> default_collate([{"x": 1.0, "y": 0}, {"x": 2.0, "y": 1}])
    {'x': tensor([1., 2.], dtype=shmtensor.float64), 'y': tensor([0, 1])}
    >>> default_collate([(st.ones(2), "a"), (st.zeros(2), "b")])
    [tensor([[1., 1.],
            [0., 0.]]), ('a', 'b')]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def flatten(
    batch: Sequence[Any], fns: CollateMap | None, nodes: list[Leaf | Value], where: str
) -> Any:
    """The first pass: the batch's structure, with its leaves collected in `nodes`, and the values
    that belong to a library."""
    sample = batch[0]
    kind = type(sample)
    if fns is not None:
        fn = fns.get(kind)
        if fn is None and not (kind in BUILTIN and fns is default_collate_fn_map):
            fn = next((fns[key] for key in fns if isinstance(sample, key)), None)
        if fn is not None:
            describe = DESCRIBE.get(fn)
            if describe is None:
                return Value(fn(batch, collate_fn_map=fns))
            node = describe(batch, where)
            if type(node) is Leaf:
                nodes.append(node)
            return node
        if kind not in BUILTIN and (library := library_of(sample)) is not None:
            nodes.append(node := describe_foreign(batch, where, library))
            return node

    def enter(samples: Sequence[Any], name: object) -> Any:
        return flatten(samples, fns, nodes, f"{where}[{name!r}]")

    if isinstance(sample, Mapping):
        names = list(sample)
        if set(map(type, batch)) != {dict} or set(map(len, batch)) != {len(names)}:
            check_keys(batch, sample, where)
        try:
            parts = [[other[name] for other in batch] for name in names]
        except KeyError:
            check_keys(batch, sample, where)
            raise
        children = [enter(part, name) for name, part in zip(names, parts, strict=True)]
        return Node(lambda parts: rebuild_mapping(sample, names, parts), children)
    if isinstance(sample, tuple) and hasattr(sample, "_fields"):
        columns = zip(*batch, strict=True)
        children = [enter(c, n) for n, c in zip(sample._fields, columns, strict=True)]
        return Node(lambda parts: kind(*parts), children)
    if dataclasses.is_dataclass(sample) and not isinstance(sample, type):
        fields = [field.name for field in dataclasses.fields(sample) if field.init]
        children = [enter([getattr(other, f) for other in batch], f) for f in fields]
        return Node(lambda parts: kind(**dict(zip(fields, parts, strict=True))), children)
    if isinstance(sample, Sequence):
        if any(isinstance(x, (str, bytes)) or not isinstance(x, Sequence) for x in batch):
            raise different_types(batch, where)
        sizes = {len(other) for other in batch}
        if len(sizes) != 1:
            raise RuntimeError(
                f"collate: samples are sequences of different lengths{at(where)}: "
                f"{sorted(sizes)}, pass a collate_fn that pads or keeps lists"
            )
        children = [enter(c, n) for n, c in enumerate(zip(*batch, strict=True))]
        return Node(lambda parts: rebuild_sequence(sample, parts), children)
    raise TypeError(
        f"collate: cannot make a batch of this type{at(where)}: "
        f"{kind.__module__}.{kind.__qualname__}, samples hold tensors, NumPy arrays, numbers, "
        "strings, dicts, lists and tuples of these; for others pass a collate_fn"
    )


def check_keys(batch: Sequence[Any], sample: Mapping[Any, Any], where: str) -> None:
    """Raises RuntimeError if the samples are not mappings with the same keys, in any order."""
    names = sample.keys()
    for i, other in enumerate(batch):
        if not isinstance(other, Mapping):
            raise RuntimeError(
                f"collate: samples differ in their structure{at(where)}: sample 0 is a mapping, "
                f"sample {i} is {type(other).__name__}"
            )
        if other.keys() != names:
            odd = [repr(key) for key in (*names, *other) if (key in names) != (key in other)]
            raise RuntimeError(
                f"collate: samples differ in their keys{at(where)}: {', '.join(odd)} not in both "
                f"of samples 0 and {i}"
            )


def unflatten(tree: Any, library: str) -> Any:
    """The second pass: the batch itself; `library` is that of NumPy's arrays and of numbers."""
    kind = type(tree)
    if kind is Leaf:
        if tree.tensor is not None:
            return tree.tensor
        return tensor_of(tree.array, tree.library or library)
    if kind is Value:
        return tree.value
    return tree.build([unflatten(child, library) for child in tree.children])


def tensor_of(array: Array, library: str) -> Any:
    """A tensor of a library over the memory of an array; for JAX's see `JaxTensor`."""
    if library == "shmtensor":
        return wrap(array)
    if library == "jax" and is_worker_process():
        return make_tensor(JaxTensor, array, False, None)
    return as_library(array, library)


def fill(array: Array, leaf: Leaf) -> None:
    """Writes the samples of a leaf into its part of the block."""
    samples = leaf.samples
    if isinstance(samples[0], np.ndarray):
        stack_into(array, samples)
    elif leaf.library == "torch":
        stack_torch(array, leaf)
    else:
        try:
            array[...] = samples
        except OverflowError as error:
            raise RuntimeError(
                f"collate: a number does not fit {leaf.dtype}{at(leaf.where)}: {max(samples)}"
            ) from error


def rebuild_mapping(sample: Mapping[Any, Any], names: list[Any], parts: list[Any]) -> Any:
    """A mapping like `sample` with other values, its own type where that can be made."""
    values = dict(zip(names, parts, strict=True))
    if type(sample) is dict:
        return values
    try:
        if isinstance(sample, MutableMapping):
            clone = copy.copy(sample)
            clone.update(values)
            return clone
        return type(sample)(values)  # type: ignore[call-arg]
    except TypeError:  # no copy, or another signature: PyTorch gives a dict then, too
        return values


def rebuild_sequence(sample: Sequence[Any], parts: list[Any]) -> Any:
    """A sequence like `sample` with other values; tuples become lists, as in PyTorch."""
    if type(sample) is list or isinstance(sample, tuple):
        return parts
    try:
        if isinstance(sample, MutableSequence):
            clone = copy.copy(sample)
            for i, part in enumerate(parts):
                clone[i] = part
            return clone
        return type(sample)(parts)  # type: ignore[call-arg]
    except TypeError:  # such as a range
        return parts


# ------------------------------------------------------------------ leaves
INT64, PYTHON_INT, PYTHON_FLOAT = np.dtype(np.int64), {int}, {float}


def common_dtype(one: Any, other: Any) -> Any:
    """The dtype of a batch of these two: the one of `stack`, if both can be tensors."""
    numbers = one.kind in "biufc" and other.kind in "biufc"
    if not numbers:
        return np.result_type(one, other)
    return promote_types(one.newbyteorder("="), other.newbyteorder("="))


def describe_arrays(arrays: Sequence[Array], where: str, library: str | None = None) -> Leaf:
    """The leaf of a batch of arrays; shapes must agree, dtypes are promoted."""
    first = arrays[0]
    shape, dtype = first.shape, first.dtype
    try:
        for i, array in enumerate(arrays):
            if array.shape != shape:
                raise RuntimeError(
                    f"collate: shapes differ within the batch{at(where)}: {shape} at sample 0, "
                    f"{array.shape} at sample {i}, pass a collate_fn that pads or keeps lists"
                )
            if array.dtype is not dtype and array.dtype != dtype:
                dtype = common_dtype(dtype, array.dtype)
    except AttributeError as error:  # no array
        if "torch" not in map(library_of, arrays):
            raise different_types(arrays, where) from error
        return describe_arrays(views_of(arrays, where, has_arrays=True), where, "torch")
    if dtype.kind not in "biufc":
        raise TypeError(f"collate: arrays of this dtype cannot be tensors{at(where)}: {dtype}")
    if not dtype.isnative:
        dtype = dtype.newbyteorder("=")
    return Leaf(arrays, (len(arrays), *shape), dtype, where, library)


def describe_foreign(tensors: Sequence[Any], where: str, library: str) -> Leaf | Value:
    """The leaf of a batch of tensors of PyTorch or arrays of JAX."""
    if library == "torch" and type(tensors[-1]) is not np.ndarray:  # those would be rows, as below
        torch: Any = sys.modules["torch"]
        if is_stackable(tensors, torch.strided):
            first = tensors[0]
            shape, dtype = (len(tensors), *first.shape), numpy_dtype_of(first.dtype)
            return Leaf(tensors, shape, dtype, where, library)
        if torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in tensors):
            return Value(torch.stack(list(tensors)), library)
    return describe_arrays(views_of(tensors, where), where, library)


def is_stackable(tensors: Sequence[Any], strided: Any) -> bool:
    """Whether `torch.stack` may copy these tensors of PyTorch into an array. Each is looked at:
    `torch.stack` crashes when one lies on another device or is sparse."""
    first = tensors[0]
    if first.layout is not strided or first.is_nested:
        return False
    if first.nbytes >= LARGE and type(first) is sys.modules["torch"].Tensor:
        return False  # of a subclass, `torch.stack` decides what the batch is
    dtype = first.dtype
    try:
        others = [
            x
            for x in tensors
            if x.dtype is not dtype or x.layout is not strided or x.requires_grad or not x.is_cpu
        ]
        numpy_dtype_of(dtype)
    except (AttributeError, TypeError):  # one is no tensor, or NumPy lacks the dtype
        return False
    return not others


def stack_torch(array: Array, leaf: Leaf) -> None:
    """Writes tensors of PyTorch into the leaf's part of the block, by PyTorch's own function."""
    tensors, where = leaf.samples, leaf.where
    torch: Any = sys.modules["torch"]
    out = as_library(array, "torch")
    try:
        leaf.tensor = torch.stack(tensors, 0, out=out)  # of a subclass where the samples are
    except (RuntimeError, TypeError):  # another shape or device, for instance
        leaf.samples = describe_arrays(views_of(tensors, where), where).samples
        stack_into(array, leaf.samples)


def views_of(tensors: Sequence[Any], where: str, has_arrays: bool = False) -> list[Array]:
    """Arrays over the memory of these tensors; the error names the one that has none.

    Args:
        has_arrays: NumPy's arrays may be among them; else only rows of the batch may.
    """
    rows = set(map(id, BlockAllocator.early_arrays()))  # theirs are in their place already

    def view(i: int, x: Any) -> Array:
        if isinstance(x, np.ndarray) and (has_arrays or id(x.base) in rows):
            return x
        if library_of(x) is None:
            raise different_types(tensors, where, i)
        return as_numpy(x, f"collate: sample {i} of the batch{at(where)}")

    # Quicker than `view`, which accepts more, and explains what has no view.
    with suppress(AttributeError, RuntimeError, TypeError):
        return [x if type(x) is np.ndarray and id(x.base) in rows else x.numpy() for x in tensors]
    return [view(i, x) for i, x in enumerate(tensors)]


def describe_tensors(tensors: Sequence[Tensor], where: str) -> Leaf | Value:
    try:
        if not tensors[0].is_cpu or (
            is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        ):
            return Value(stack(list(tensors)))
        arrays = [tensor.array for tensor in tensors]
    except AttributeError:  # of a sample that is no tensor
        raise different_types(tensors, where) from None
    return describe_arrays(arrays, where, "shmtensor")


def describe_numbers(numbers: Sequence[Any], where: str) -> Leaf | Value:
    kinds = {type(number) for number in numbers}
    dtype = INT64 if kinds == PYTHON_INT else np.result_type(*kinds)
    if dtype.kind not in "biufc":
        raise different_types(numbers, where)
    return Leaf(numbers, (len(numbers),), dtype, where)


def different_types(samples: Sequence[Any], where: str, i: int | None = None) -> TypeError:
    """The error for samples that cannot be in one batch; `i` is the one that differs from the
    first, found by its type if None."""
    first = type(samples[0])
    if i is None:
        i = next((i for i, x in enumerate(samples) if type(x) is not first), 0)
    return TypeError(
        f"collate: samples are of different types{at(where)}: {first.__name__} at sample 0, "
        f"{type(samples[i]).__name__} at sample {i}"
    )


def describe_floats(numbers: Sequence[float], where: str) -> Leaf | Value:
    kinds = set(map(type, numbers))
    if kinds != PYTHON_FLOAT and not all(hasattr(kind, "__float__") for kind in kinds):
        raise different_types(numbers, where)  # NumPy would make NaN of None, and 5.0 of "5"
    return Leaf(numbers, (len(numbers),), np.dtype(np.float64), where)


def describe_ints(numbers: Sequence[int], where: str) -> Leaf | Value:
    if all(type(number) is bool for number in numbers):
        return Leaf(numbers, (len(numbers),), np.dtype(np.bool_), where)
    return describe_numbers(numbers, where)


def describe_strings(strings: Sequence[Any], where: str) -> Leaf | Value:
    return Value(strings if isinstance(strings, (list, tuple)) else list(strings))


def as_function(describe: Callable[[Sequence[Any], str], Leaf | Value]) -> Callable[..., Any]:
    """The collate function of one kind of leaf, for users to call or replace."""

    def collate_leaf(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
        node = describe(batch, "")
        if type(node) is Leaf:
            (node.array,) = allocate_parts([(node.shape, node.dtype)])
            fill(node.array, node)
        return unflatten(node, "shmtensor")

    DESCRIBE[collate_leaf] = describe
    return collate_leaf


def at(where: str) -> str:
    return f" at {where}" if where else ""


# `flatten` does not call our own functions: it describes their leaves, which share a block.
DESCRIBE: dict[Callable[..., Any], Callable[[Sequence[Any], str], Leaf | Value]] = {}

collate_tensors = as_function(describe_tensors)

collate_torch = as_function(lambda tensors, where: describe_foreign(tensors, where, "torch"))

default_collate_fn_map: CollateMap = {
    Tensor: collate_tensors,
    np.ndarray: as_function(describe_arrays),
    (np.bool_, np.number): as_function(describe_numbers),
    float: as_function(describe_floats),
    int: as_function(describe_ints),
    str: as_function(describe_strings),
    bytes: as_function(describe_strings),
}


def is_default_of_torch(collate_fn: Callable[..., Any] | None) -> bool:
    """Whether this is PyTorch's `default_collate`, with PyTorch's functions for each type: then
    ours, which writes into shared memory, does the same, up to its errors' text."""
    module = foreign_module("torch.utils.data._utils.collate")
    if module is None or collate_fn is not getattr(module, "default_collate", None):
        return False
    fns = module.default_collate_fn_map.values()
    return all(fn.__module__ == module.__name__ for fn in fns)


def default_convert(data: Any) -> Any:
    """NumPy arrays within a sample become tensors over the same memory; containers are entered.

    They become tensors of PyTorch or JAX if `data` holds some of these, else of shmtensor. This is
    what a loader without automatic batching (`batch_size=None`) does to each sample.

    Parameters
    ----------
    data : any
        The sample.

    Returns
    -------
    any
        Of the same structure.

    See Also
    --------
    default_collate

    Notes
    -----
    Copies: none; one of a read-only array beside tensors of PyTorch, and what JAX copies.

    Examples
    --------
    >>> from shmtensor.dataloaders import default_convert
    >>> default_convert({"x": np.zeros(2), "name": "a"})
    {'x': tensor([0., 0.], dtype=shmtensor.float64), 'name': 'a'}
    """
    library = library_within(data) or "shmtensor"

    def convert_leaf(x: Any) -> Any:
        if not isinstance(x, (np.ndarray, np.bool_, np.number)):
            return x
        array = np.asarray(x)
        if array.dtype.kind not in "biufc":
            return x
        return tensor_of(array, library)

    return map_leaves(data, convert_leaf)


def library_within(data: Any) -> str | None:
    """The library of the arrays in `data` that are neither shmtensor's nor NumPy's: "torch", "jax"
    or None."""
    if not any(map(foreign_module, LIBRARIES)):
        return None
    libraries: set[str | None] = set()

    def look(x: Any) -> Any:
        libraries.add(library_of(x))
        return x

    map_leaves(data, look, is_exact=True)
    return next((name for name in LIBRARIES if name in libraries), None)


def map_leaves(data: Any, change: Callable[[Any], Any], is_exact: bool = False) -> Any:
    """`data` with `change(x)` for each x in its mappings, sequences and dataclasses that is not one
    of these. Python's own numbers, text, buffers and ranges stay, without a call. No constructor of
    a named tuple or dataclass runs.

    Args:
        is_exact: tuples stay tuples (else they become lists, as in PyTorch's `default_convert`),
            and a container of which no leaf changes stays the same object.
    """
    if type(data) in PLAIN:
        return data
    if isinstance(data, LEAVES) or library_of(data) is not None:
        return change(data)
    if isinstance(data, Mapping):
        names, values = list(data), list(data.values())
    elif isinstance(data, Sequence):
        values = list(data)
    elif dataclasses.is_dataclass(data) and not isinstance(data, type):
        names = [f.name for f in dataclasses.fields(data) if hasattr(data, f.name)]
        values = [getattr(data, name) for name in names]
        is_exact = True
    else:
        return change(data)
    parts = values
    if not PLAIN.issuperset(map(type, values)):  # quicker than a call for each of many numbers
        parts = [map_leaves(value, change, is_exact) for value in values]
    if is_exact and all(part is value for part, value in zip(parts, values, strict=True)):
        return data
    if isinstance(data, Mapping):
        return rebuild_mapping(data, names, parts)
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        kind: Any = type(data)
        return kind._make(parts)
    if isinstance(data, Sequence):
        return tuple(parts) if is_exact and type(data) is tuple else rebuild_sequence(data, parts)
    clone = copy.copy(data)
    for name, part in zip(names, parts, strict=True):
        object.__setattr__(clone, name, part)  # also of a frozen one
    return clone
