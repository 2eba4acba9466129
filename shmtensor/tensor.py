"""Tensor: an array in memory that other processes can see, with its place in the graph.

The slots are in C (native/call/graph.h): array, node, version, base, leaf. The ops come from the
table
(autograd/methods.py); here is what is not an op: gradients, conversion, copies, Python's protocols.

More than 400 lines because it is one class whose methods users look for in one place.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from . import dtypes, native
from .autograd import hooks, view
from .autograd.backward import backward
from .autograd.dispatch import rule_of, table
from .autograd.graph import Leaf, RemovableHandle
from .autograd.methods import Methods
from .autograd.operands import as_canonical, as_index, as_operand
from .device import CPU, Device, as_device
from .printing import format_array

__all__ = ["Size", "Tensor"]

if TYPE_CHECKING:
    Size = tuple[int, ...]
else:
    Size = tuple  # torch.Size is a tuple, too; isinstance needs the bare class
# Inside the class these names are methods.
Int: TypeAlias = int
Float: TypeAlias = float
Bool: TypeAlias = bool


class Tensor(Methods):
    """A multi-dimensional array of one dtype. Made by `tensor`, `zeros`, `from_numpy` and the like.

    Its memory is seen by every process that has the tensor: a write is seen by all, as between
    threads.
    """

    __slots__ = ()

    def __new__(cls, data: Any = None, *sizes: Int, **named: Any) -> Any:
        made: Any = super().__new__(cls)
        if data is None:
            made.array = native.call(np.empty, 0, dtypes.get_default_dtype())
        elif isinstance(data, int):
            made.array = native.call(np.empty, (data, *sizes), dtypes.get_default_dtype())
        elif isinstance(data, native.TensorBase):
            made.array = data.array
        else:
            made.array = native.call(np.array, data, dtypes.get_default_dtype())
        return made

    # ------------------------------------------------------------ what it is

    @property
    def shape(self) -> tuple[Int, ...]:
        return self.array.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> dtypes.Dtype:
        return self.array.dtype  # type: ignore[no-any-return]

    @property
    def device(self) -> Device:
        return CPU

    @property
    def ndim(self) -> Int:
        return self.array.ndim  # type: ignore[no-any-return]

    @property
    def itemsize(self) -> Int:
        return self.array.itemsize  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> Int:
        return self.array.nbytes  # type: ignore[no-any-return]

    @property
    def is_cuda(self) -> Bool:
        return False

    @property
    def is_sparse(self) -> Bool:
        return False

    @property
    def layout(self) -> str:
        return "strided"

    @property
    def T(self) -> Tensor:
        """The dimensions in reverse order. Copies: none."""
        return self.permute(tuple(range(self.ndim))[::-1])

    @property
    def mT(self) -> Tensor:
        """The last two dimensions swapped. Copies: none."""
        return self.transpose(-1, -2)

    @property
    def H(self) -> Tensor:
        """The conjugate transpose of a matrix."""
        return self.mT.conj()

    mH = H

    @property
    def real(self) -> Tensor:
        return table.real(self)  # type: ignore[no-any-return]

    @real.setter
    def real(self, value: Any) -> None:
        table.real(self).copy_(value)

    @property
    def imag(self) -> Tensor:
        return table.imag(self)  # type: ignore[no-any-return]

    @imag.setter
    def imag(self, value: Any) -> None:
        table.imag(self).copy_(value)

    def size(self, dim: Int | None = None) -> Any:
        """The shape, or one of its sizes."""
        if dim is None:
            return self.array.shape
        try:
            return self.array.shape[dim]
        except IndexError:
            n = max(self.ndim, 1)
            raise IndexError(
                f"size: Dimension out of range (expected to be in range of [{-n}, {n - 1}], but "
                f"got {dim}): "
                f"shape {self.shape}"
            ) from None

    def dim(self) -> Int:
        return self.array.ndim  # type: ignore[no-any-return]

    ndimension = dim

    def numel(self) -> Int:
        return self.array.size  # type: ignore[no-any-return]

    nelement = numel

    def element_size(self) -> Int:
        return self.array.itemsize  # type: ignore[no-any-return]

    def stride(self, dim: Int | None = None) -> Any:
        """Steps between elements, counted in elements."""
        steps = tuple(s // self.array.itemsize for s in self.array.strides)
        return steps if dim is None else steps[dim]

    def storage_offset(self) -> Int:
        """Elements between the start of the memory's owner and the first element."""
        owner = self.array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        offset: Int = self.array.ctypes.data - owner.ctypes.data
        itemsize: Int = self.array.itemsize
        return offset // itemsize

    def data_ptr(self) -> Int:
        return self.array.ctypes.data  # type: ignore[no-any-return]

    def is_contiguous(self, memory_format: Any = None) -> Bool:
        return self.array.flags.c_contiguous  # type: ignore[no-any-return]

    def is_floating_point(self) -> Bool:
        return self.array.dtype.kind == "f"  # type: ignore[no-any-return]

    def is_complex(self) -> Bool:
        return self.array.dtype.kind == "c"  # type: ignore[no-any-return]

    def is_signed(self) -> Bool:
        return self.array.dtype.kind in "ifc"

    def get_device(self) -> Int:
        return -1

    def is_pinned(self) -> Bool:
        return False

    def pin_memory(self) -> Tensor:
        return self

    def is_set_to(self, tensor: Tensor) -> Bool:
        """Whether both are the same view of the same memory."""
        a, b = self.array, tensor.array
        return bool(
            a.ctypes.data == b.ctypes.data and a.shape == b.shape and a.strides == b.strides
        )

    def is_same_size(self, other: Tensor) -> Bool:
        return self.shape == other.shape

    # ------------------------------------------------------------ gradients

    @property
    def requires_grad(self) -> Bool:
        return view.node_of(self) is not None

    @requires_grad.setter
    def requires_grad(self, value: Bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: Bool = True) -> Tensor:
        """Starts, or stops, recording what is computed from this leaf.

        Raises:
            RuntimeError: an integer tensor; stopping for a tensor that was computed.
        """
        node = view.node_of(self)
        if requires_grad:
            if node is None:
                if self.array.dtype.kind not in "fc":
                    raise RuntimeError(
                        "requires_grad_: only Tensors of floating point and complex dtype can "
                        "require gradients: "
                        f"{self.array.dtype}, convert it first: x.float()"
                    )
                if self.leaf is None:
                    self.leaf = Leaf(self)
                else:
                    self.leaf.describe(self.array)
                self.node = self.leaf
        elif node is not None:
            if node.__class__ is not Leaf:
                raise RuntimeError(
                    "requires_grad_: you can only change requires_grad flags of leaf variables: "
                    "this tensor was "
                    f"computed by {node_name(self)}, use detach() for one that does not require "
                    f"grad"
                )
            self.node = None
        return self

    @property
    def is_leaf(self) -> Bool:
        node = view.node_of(self)
        return node is None or node.__class__ is Leaf

    @property
    def grad_fn(self) -> Any:
        """What computed the tensor, a node of the graph; None for a leaf."""
        node = view.node_of(self)
        if node is None or node.__class__ is Leaf:
            return None
        return node.node if node.__class__ is native.Port else node

    @property
    def output_nr(self) -> Int:
        node = view.node_of(self)
        return node.index if node.__class__ is native.Port else 0

    @property
    def grad(self) -> Any:
        """The gradient so far, or None."""
        return None if self.leaf is None else self.leaf.grad

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is None:
            if self.leaf is not None:
                self.leaf.grad = None
            return
        if not isinstance(value, Tensor):
            raise TypeError(
                f"grad: assigned grad expected to be a Tensor or None: {type(value).__name__}"
            )
        if value is self:
            raise RuntimeError("grad: can't assign a Tensor as its own grad")
        if value.array.shape != self.array.shape or value.array.dtype is not self.array.dtype:
            raise RuntimeError(
                "grad: assigned grad has data of a different shape or dtype: "
                f"{value.array.shape} {value.array.dtype} is not {self.array.shape} "
                f"{self.array.dtype}"
            )
        if self.leaf is None:
            self.leaf = Leaf(self)
        self.leaf.grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def retains_grad(self) -> Bool:
        return self.leaf is not None and self.node is not self.leaf

    def retain_grad(self) -> None:
        """Makes backward fill in `.grad` of this tensor although it is not a leaf."""
        hooks.retain(self)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Calls `hook(grad)` whenever the tensor's gradient is computed; what it returns, if not
        None, replaces it.
        """
        return hooks.register(self, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Calls `hook(tensor)` after backward has added to this leaf's `.grad`."""
        return hooks.post_accumulate(self, hook)

    def backward(
        self,
        gradient: Any = None,
        retain_graph: Bool | None = None,
        create_graph: Bool = False,
        inputs: Any = None,
    ) -> None:
        """Adds to the `.grad` of the leaves that this tensor was computed from. As
        `autograd.backward`.
        """
        backward(self, gradient, retain_graph, create_graph, inputs)

    def detach(self) -> Tensor:
        """The same memory without history. Copies: none."""
        fresh: Tensor = native.wrap(self.array)
        fresh.version = self.version = self.version or native.Version()
        return fresh

    def detach_(self) -> Tensor:
        """Forgets the history of this tensor."""
        if self.base is not None:
            raise RuntimeError(
                f"detach_: can't detach views in-place: shape {self.shape}, use detach() instead"
            )
        self.node = None
        return self

    @property
    def data(self) -> Tensor:
        """The same memory without history, and writes to it are not counted. Copies: none."""
        return native.wrap(self.array)  # type: ignore[no-any-return]

    @data.setter
    def data(self, value: Tensor) -> None:
        self.array = value.array
        leaf = self.leaf
        if leaf is not None:
            leaf.describe(self.array)
            home = leaf.home
            if home is not None and (home.dtype is not value.dtype or home.shape != value.shape):
                leaf.home = None

    @property
    def _version(self) -> Int:
        return 0 if self.version is None else self.version.count

    @property
    def _base(self) -> Any:
        return None if self.base is None else view.chain_to(self)[0]

    def is_inference(self) -> Bool:
        return False

    # ------------------------------------------------------------ memory

    def is_shared(self) -> Bool:
        """Whether the memory lies in the domain, so that the tensor travels between processes as a
        handle.
        """
        return bool(native.is_shared(self.array))

    def share_memory_(self) -> Tensor:
        """Moves the tensor into shared memory; does nothing if it is there. Copies: one (if
        outside).
        """
        if not self.is_shared():
            self.array = native.call(np.array, self.array)
        return self

    def numpy(self, *, force: Bool = False) -> Any:
        """The memory as a NumPy array; a write to one is seen in the other. Copies: none.

        Raises:
            RuntimeError: the tensor requires grad, and not `force`.
        """
        if not force and view.node_of(self) is not None:
            raise RuntimeError(
                "numpy: Can't call numpy() on Tensor that requires grad: shape "
                f"{self.shape}, use tensor.detach().numpy() instead"
            )
        return self.array

    def __array__(self, dtype: Any = None, copy: Bool | None = None) -> Any:
        if dtype is None and not copy:
            return self.numpy()
        return np.array(self.numpy(), dtype, copy=copy)

    __array_priority__ = 1000
    __array_ufunc__ = None  # ndarray + Tensor is Tensor.__radd__

    def __dlpack__(self, **named: Any) -> Any:
        return self.numpy().__dlpack__(**named)

    def __dlpack_device__(self) -> tuple[Int, Int]:
        return self.array.__dlpack_device__()  # type: ignore[no-any-return]

    def item(self) -> Any:
        """The one element as a Python number.

        Raises:
            RuntimeError: there is not exactly one.
        """
        if self.array.size != 1:
            raise RuntimeError(
                f"item: a Tensor with {self.array.size} elements cannot be converted to Scalar: "
                f"shape {self.shape}"
            )
        return self.array.item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers; a number for a 0-d tensor. Copies: one."""
        return self.array.tolist()

    def clone(self, *, memory_format: Any = None) -> Tensor:
        """The same values in memory of its own, in the graph. Copies: one."""
        return table.clone(self)  # type: ignore[no-any-return]

    def contiguous(self, memory_format: Any = None) -> Tensor:
        """Itself if the elements lie in order in memory, else a copy that does. Copies: none or
        one.
        """
        return self if self.array.flags.c_contiguous else table.packed(self)

    # ------------------------------------------------------------ other dtypes and devices

    def to(self, *args: Any, **named: Any) -> Tensor:
        """The tensor with another dtype or on another device; itself if nothing changes.

        Forms: `to(dtype)`, `to(device, dtype=None)`, `to(other)`; `copy=True` copies in any case.
        """
        dtype, device, copy = named.get("dtype"), named.get("device"), named.get("copy", False)
        for a in args:
            if isinstance(a, native.TensorBase):
                dtype = a.array.dtype
            elif isinstance(a, Device) or (
                isinstance(a, str) and a.partition(":")[0] in ("cpu", "cuda")
            ):
                device = a
            elif isinstance(a, bool):
                continue  # non_blocking
            elif a is not None:
                dtype = a
        as_device(device)
        wanted = self.array.dtype if dtype is None else dtypes.as_dtype(dtype)
        if wanted is self.array.dtype:
            return self.clone() if copy else self
        return table.cast(self, wanted)  # type: ignore[no-any-return]

    def type(self, dtype: Any = None, non_blocking: Bool = False) -> Any:
        """The name of the tensor's type, or the tensor in another dtype."""
        return f"shmtensor.{self.dtype}" if dtype is None else self.to(dtypes.as_dtype(dtype))

    def type_as(self, other: Tensor) -> Tensor:
        return self.to(other.array.dtype)

    def cpu(self) -> Tensor:
        return self

    def cuda(self, device: Any = None, non_blocking: Bool = False) -> Tensor:
        as_device(Device("cuda", device if isinstance(device, int) else None))
        return self

    def float(self, memory_format: Any = None) -> Tensor:
        return self.to(dtypes.float32)

    def double(self, memory_format: Any = None) -> Tensor:
        return self.to(dtypes.float64)

    def half(self, memory_format: Any = None) -> Tensor:
        return self.to(dtypes.float16)

    def int(self, memory_format: Any = None) -> Tensor:
        return self.to(dtypes.int32)

    def long(self, memory_format: Any = None) -> Tensor:
        return self.to(dtypes.int64)

    def short(self, memory_format: Any = None) -> Tensor:
        return self.to(dtypes.int16)

    def char(self, memory_format: Any = None) -> Tensor:
        return self.to(dtypes.int8)

    def byte(self, memory_format: Any = None) -> Tensor:
        return self.to(dtypes.uint8)

    def bool(self, memory_format: Any = None) -> Tensor:
        return self.to(dtypes.bool)

    def cfloat(self) -> Tensor:
        return self.to(dtypes.complex64)

    def cdouble(self) -> Tensor:
        return self.to(dtypes.complex128)

    def conjugate(self) -> Tensor:
        """The complex conjugate; a real tensor itself."""
        return table.conj(self) if self.array.dtype.kind == "c" else self

    # ------------------------------------------------------------ writing

    def copy_(self, src: Any, non_blocking: Bool = False) -> Tensor:
        """Writes another tensor's values over this one's, with broadcasting and conversion."""
        return table.overwrite_(self, src)  # type: ignore[no-any-return]

    def fill_(self, value: Any) -> Tensor:
        """Writes one value everywhere."""
        if isinstance(value, native.TensorBase) and value.array.ndim:
            raise RuntimeError(
                f"fill_: only supports 0-dimension value tensor but got tensor of shape "
                f"{value.array.shape}"
            )
        return table.overwrite_(self, value)  # type: ignore[no-any-return]

    def zero_(self) -> Tensor:
        """Writes zeros."""
        return table.overwrite_(self, 0)  # type: ignore[no-any-return]

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, (list, tuple)):
            value = native.wrap(np.asarray(value, self.array.dtype))
        value = as_operand(value)
        if not isinstance(value, native.TensorBase):
            value = native.wrap(np.asarray(value).astype(self.array.dtype))
        elif value.array.dtype.kind == "c" and self.array.dtype.kind != "c":
            raise RuntimeError(
                f"setitem: a {value.array.dtype} value does not fit into a {self.array.dtype} "
                f"tensor"
            )
        try:
            view.set_item(self, as_index(index), value)
        except IndexError as error:
            raise IndexError(f"setitem: {error}: shape {self.shape}") from None
        except ValueError as error:
            raise RuntimeError(
                f"setitem: {error}: value of shape {value.array.shape} into shape {self.shape}"
            ) from None

    def resize_(self, *sizes: Any) -> Tensor:
        """Changes the shape; new elements, if any, are not set."""
        shape = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
        if self.node is not None:
            raise RuntimeError("resize_: cannot resize variables that require grad")
        n = int(np.prod(shape, dtype=np.int64))
        old = self.array
        if n <= old.size and old.flags.c_contiguous:
            self.array = old.reshape(-1)[:n].reshape(shape)
        else:
            fresh = native.call(np.empty, n, old.dtype)
            fresh[: old.size] = old.reshape(-1)[:n]
            self.array = fresh.reshape(shape)
        return self

    def set_(self, source: Tensor) -> Tensor:
        """Makes this tensor a tensor over another one's memory."""
        self.array = source.array
        return self

    def apply_(self, callable: Callable[[Any], Any]) -> Tensor:
        """Writes `callable(x)` over each element; slow, in Python."""
        flat = [callable(v) for v in self.array.reshape(-1).tolist()]
        return self.copy_(native.wrap(np.array(flat, self.dtype).reshape(self.shape)))

    def map_(self, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
        """Writes `callable(x, y)` over each element; slow, in Python."""
        other = np.broadcast_to(tensor.array, self.shape).reshape(-1).tolist()
        flat = [callable(a, b) for a, b in zip(self.array.reshape(-1).tolist(), other)]
        return self.copy_(native.wrap(np.array(flat, self.dtype).reshape(self.shape)))

    # ------------------------------------------------------------ new ones like it

    def new_tensor(
        self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: Any = False
    ) -> Tensor:
        """A tensor of the same dtype from data. Copies: one."""
        as_device(device)
        made: Tensor = native.wrap(
            as_canonical(
                native.call(
                    np.array,
                    as_plain(data),
                    self.dtype if dtype is None else dtypes.as_dtype(dtype),
                )
            )
        )
        return made.requires_grad_() if requires_grad else made

    def new(self, *sizes: Int) -> Tensor:
        return native.wrap(native.call(np.empty, sizes, self.dtype))  # type: ignore[no-any-return]

    # ------------------------------------------------------------ Python's protocols

    def __repr__(self) -> str:
        notes = []
        node = view.node_of(self)
        if node.__class__ is Leaf:
            notes.append("requires_grad=True")
        elif node is not None:
            notes.append(f"grad_fn=<{node_name(self)}>")
        return format_array(self.array, suffixes=tuple(notes))

    def __format__(self, spec: str) -> str:
        if spec and self.array.ndim == 0:
            return format(self.item(), spec)
        return repr(self) if not spec else object.__format__(self, spec)

    def __len__(self) -> Int:
        if self.array.ndim == 0:
            raise TypeError("len: len() of a 0-d tensor")
        return self.array.shape[0]  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Tensor]:
        if self.array.ndim == 0:
            raise TypeError("iter: iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __contains__(self, value: Any) -> Any:
        if not isinstance(value, (native.TensorBase, int, float, complex)):
            raise RuntimeError(
                f"in: Tensor.__contains__ only supports Tensor or scalar: {type(value).__name__}"
            )
        return bool((self == value).any())

    def __bool__(self) -> Any:
        if self.array.size != 1:
            raise RuntimeError(
                f"bool: Boolean value of Tensor with "
                f"{'no values' if self.array.size == 0 else 'more than one value'} "
                f"is ambiguous: shape {self.shape}, use any() or all()"
            )
        return bool(self.array.item())

    def __int__(self) -> Any:
        return int(self.item())

    def __float__(self) -> Any:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> Any:
        if self.array.dtype.kind not in "iub" or self.array.size != 1:
            raise TypeError(
                "index: only integer tensors of a single element can be converted to an index: "
                f"shape {self.shape}, dtype {self.dtype}"
            )
        return int(self.array.item())

    def __deepcopy__(self, memo: dict[Any, Any]) -> Tensor:
        """A leaf's copy has memory and `.grad` of its own. Copies: one."""
        if not self.is_leaf:
            raise RuntimeError(
                "deepcopy: Only Tensors created explicitly by the user (graph leaves) support the "
                "deepcopy protocol: "
                f"this one was computed by {node_name(self)}, use detach().clone()"
            )
        if id(self) in memo:
            return memo[id(self)]  # type: ignore[no-any-return]
        made = remade(type(self), native.call(np.array, self.array), self.requires_grad, None)
        memo[id(self)] = made
        if named := getattr(self, "__dict__", None):
            made.__dict__.update(copy.deepcopy(named, memo))
        if self.grad is not None:
            made.leaf = made.leaf or Leaf(made)
            made.leaf.grad = self.grad.__deepcopy__(memo)
        return made

    def __copy__(self) -> Tensor:
        return remade(type(self), self.array, self.requires_grad, self.grad)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Plain pickle copies the bytes. Between processes the pickler of `multiprocessing` sends a
        handle instead.
        """
        if not self.is_leaf:
            raise RuntimeError(
                "pickle: cannot send or store a tensor that requires grad and is not a leaf, "
                "autograd does not cross "
                f"process boundaries: shape {self.shape} computed by {node_name(self)}, use "
                f"detach()"
            )
        grad = None if self.grad is None else self.grad.array
        # A subclass's own attributes are the third part, which pickle puts back by itself.
        return (
            rebuilt,
            (type(self), self.array, self.requires_grad, grad),
            getattr(self, "__dict__", None) or None,
        )

    def __hash__(self) -> Any:
        return id(self)


def node_name(tensor: Tensor) -> str:
    fn = tensor.grad_fn
    return "a leaf" if fn is None else str(fn.name())


def as_plain(data: Any) -> Any:
    """Data without tensors in it."""
    if isinstance(data, native.TensorBase):
        return data.array
    if isinstance(data, (list, tuple)):
        return [as_plain(d) for d in data]
    return data


def remade(cls: type[Tensor], array: Any, requires_grad: Any, grad: Any) -> Tensor:
    """A tensor of a class over an array."""
    made: Tensor = cls.__new__(cls, native.wrap(array))
    made.array = array
    if requires_grad:
        made.requires_grad_()
    if grad is not None:
        made.grad = grad
    return made


def rebuilt(cls: type[Tensor], array: Any, requires_grad: Any, grad: Any) -> Tensor:
    """A tensor from its pickle."""
    made = remade(cls, as_canonical(array), requires_grad, None)
    if grad is not None:
        made.grad = native.wrap(as_canonical(grad))
    return made


native.set_tensor_class(Tensor)
setattr(Tensor, "__getitem__", rule_of("getitem").public)  # noqa: B010
