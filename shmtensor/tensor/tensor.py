"""Tensor: an array in memory that other processes can see, with its place in the graph. The file is
long because Tensor is one class and has PyTorch's methods.

Each method is a few lines; longer bodies are functions in the files beside this one. The base class
has the methods from the op table (autograd/dispatch/op_function.py) and, in C, the slots array,
node, version, base and accumulate_grad (native/dispatch/autograd_node.h).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np

from .. import dtypes, native
from ..autograd.dispatch.foreign_operands import refuse_foreign
from ..autograd.dispatch.op_function import Methods, rule_of, table
from ..autograd.engine import hooks, views_and_inplace
from ..autograd.engine.accumulate_grad import AccumulateGrad, RemovableHandle
from ..autograd.engine.backward import backward
from ..autograd.engine.grad_fn import as_grad_fn
from ..autograd.engine.unrecorded_views import is_unrecorded
from ..autograd.grad_mode import FROZEN, recording
from ..cuda_arrays import device_of, move_array, pointer, watch
from ..device import CPU, META, Device, as_device
from ..native import Size
from ..profiler import profiling
from ..storage import TypedStorage, UntypedStorage, owner_of
from . import (
    array_protocols,
    data_elements,
    deepcopy_pickle,
    dlpack,
    fill_map,
    grad_attributes,
    new_tensor,
    pinned,
    python_operators,
    resize_set,
    share_memory,
    strides,
    to_dtype,
    torch_constants,
)
from . import torch_private_names as private_names
from .numpy_ufunc import array_ufunc
from .setitem_value import setitem
from .subclass import as_subclass, register_if_plain, torch_function, with_class

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self

__all__ = ["Size", "Tensor"]


class Tensor(Methods):
    """A multi-dimensional array of one dtype, in memory that processes share.

    Parameters
    ----------
    data : array_like, optional
        The elements, which become the default dtype; or the first of several sizes: `Tensor(2, 3)`,
        whose elements are arbitrary. A tensor is not copied.
    *sizes : int
        The other sizes.
    size : sequence of int, optional
        The shape, in place of sizes.
    **kwargs : Any
        Accepted; have no effect.

    See Also
    --------
    tensor, zeros, from_numpy

    Notes
    -----
    `tensor` is the usual way to make one from data: it keeps the dtype of integers.

    All processes that have the tensor share its memory: they see each other's writes, as threads
    do.

    Operations on tensors with `requires_grad` are recorded; `backward()` of a result adds to the
    `grad` of the leaves that it was computed from.

    Examples
    --------
    >>> x = st.Tensor([[1, 2], [3, 4]])
    >>> x
    tensor([[1., 2.],
            [3., 4.]])
    >>> x.shape, x.dtype, x.device
    (Size([2, 2]), shmtensor.float32, device(type='cpu'))
    >>> w = st.ones(2, requires_grad=True)
    >>> (x @ w).sum().backward()
    >>> w.grad
    tensor([4., 6.])
    """

    __slots__ = ()
    __module__ = "shmtensor"

    array: Any
    node: Any
    version: Any
    keeps_class = True  # whether ops on a subclass return tensors of the subclass

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        register_if_plain(cls)

    __torch_function__: Any = classmethod(torch_function)

    def as_subclass(self, cls: Any) -> Any:
        """The same memory and history as a tensor of a subclass. Copies: none."""
        return as_subclass(self, cls)

    @staticmethod
    def _make_subclass(cls: Any, data: Tensor, require_grad: bool = False) -> Any:
        tensor = as_subclass(data.detach(), cls)
        return tensor.requires_grad_() if require_grad else tensor

    def __new__(cls, data: Any = None, *sizes: int, size: Any = None, **kwargs: Any) -> Self:
        tensor: Any = super().__new__(cls)
        if isinstance(data, native.TensorBase):
            tensor.array = data.array
        else:
            dtype = dtypes.get_default_dtype()
            shape = new_tensor.sizes_of_constructor(() if data is None else (data, *sizes), size)
            if shape is None:
                data_elements.check_depth(data)
                data = data_elements.container_as_array(data, "Tensor")
                try:
                    tensor.array = native.call(np.array, data, dtype)
                except (TypeError, ValueError) as error:
                    raise data_elements.not_an_array(error, data, "Tensor") from None
                data_elements.check_elements(data, "Tensor")
            else:
                tensor.array = native.call(np.empty, shape, dtype)
        return tensor  # type: ignore[no-any-return]

    # ------------------------------------------------------------ shape, dtype, strides

    name: Any = None

    @property
    def device(self) -> Device:
        """The device of the memory.

        See Also
        --------
        to

        Examples
        --------
        >>> st.zeros(2).device
        device(type='cpu')
        """
        return device_of(self.array)

    @property
    def layout(self) -> torch_constants.layout:
        """How the elements are stored: `strided`, of a sparse tensor `sparse_coo`.

        Examples
        --------
        >>> st.zeros(2).layout
        shmtensor.strided
        """
        return torch_constants.strided

    @property
    def is_cuda(self) -> bool:
        """Whether the tensor is on a GPU.

        Examples
        --------
        >>> st.zeros(2).is_cuda
        False
        """
        return device_of(self.array).type == "cuda"

    @property
    def is_cpu(self) -> bool:
        """Whether the tensor is on the CPU.

        Examples
        --------
        >>> st.zeros(2).is_cpu
        True
        """
        return device_of(self.array) is CPU

    @property
    def is_sparse(self) -> bool:
        """Whether the tensor is sparse: False, because `SparseTensor` is a class of its own.

        Examples
        --------
        >>> st.zeros(2).is_sparse
        False
        """
        return False

    @property
    def is_meta(self) -> bool:
        """Whether the tensor has no data: it is on the device "meta".

        Examples
        --------
        >>> st.zeros(2, device="meta").is_meta
        True
        """
        return device_of(self.array) is META

    is_mkldnn = is_mps = is_mtia = is_nested = is_quantized = is_sparse_csr = False
    is_ipu = is_maia = is_vulkan = is_xla = is_xpu = False

    def get_device(self) -> int:
        """The number of the GPU that a tensor is on.

        Parameters
        ----------
        self : Tensor
            The tensor.

        Returns
        -------
        int
            -1 for the CPU.

        See Also
        --------
        device

        Examples
        --------
        >>> st.get_device(st.zeros(2))
        -1
        """
        index = device_of(self.array).index
        return -1 if index is None else index

    @property
    def ndim(self) -> int:
        """The number of dimensions.

        Examples
        --------
        >>> st.zeros(2, 3).ndim
        2
        """
        return self.array.ndim  # type: ignore[no-any-return]

    def dim(self) -> int:
        """The number of dimensions.

        Returns
        -------
        int
            0 for a 0-d tensor.

        Examples
        --------
        >>> st.zeros(2, 3).dim()
        2
        """
        return self.array.ndim  # type: ignore[no-any-return]

    ndimension = dim

    @overload
    def size(self, dim: None = ...) -> Size: ...
    @overload
    def size(self, dim: int) -> int: ...
    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension.

        Parameters
        ----------
        dim : int, optional
            The dimension.

        Returns
        -------
        Size or int
            The shape without `dim`; it is a tuple.

        Raises
        ------
        IndexError
            There is no such dimension.

        Examples
        --------
        >>> x = st.zeros(2, 3)
        >>> x.size(), x.size(-1)
        (Size([2, 3]), 3)
        """
        if dim is None:
            return self.shape
        try:
            return self.array.shape[dim]
        except IndexError:
            n = max(self.ndim, 1)
            raise IndexError(
                f"size: Dimension out of range (expected to be in range of [{-n}, {n - 1}], but "
                f"got {dim}): shape {tuple(self.shape)}"
            ) from None

    def is_same_size(self, other: Tensor) -> bool:
        """Whether two tensors have the same shape.

        Parameters
        ----------
        self : Tensor
            The tensor.
        other : Tensor
            Another one.

        Returns
        -------
        bool
            True for equal shapes; dtypes do not matter.

        See Also
        --------
        equal

        Examples
        --------
        >>> st.is_same_size(st.zeros(2, 3), st.ones(2, 3))
        True
        """
        return self.shape == other.shape

    def numel(self) -> int:
        """The number of elements.

        Returns
        -------
        int
            The product of the sizes.

        Examples
        --------
        >>> st.zeros(2, 3).numel()
        6
        """
        return self.array.size  # type: ignore[no-any-return]

    nelement = numel

    @property
    def itemsize(self) -> int:
        """The number of bytes of an element.

        Examples
        --------
        >>> st.zeros(2).itemsize
        4
        """
        return self.array.itemsize  # type: ignore[no-any-return]

    def element_size(self) -> int:
        """The number of bytes of an element.

        Returns
        -------
        int
            4 for float32.

        Examples
        --------
        >>> st.zeros(2, dtype=st.float64).element_size()
        8
        """
        return self.array.itemsize  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:
        """The number of bytes of all elements.

        Examples
        --------
        >>> st.zeros(2, 3).nbytes
        24
        """
        return self.array.nbytes  # type: ignore[no-any-return]

    @overload
    def stride(self, dim: None = ...) -> tuple[int, ...]: ...
    @overload
    def stride(self, dim: int) -> int: ...
    def stride(self, dim: int | None = None) -> Any:
        """The distances of neighbours in memory.

        Parameters
        ----------
        dim : int, optional
            The dimension; by default all.

        Returns
        -------
        tuple of int or int
            In elements, not in bytes.

        See Also
        --------
        is_contiguous, as_strided

        Examples
        --------
        >>> x = st.zeros(2, 3)
        >>> x.stride(), x.t().stride()
        ((3, 1), (1, 3))
        """
        steps = strides.element_strides(self.array)
        return steps if dim is None else steps[dim]

    def storage_offset(self) -> int:
        """The number of elements between the start of the memory and the first element.

        Returns
        -------
        int
            0 unless the tensor is a view of a later part.

        Examples
        --------
        >>> st.arange(5)[2:].storage_offset()
        2
        """
        start = pointer(self.array) - pointer(owner_of(self.array))
        return start // self.array.itemsize  # type: ignore[no-any-return]

    def dim_order(self) -> tuple[int, ...]:
        """The dimensions from the outermost to the innermost in memory.

        Returns
        -------
        tuple of int
            (0, 1, ...) for row order.

        See Also
        --------
        stride

        Examples
        --------
        >>> st.zeros(2, 3).t().dim_order()
        (1, 0)
        """
        steps = self.array.strides
        return tuple(sorted(range(len(steps)), key=lambda i: -steps[i]))

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie in memory in a given order and without gaps.

        Parameters
        ----------
        memory_format : memory_format, optional
            The order; by default row order.

        Returns
        -------
        bool
            False for most transposed tensors and slices.

        See Also
        --------
        contiguous, stride

        Examples
        --------
        >>> x = st.zeros(2, 3)
        >>> x.is_contiguous(), x.t().is_contiguous()
        (True, False)
        """
        return strides.is_contiguous(self.array, memory_format)

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating-point one.

        Returns
        -------
        bool
            False for complex dtypes.

        Examples
        --------
        >>> st.zeros(2).is_floating_point()
        True
        """
        return self.array.dtype.kind == "f"  # type: ignore[no-any-return]

    def is_complex(self) -> bool:
        """Whether the dtype is a complex one.

        Returns
        -------
        bool
            True for complex64 and complex128.

        Examples
        --------
        >>> st.zeros(2).is_complex()
        False
        """
        return self.array.dtype.kind == "c"  # type: ignore[no-any-return]

    def is_signed(self) -> bool:
        """Whether the dtype of a tensor has negative numbers.

        Parameters
        ----------
        self : Tensor
            The tensor.

        Returns
        -------
        bool
            False for unsigned integers and bool.

        Examples
        --------
        >>> st.is_signed(st.tensor([1])), st.is_signed(st.tensor([True]))
        (True, False)
        """
        return self.array.dtype.kind in "ifc"

    def is_conj(self) -> bool:
        """Whether a tensor is a lazy conjugate, which does not happen here.

        Parameters
        ----------
        self : Tensor
            The tensor.

        Returns
        -------
        bool
            Always False.

        See Also
        --------
        resolve_conj

        Examples
        --------
        >>> st.is_conj(st.tensor([1j]).conj())
        False
        """
        return False

    def is_neg(self) -> bool:
        """Whether a tensor is a lazy negation, which does not happen here.

        Parameters
        ----------
        self : Tensor
            The tensor.

        Returns
        -------
        bool
            Always False.

        See Also
        --------
        resolve_neg

        Examples
        --------
        >>> st.is_neg(-st.ones(2))
        False
        """
        return False

    def is_nonzero(self) -> bool:
        """Whether the only element is not 0.

        Returns
        -------
        bool
            As `bool(x)`.

        Raises
        ------
        RuntimeError
            There is not exactly one element.

        Examples
        --------
        >>> st.tensor([3]).is_nonzero()
        True
        """
        return bool(self)

    # ------------------------------------------------------------ memory

    def data_ptr(self) -> int:
        """The address of the first element.

        Returns
        -------
        int
            On the CPU or on the GPU.

        Examples
        --------
        >>> x = st.zeros(4)
        >>> x[1:].data_ptr() - x.data_ptr()
        4
        """
        return pointer(self.array)

    def const_data_ptr(self) -> int:
        return self.data_ptr()

    def is_set_to(self, tensor: Tensor) -> bool:
        """Whether two tensors are the same view of the same memory.

        Parameters
        ----------
        tensor : Tensor
            Another tensor.

        Returns
        -------
        bool
            True if address, shape and strides are equal.

        Examples
        --------
        >>> x = st.zeros(4)
        >>> x.is_set_to(x.detach()), x.is_set_to(x[1:])
        (True, False)
        """
        a, b = self.array, tensor.array
        return bool(pointer(a) == pointer(b) and a.shape == b.shape and a.strides == b.strides)

    def is_shared(self) -> bool:
        """Whether the memory is in the domain, so that the tensor is sent between processes as a
        handle.

        Returns
        -------
        bool
            True for new tensors, and always on a GPU, as in PyTorch; False for the memory of
            another library, as of `from_numpy`.

        See Also
        --------
        share_memory_, share

        Examples
        --------
        >>> st.zeros(2).is_shared(), st.from_numpy(np.zeros(2)).is_shared()
        (True, False)
        """
        if not isinstance(self.array, np.ndarray):
            return self.is_cuda
        return bool(native.is_shared(self.array))

    def share_memory_(self) -> Self:
        """Moves the tensor into shared memory, unless it is there, with all tensors that share its
        memory.

        Returns
        -------
        Tensor
            The tensor itself. The others stay views of each other.

        See Also
        --------
        is_shared, share

        Notes
        -----
        If something else has that memory (the NumPy array of `from_numpy`, a mapped file), a
        UserWarning says that it does not follow.

        Copies: none or one.

        Examples
        --------
        >>> st.zeros(2).share_memory_().is_shared()
        True
        """
        if not (self.is_shared() or self.is_meta):
            share_memory.move_to_shared_memory([self], warns=True)
        return self

    def share(self, *, readonly: bool = False) -> Tensor:
        """The same memory without history, to be sent to other processes.

        Parameters
        ----------
        readonly : bool, optional
            Whether the result, its views, its NumPy arrays and every receiver's tensor are
            read-only. The original tensor is writable, and they see its writes.

        Returns
        -------
        Tensor
            Over the same memory.

        Raises
        ------
        RuntimeError
            `readonly` for memory on a GPU; later, a write to what is read-only.

        See Also
        --------
        share_memory_, detach

        Notes
        -----
        Copies: none, or one (if the memory is outside the domain, as `share_memory_`).

        Examples
        --------
        >>> weights = st.ones(3)
        >>> view = weights.share(readonly=True)
        >>> view.numpy().flags.writeable
        False
        """
        self.share_memory_()
        tensor = self.detach()
        if readonly:
            if self.is_cuda:
                raise RuntimeError(
                    f"share: memory on {self.device} cannot be read-only: shape "
                    f"{tuple(self.shape)}, use share() or cpu().share(readonly=True)"
                )
            tensor.array = tensor.array.view()
            tensor.array.flags.writeable = False
        return tensor

    def untyped_storage(self) -> UntypedStorage:
        """The tensor's full memory as bytes, which its views share.

        Returns
        -------
        UntypedStorage
            Over the same memory.

        See Also
        --------
        storage.UntypedStorage

        Notes
        -----
        Copies: none.

        Examples
        --------
        >>> st.arange(4)[2:].untyped_storage().nbytes()
        32
        """
        return UntypedStorage(self.array)

    def storage(self) -> TypedStorage:
        """The tensor's full memory as numbers, which its views share.

        Returns
        -------
        TypedStorage
            Over the same memory.

        See Also
        --------
        untyped_storage

        Notes
        -----
        Copies: none.

        Examples
        --------
        >>> len(st.arange(4)[2:].storage())
        4
        """
        return TypedStorage(self.array)

    def is_pinned(self, device: Any = None) -> bool:
        """Whether the memory is page-locked."""
        return pinned.is_pinned(self)

    def pin_memory(self, device: Any = None) -> Tensor:
        """The tensor in page-locked memory, for copies to a GPU; itself if it is there, or if there
        is no GPU. Copies: none or one.
        """
        return pinned.pinned(self)

    def record_stream(self, stream: Any) -> None:
        """Notes that work on a stream uses the memory, which is then used again only when that work
        has ended. Ops note their streams by themselves: this is for work of other libraries.

        Raises:
            NotImplementedError: the tensor is on the CPU.
        """
        pinned.record_stream(self, stream)

    def is_distributed(self) -> bool:
        """Whether a tensor is distributed, as PyTorch understood it.

        Parameters
        ----------
        self : Tensor
            The tensor.

        Returns
        -------
        bool
            Always False, as in PyTorch.

        Examples
        --------
        >>> st.is_distributed(st.ones(2))
        False
        """
        return False

    # ------------------------------------------------------------ views written as attributes

    @property
    def T(self) -> Tensor:
        """The dimensions in reverse order, a view.

        See Also
        --------
        mT, permute

        Notes
        -----
        Copies: none.

        Examples
        --------
        >>> st.tensor([[1, 2], [3, 4]]).T
        tensor([[1, 3],
                [2, 4]])
        """
        return self.permute(tuple(range(self.ndim))[::-1])

    @property
    def mT(self) -> Tensor:
        """The last two dimensions exchanged, a view: matrices transposed.

        See Also
        --------
        transpose

        Notes
        -----
        Copies: none.

        Examples
        --------
        >>> st.zeros(5, 2, 3).mT.shape
        Size([5, 3, 2])
        """
        if self.array.ndim < 2:
            return self._only_scalar("mT", "matrices or batches of matrices")
        return self.transpose(-1, -2)

    @property
    def H(self) -> Tensor:
        """The conjugate transpose of a matrix.

        See Also
        --------
        mH, adjoint

        Notes
        -----
        Copies: none for a real tensor, one for a complex one.

        Examples
        --------
        >>> st.tensor([[1 + 2j, 3]]).H
        tensor([[1.-2.j],
                [3.-0.j]])
        """
        if self.array.ndim != 2:
            return self._only_scalar("H", "matrices (2 dimensions); mH takes batches")
        return self.mT.conj()

    @property
    def mH(self) -> Tensor:
        """The conjugate transpose of a matrix, or of each of a batch.

        See Also
        --------
        adjoint

        Notes
        -----
        Copies: none for a real tensor, one for a complex one.

        Examples
        --------
        >>> st.zeros(5, 2, 3).mH.shape
        Size([5, 3, 2])
        """
        if self.array.ndim < 2:
            return self._only_scalar("mH", "matrices or batches of matrices")
        return self.mT.conj()

    def _only_scalar(self, name: str, allowed: str) -> Tensor:
        """The tensor itself if it has no dimensions."""
        if self.array.ndim:
            raise RuntimeError(f"{name}: only for {allowed}: shape {tuple(self.shape)}")
        return self

    @property
    def real(self) -> Tensor:
        """The real parts, a view; a real tensor itself. Values can be assigned.

        See Also
        --------
        imag

        Notes
        -----
        Copies: none.

        Examples
        --------
        >>> st.tensor([1 + 2j]).real
        tensor([1.])
        """
        if self.array.dtype.kind != "c":  # the same object, so a leaf remains one
            return self
        return table.real(self)  # type: ignore[no-any-return]

    @real.setter
    def real(self, value: Any) -> None:
        table.real(self).copy_(value)

    @property
    def imag(self) -> Tensor:
        """The imaginary parts of a complex tensor, a view. Values can be assigned.

        Raises
        ------
        RuntimeError
            The tensor is not complex.

        See Also
        --------
        real

        Notes
        -----
        Copies: none.

        Examples
        --------
        >>> st.tensor([1 + 2j]).imag
        tensor([2.])
        """
        return table.imag(self)  # type: ignore[no-any-return]

    @imag.setter
    def imag(self, value: Any) -> None:
        table.imag(self).copy_(value)

    # ------------------------------------------------------------ autograd

    @property
    def requires_grad(self) -> bool:
        """Whether operations on the tensor are recorded for gradients. It can be set for leaves.

        See Also
        --------
        requires_grad_, detach

        Examples
        --------
        >>> st.ones(2, requires_grad=True).requires_grad
        True
        """
        return views_and_inplace.requires_grad(self)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise RuntimeError(f"requires_grad: must be a bool: {value!r}")
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Starts, or stops, recording operations on this leaf for its gradient.

        Parameters
        ----------
        requires_grad : bool, optional
            False stops.

        Returns
        -------
        Tensor
            The tensor itself.

        Raises
        ------
        RuntimeError
            The dtype is of integers, or a tensor that is not a leaf shall stop: `detach()` does
            that.

        See Also
        --------
        backward, detach, no_grad

        Examples
        --------
        >>> x = st.tensor([1., 2.]).requires_grad_()
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([2., 4.])
        """
        node = views_and_inplace.node_of(self)
        if requires_grad and node is None:
            grad_attributes.start_recording(self)
        elif not requires_grad and node is not None:
            grad_attributes.stop_recording(self, node)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor is no result of recorded operations: `backward` adds to `grad` of
        leaves.

        See Also
        --------
        retain_grad

        Examples
        --------
        >>> x = st.ones(2, requires_grad=True)
        >>> x.is_leaf, (x * 2).is_leaf
        (True, False)
        """
        node = views_and_inplace.node_of(self)
        return node is None or node.__class__ is AccumulateGrad or is_unrecorded(node)

    @property
    def grad_fn(self) -> Any:
        """The node of the graph that computed the tensor; None for a leaf.

        See Also
        --------
        is_leaf

        Examples
        --------
        >>> st.ones(2).grad_fn is None
        True
        """
        node = views_and_inplace.node_of(self)
        if node is None or node.__class__ is AccumulateGrad or is_unrecorded(node):
            return None
        return as_grad_fn(node.node if node.__class__ is native.Port else node)

    @property
    def output_nr(self) -> int:
        node = views_and_inplace.node_of(self)
        return node.index if node.__class__ is native.Port else 0

    @property
    def grad(self) -> Tensor | None:
        """The gradients that backwards have added up so far, or None. It can be set.

        Only leaves that require gradients get one, and tensors with `retain_grad()`; for other
        tensors it is None, with a UserWarning.

        See Also
        --------
        backward, retain_grad

        Examples
        --------
        >>> x = st.ones(2, requires_grad=True)
        >>> x.sum().backward()
        >>> x.grad
        tensor([1., 1.])
        """
        if self.accumulate_grad is not None:
            gradient: Tensor | None = self.accumulate_grad.grad
            return gradient
        if not self.is_leaf:
            grad_attributes.warn_of_no_grad(self)
        return None

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            grad_attributes.set_grad(self, value)
        elif self.accumulate_grad is not None:
            self.accumulate_grad.grad = None

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    _grad = grad
    _grad_fn = property(lambda self: self.grad_fn, private_names.set_grad_fn)
    _backward_hooks = property(private_names.backward_hooks, private_names.set_backward_hooks)
    _post_accumulate_grad_hooks = property(
        private_names.post_accumulate_grad_hooks, private_names.set_post_accumulate_grad_hooks
    )
    _is_param = private_names.Unsupported("nn.Parameter(tensor) makes a parameter")
    _is_buffer = private_names.Unsupported("nn.Buffer(tensor) makes a buffer")
    _cdata = private_names.Unsupported("data_ptr() or id() tells tensors apart")
    _python_dispatch = private_names.Unsupported("__torch_function__ of a subclass sees its ops")
    _has_symbolic_sizes_strides = private_names.Unsupported("sizes are always numbers")

    @property
    def retains_grad(self) -> bool:
        """Whether backward sets `grad` although the tensor is not a leaf.

        See Also
        --------
        retain_grad

        Examples
        --------
        >>> st.ones(2).retains_grad
        False
        """
        return self.accumulate_grad is not None and self.node is not self.accumulate_grad

    def retain_grad(self) -> None:
        """Makes backward set `.grad` of this tensor, although it is not a leaf.

        See Also
        --------
        register_hook

        Examples
        --------
        >>> x = st.ones(2, requires_grad=True)
        >>> y = x * 3
        >>> y.retain_grad()
        >>> (y * y).sum().backward()
        >>> y.grad
        tensor([6., 6.])
        """
        views_and_inplace.retain(self)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Calls a function whenever the tensor's gradient is computed.

        Parameters
        ----------
        hook : callable
            `hook(grad)`; a result other than None replaces the gradient.

        Returns
        -------
        RemovableHandle
            Its `remove()` takes the hook away.

        See Also
        --------
        register_post_accumulate_grad_hook

        Examples
        --------
        >>> x = st.ones(2, requires_grad=True)
        >>> handle = x.register_hook(lambda grad: 10 * grad)
        >>> x.sum().backward()
        >>> x.grad
        tensor([10., 10.])
        """
        return hooks.register(self, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Calls a function after backward has added to this leaf's `.grad`.

        Parameters
        ----------
        hook : callable
            `hook(tensor)`.

        Returns
        -------
        RemovableHandle
            Its `remove()` takes the hook away.

        See Also
        --------
        register_hook

        Notes
        -----
        An optimizer can step there, and free the gradient at once.

        Examples
        --------
        >>> x = st.ones(2, requires_grad=True)
        >>> handle = x.register_post_accumulate_grad_hook(lambda x: print(x.grad))
        >>> x.sum().backward()
        tensor([1., 1.])
        """
        return hooks.post_accumulate(self, hook)

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Computes the gradients of the leaves that this tensor was computed from, and adds them to
        `.grad`.

        Parameters
        ----------
        gradient : Tensor, optional
            The gradient by this tensor, of its shape; 1 for a tensor of one element.
        retain_graph : bool, optional
            Whether another backward can follow; by default as `create_graph`.
        create_graph : bool, optional
            Whether the gradients have a history themselves, for derivatives of higher order.
        inputs : sequence of Tensor, optional
            The leaves whose `.grad` is computed; by default all.

        Raises
        ------
        RuntimeError
            The tensor has no history; or it has several elements and `gradient` is missing; or the
            graph was freed by an earlier backward; or a value that is needed was written in place.

        See Also
        --------
        autograd.backward, autograd.grad, no_grad

        Notes
        -----
        Gradients add up over calls: set `x.grad = None`, or `optimizer.zero_grad()`, before the
        next step.

        Examples
        --------
        >>> x = st.tensor([1., 2.], requires_grad=True)
        >>> (x ** 2).sum().backward()
        >>> x.grad
        tensor([2., 4.])
        >>> (x * 3).backward(gradient=st.tensor([1., 0.]))
        >>> x.grad
        tensor([5., 4.])
        """
        backward(self, gradient, retain_graph, create_graph, inputs)

    def detach(self) -> Tensor:
        """The same memory as a tensor without history.

        Parameters
        ----------
        self : Tensor
            The tensor.

        Returns
        -------
        Tensor
            A leaf that does not require grad; writes to one of the two are seen in the other.

        See Also
        --------
        clone, no_grad

        Notes
        -----
        Copies: none. A write in place is counted for both, so that a backward that needs the old
        values raises an error.

        Examples
        --------
        >>> x = st.ones(2, requires_grad=True) * 2
        >>> y = st.detach(x)
        >>> y.requires_grad, y
        (False, tensor([2., 2.]))
        """
        began = profiling.begin() if profiling.on else 0
        tensor: Tensor = native.wrap(self.array)
        tensor.version = self.version = self.version or native.Version()
        if began:
            profiling.end(began, "detach", profiling.OP)
        if self.__class__ is native.plain_class() or not self.keeps_class:
            return tensor
        return with_class(tensor, type(self))  # type: ignore[no-any-return]

    def detach_(self) -> Self:
        """Drops the history of this tensor, in place.

        Returns
        -------
        Tensor
            The tensor itself, now a leaf that does not require grad.

        Raises
        ------
        RuntimeError
            It is a view.

        See Also
        --------
        detach

        Examples
        --------
        >>> x = st.ones(2, requires_grad=True) * 2
        >>> x.detach_().requires_grad
        False
        """
        if self.base is not None:
            raise RuntimeError(
                f"detach_: can't detach views in-place: shape {tuple(self.shape)}, use detach() "
                "instead"
            )
        self.node = None
        return self

    @property
    def data(self) -> Tensor:
        """The same memory without history; writes to it are not counted. A tensor can be assigned.

        See Also
        --------
        detach

        Notes
        -----
        A backward that needs old values does not notice such a write: `detach()` is safer.

        Copies: none.

        Examples
        --------
        >>> x = st.ones(2, requires_grad=True)
        >>> x.data.fill_(5)
        tensor([5., 5.])
        """
        return native.wrap(self.array)  # type: ignore[no-any-return]

    @data.setter
    def data(self, value: Tensor) -> None:
        grad_attributes.set_data(self, value)

    @property
    def _version(self) -> int:
        if self.version is FROZEN:
            raise RuntimeError("_version: Inference tensors do not track version counter.")
        return 0 if self.version is None else self.version.count

    @property
    def _base(self) -> Any:
        return None if self.base is None else views_and_inplace.root_and_steps(self)[0]

    def _is_view(self) -> bool:
        return self._base is not None

    def is_inference(self) -> bool:
        """Whether a tensor was made in `inference_mode`.

        Parameters
        ----------
        self : Tensor
            The tensor.

        Returns
        -------
        bool
            True if it was.

        See Also
        --------
        inference_mode

        Examples
        --------
        >>> with st.inference_mode():
        ...     x = st.ones(2)
        >>> st.is_inference(x)
        True
        """
        return self.version is FROZEN

    # ------------------------------------------------------------ indices, writes

    if not TYPE_CHECKING:  # the stub of Methods has its types
        __getitem__ = rule_of("_getitem").public
    __setitem__ = setitem

    def __delitem__(self, index: Any) -> None:
        raise TypeError(f"delitem: a Tensor cannot lose items: {index!r}")

    def copy_(self, src: Any, non_blocking: bool = False) -> Tensor:
        """Writes another tensor's values into this one.

        Parameters
        ----------
        src : Tensor
            Of any dtype and on any device; broadcast to this shape.
        non_blocking : bool, optional
            Accepted; has no effect.

        Returns
        -------
        Tensor
            The tensor itself.

        Raises
        ------
        RuntimeError
            `src` cannot be broadcast to this shape.

        See Also
        --------
        clone, fill_

        Examples
        --------
        >>> x = st.zeros(2, 3)
        >>> x.copy_(st.tensor([1, 2, 3]))
        tensor([[1., 2., 3.],
                [1., 2., 3.]])
        """
        if not isinstance(self.array, np.ndarray) and isinstance(src, native.TensorBase):
            src = to_dtype.to_device(src, self.device)  # type: ignore[arg-type]
        return table.copy_(self, src)  # type: ignore[no-any-return]

    def fill_(self, value: Any) -> Tensor:
        """Writes one value to all elements.

        Parameters
        ----------
        value : number or Tensor
            A number, or a 0-d tensor.

        Returns
        -------
        Tensor
            The tensor itself.

        See Also
        --------
        zero_, full, copy_

        Examples
        --------
        >>> st.empty(2).fill_(7)
        tensor([7., 7.])
        """
        return fill_map.fill_(self, value)

    def zero_(self) -> Tensor:
        """Writes 0 to all elements.

        Returns
        -------
        Tensor
            The tensor itself.

        See Also
        --------
        fill_

        Examples
        --------
        >>> st.ones(2).zero_()
        tensor([0., 0.])
        """
        return self.fill_(0)

    def fill_diagonal_(self, fill_value: Any, wrap: bool = False) -> Tensor:
        """Writes a number on the main diagonal.

        Parameters
        ----------
        fill_value : number
            The number.
        wrap : bool, optional
            Whether a matrix with more rows than columns gets further diagonals, as NumPy's.

        Returns
        -------
        Tensor
            The tensor itself.

        Raises
        ------
        RuntimeError
            There are fewer than two dimensions, or more than two that differ in size.

        Examples
        --------
        >>> st.zeros(2, 3).fill_diagonal_(5)
        tensor([[5., 0., 0.],
                [0., 5., 0.]])
        """
        return fill_map.fill_diagonal_(self, fill_value, wrap)

    def apply_(self, callable: Callable[[Any], Any]) -> Tensor:
        """Writes the result of a Python function of each element over it; slow.

        Parameters
        ----------
        callable : callable
            `callable(x)`, of a Python number.

        Returns
        -------
        Tensor
            The tensor itself.

        Examples
        --------
        >>> st.tensor([1., 2.]).apply_(lambda x: x * 10)
        tensor([10., 20.])
        """
        return fill_map.write_map(callable, self)

    def map_(self, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
        """Writes the result of a Python function of each pair of elements over the first; slow.

        Parameters
        ----------
        tensor : Tensor
            The second elements.
        callable : callable
            `callable(x, y)`, of Python numbers.

        Returns
        -------
        Tensor
            The tensor itself.

        Examples
        --------
        >>> st.tensor([1., 2.]).map_(st.tensor([5., 6.]), lambda x, y: x + y)
        tensor([6., 8.])
        """
        return fill_map.write_map(callable, self, tensor)

    def map2_(
        self, tensor1: Tensor, tensor2: Tensor, callable: Callable[[Any, Any, Any], Any]
    ) -> Tensor:
        """Writes `callable(x, y, z)` over each element; slow, in Python."""
        return fill_map.write_map(callable, self, tensor1, tensor2)

    def polygamma(self, n: int) -> Tensor:
        """The n-th derivative of `digamma`."""
        return table.polygamma(n, self)  # type: ignore[no-any-return]

    def polygamma_(self, n: int) -> Tensor:
        """`polygamma` in place."""
        # backward needs the old value
        return table._overwrite_(self, table.polygamma(n, self.clone()))  # type: ignore[no-any-return]

    # ------------------------------------------------------------ another view of memory, in place

    def t_(self) -> Self:
        """`t` in place. Copies: none."""
        return resize_set.become_view(self, "t")

    def transpose_(self, dim0: int, dim1: int) -> Self:
        """`transpose` in place. Copies: none."""
        return resize_set.become_view(self, "transpose", dim0, dim1)

    swapaxes_ = transpose_
    swapdims_ = transpose_

    def squeeze_(self, dim: Any = None) -> Self:
        """`squeeze` in place. Copies: none."""
        return resize_set.become_view(self, "squeeze", *(() if dim is None else (dim,)))

    def unsqueeze_(self, dim: int) -> Self:
        """`unsqueeze` in place. Copies: none."""
        return resize_set.become_view(self, "unsqueeze", dim)

    def as_strided_(self, size: Any, stride: Any, storage_offset: int | None = None) -> Self:
        """`as_strided` in place. Copies: none."""
        return resize_set.become_view(self, "as_strided", size, stride, storage_offset)

    def resize_(self, *sizes: Any, size: Any = None, memory_format: Any = None) -> Self:
        """Changes the shape, and takes more memory if it has to.

        Parameters
        ----------
        *sizes : int
            The shape, as several sizes or one sequence.
        size : sequence of int, optional
            The shape, in place of sizes.
        memory_format : memory_format, optional
            The order of the dimensions in memory; row order by default.

        Returns
        -------
        Tensor
            The tensor itself: its elements are those in memory from the first one on.

        Raises
        ------
        RuntimeError
            It requires grad, or a size is negative.

        See Also
        --------
        reshape, view

        Notes
        -----
        If the memory is too small, the tensor gets new memory of its own, in which the additional
        elements are uninitialized.

        Copies: none, or one of the whole memory.

        Examples
        --------
        >>> x = st.arange(6)
        >>> x.resize_(2, 2)
        tensor([[0, 1],
                [2, 3]])
        """
        return resize_set.resize_(self, sizes if size is None else (size,), memory_format)

    def resize(self, *sizes: Any) -> Tensor:
        """A tensor of another shape: `reshape` for the same number of elements, else a resized copy
        without history (deprecated in PyTorch: `resize_`).
        """
        shape = tuple(sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes)
        if math.prod(shape) == self.array.size:
            return self.reshape(shape)
        return self.detach().clone().resize_(*sizes)

    def resize_as(self, tensor: Tensor) -> Tensor:
        """`resize` to the shape of another tensor."""
        return self.resize(*tensor.shape)

    def resize_as_(self, tensor: Tensor, memory_format: Any = None) -> Self:
        """Takes the shape of another tensor, as `resize_`.

        Parameters
        ----------
        tensor : Tensor
            Whose shape is taken.
        memory_format : memory_format, optional
            The order of the dimensions in memory; `preserve_format`: channels last if the other
            tensor is.

        Returns
        -------
        Tensor
            The tensor itself.

        See Also
        --------
        resize_

        Examples
        --------
        >>> st.arange(6).resize_as_(st.zeros(2, 2))
        tensor([[0, 1],
                [2, 3]])
        """
        if memory_format is torch_constants.preserve_format:
            is_channels_last = native.suggests_channels_last(tensor.array)
            channels_last = (
                torch_constants.channels_last
                if tensor.ndim == 4
                else torch_constants.channels_last_3d
            )
            memory_format = channels_last if is_channels_last else None
        return self.resize_(tensor.shape, memory_format=memory_format)

    def set_(
        self, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None
    ) -> Self:
        """Makes this tensor use another one's memory, or none.

        Parameters
        ----------
        source : Tensor or storage, optional
            Whose memory is used; None: a tensor without elements.
        storage_offset : int, optional
            Where the first element is.
        size, stride : sequence of int, optional
            The shape and strides; by default those of `source`.

        Returns
        -------
        Tensor
            The tensor itself.

        Raises
        ------
        RuntimeError
            The dtypes differ.

        Notes
        -----
        Copies: none.

        Examples
        --------
        >>> x, y = st.zeros(2), st.tensor([1., 2., 3.])
        >>> x.set_(y)
        tensor([1., 2., 3.])
        """
        return resize_set.set_(self, source, storage_offset, size, stride)

    # ------------------------------------------------------------ copies, and new ones like it

    def contiguous(self, memory_format: Any = None) -> Tensor:
        """The tensor itself if its elements lie in memory in order and without gaps, else a copy
        that does.

        Parameters
        ----------
        memory_format : memory_format, optional
            The order, as for `clone`; row order by default.

        Returns
        -------
        Tensor
            Of the same shape.

        See Also
        --------
        is_contiguous, clone

        Notes
        -----
        Copies: none or one.

        Examples
        --------
        >>> x = st.zeros(2, 3)
        >>> x.contiguous() is x, x.t().contiguous().stride()
        (True, (2, 1))
        """
        if memory_format is not None and strides.is_channels_last(memory_format, self.array):
            return (
                self if self.is_contiguous(memory_format) else table._contiguous_channels_last(self)
            )
        return self if self.array.flags.c_contiguous else table._contiguous(self)

    def new_tensor(
        self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: Any = False
    ) -> Tensor:
        """A new tensor from data, in the dtype and on the device of this one.

        Parameters
        ----------
        data : array_like
            What `tensor` takes.
        dtype : dtype, optional
            By default that of this tensor.
        device : Device or str, optional
            By default that of this tensor.
        requires_grad : bool, optional
            Whether operations on the result are recorded for its gradient.

        Returns
        -------
        Tensor
            A leaf.

        See Also
        --------
        tensor, new_full

        Notes
        -----
        Copies: one, and another to a GPU.

        Examples
        --------
        >>> st.zeros(1, dtype=st.float64).new_tensor([1, 2])
        tensor([1., 2.], dtype=shmtensor.float64)
        """
        target = self.dtype if dtype is None else dtype
        tensor = new_tensor.new_tensor(data, target, device, self.array)
        return tensor.requires_grad_() if requires_grad else tensor

    def chalf(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not there.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "chalf: NumPy has no complex numbers of 16-bit parts: use complex64"
        )

    def new(self, *data: Any, size: Any = None, device: Any = None) -> Tensor:
        """A tensor of the same dtype, as the old constructors make it: uninitialised, of sizes or a
        `Size`; else from data, or over another tensor's memory. Copies: none, or one of data.
        """
        sizes = new_tensor.sizes_of_constructor(data, size)
        if sizes is not None:
            return table.new_empty(self, sizes, device=device)  # type: ignore[no-any-return]
        if isinstance(data[0], native.TensorBase) and data[0].dtype is self.dtype:
            return data[0].detach()  # type: ignore[attr-defined, no-any-return]
        return self.new_tensor(*data, device=device)

    def __copy__(self) -> Tensor:
        gradient = None if self.accumulate_grad is None else self.accumulate_grad.grad
        tensor = deepcopy_pickle.make_tensor(type(self), self.array, self.requires_grad, gradient)
        if attributes := getattr(self, "__dict__", None):
            tensor.__dict__.update(attributes)
        return tensor

    def __deepcopy__(self, memo: dict[Any, Any]) -> Tensor:
        """A leaf's copy has memory and `.grad` of its own; the copies of tensors that share memory
        share theirs. Copies: one, of all the memory that the tensor is a view of.
        """
        return deepcopy_pickle.deepcopy(self, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Plain pickle copies the whole memory, once for all tensors of one pickle that are views
        of it, and keeps the strides. Between processes, the pickler of `multiprocessing` sends a
        handle instead.
        """
        return deepcopy_pickle.reduce(self)

    # ------------------------------------------------------------ NumPy, Python, DLPack

    def numpy(self, *, force: bool = False) -> NDArray[Any]:
        """A NumPy array over the same memory.

        Parameters
        ----------
        force : bool, optional
            Whether a tensor that requires grad is detached, and one on a GPU copied to the CPU.

        Returns
        -------
        ndarray
            Writes to one of the two are seen in the other.

        Raises
        ------
        RuntimeError
            The tensor requires grad, in grad mode, and not `force`.
        TypeError
            It is on a GPU: `x.cpu().numpy()` copies it. Or it is of bfloat16, because NumPy has no
            such dtype: `x.float().numpy()` has the values, `x.view(st.uint16).numpy()` the bits.

        See Also
        --------
        from_numpy, detach

        Notes
        -----
        Copies: none.

        Examples
        --------
        >>> x = st.zeros(2)
        >>> array = x.numpy()
        >>> array[0] = 7
        >>> x
        tensor([7., 0.])
        """
        if not force and views_and_inplace.node_of(self) is not None and recording.get():
            raise array_protocols.needs_detach(self)
        if self.array.dtype is dtypes.bfloat16:
            raise array_protocols.needs_float(self)
        if not isinstance(self.array, np.ndarray):
            if force:
                return self.detach().cpu().array  # type: ignore[no-any-return]
            raise array_protocols.needs_cpu(self)
        return self.array

    def to_numpy(self) -> Any:
        """As `numpy()`, by the name that matplotlib asks for. Copies: none."""
        return self.numpy()

    def item(self) -> int | float | bool:
        """The only element as a Python number.

        Returns
        -------
        int, float, bool or complex
            The number.

        Raises
        ------
        RuntimeError
            There is not exactly one element.

        See Also
        --------
        tolist

        Notes
        -----
        On a GPU it waits for the work that computes the number.

        Examples
        --------
        >>> st.tensor([2.5]).item()
        2.5
        """
        if self.array.size != 1:
            raise RuntimeError(
                f"item: a Tensor with {self.array.size} elements cannot be converted to Scalar: "
                f"shape {tuple(self.shape)}"
            )
        value = self.array.item()
        if watch.waits and not isinstance(self.array, np.ndarray):
            watch.check_waits()
        return value  # type: ignore[no-any-return]

    def tolist(self) -> list[Any]:
        """The elements as nested lists of Python numbers.

        Returns
        -------
        list
            A number for a 0-d tensor.

        See Also
        --------
        numpy, item

        Notes
        -----
        Copies: one.

        Examples
        --------
        >>> st.tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        array = self.array
        if array.__class__ is not np.ndarray and native.is_array(array) and not self.is_meta:
            array = move_array(array, CPU)
        return array.tolist()  # type: ignore[no-any-return]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if dtype is None and not copy:
            return self.numpy()
        if dtype is not None and self.array.dtype is dtypes.bfloat16:  # the values
            return table._to_copy(self, dtypes.float32).numpy().astype(dtype)
        return np.array(self.numpy(), dtype, copy=copy)

    __array_priority__ = 1000

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return array_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from .numpy_function import array_function  # imported on first use

        return array_function(func, types, args, kwargs)

    @property
    def __array_interface__(self) -> Any:
        if self.array.dtype is dtypes.bfloat16:  # its name would be float16's
            raise AttributeError("__array_interface__: NumPy has no name for bfloat16")
        return self.numpy().__array_interface__

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        """`shmtensor.array_api`, the namespace of the Python array API standard.

        Raises:
            ValueError: the version of the standard is not supported.
        """
        return array_protocols.array_namespace(api_version)

    def __dlpack__(self, *, stream: Any = None, **kwargs: Any) -> Any:
        """A DLPack capsule of the memory; read-only memory stays read-only. Copies: none.

        Args:
            stream: for a tensor on a GPU the consumer's stream, which waits for the queued work:
                None or 1 the legacy default stream, 2 that of the thread, -1 no order, or the
                address of a stream.

        Raises:
            BufferError: the tensor requires grad; `stream` is none of these, or not None on the
                CPU.
        """
        return dlpack.capsule_of(self, stream, kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()  # type: ignore[no-any-return]

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return dlpack.cuda_array_interface(self)

    @property
    def __cupy_get_ndarray__(self) -> Callable[[], Any]:
        """CuPy's functions call it, so that they take tensors on GPUs. Copies: none."""
        array = dlpack.cuda_array_of(self, "__cupy_get_ndarray__")
        return lambda: array

    # ------------------------------------------------------------ Python's syntax

    def __repr__(self) -> str:
        return python_operators.text(self)

    def __format__(self, spec: str) -> str:
        is_number = self.array.ndim == 0 and type(self) is native.plain_class()
        if is_number and (spec or not self.is_meta):  # as the number
            return format(self.item(), spec)
        return repr(self) if not spec else object.__format__(self, spec)

    def __len__(self) -> int:
        if self.array.ndim == 0:
            raise TypeError("len: len() of a 0-d tensor: shape (), hint: numel() is 1")
        return self.array.shape[0]  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Tensor]:
        if self.array.ndim == 0:
            raise TypeError("iter: iteration over a 0-d tensor: shape (), hint: item()")
        return iter(self.unbind(0))

    def __reversed__(self) -> Tensor:
        """All dimensions flipped, as in PyTorch; a 0-d tensor itself."""
        return table.flip(self, tuple(range(self.array.ndim))) if self.array.ndim else self

    def __contains__(self, value: Any) -> bool:
        return python_operators.contains(self, value)

    def __bool__(self) -> bool:
        if self.array.size != 1:
            raise python_operators.ambiguous(self)
        return bool(self.item() if watch.waits else self.array.item())

    def __int__(self) -> int:
        return int(python_operators.real_number(self, "int"))

    def __float__(self) -> float:
        return float(python_operators.real_number(self, "float"))

    def __complex__(self) -> complex:
        return complex(python_operators.single_number(self, "complex"))

    def __index__(self) -> int:
        return python_operators.index_of_single(self)

    def __hash__(self) -> int:
        return id(self)

    # ------------------------------------------------------------ other dtypes and devices
    # Last, because from here on the names `bool`, `float`, `int` and `type` are methods.

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """The tensor with another dtype or on another device; itself if nothing changes.

        Parameters
        ----------
        *args : dtype, Device, str or Tensor
            Forms: `to(dtype)`, `to(device, dtype=None)`, `to(other)`, which takes both from another
            tensor.
        **kwargs : Any
            `dtype`, `device`, and `copy=True`, which always copies; `non_blocking` and
            `memory_format`.

        Returns
        -------
        Tensor
            The gradient comes back in the old dtype and on the old device.

        Raises
        ------
        DeviceMissing
            The device is not there.
        TypeError
            A name is neither a device's nor a dtype's.

        See Also
        --------
        cpu, cuda, type_as

        Notes
        -----
        Copies: none or one.

        Examples
        --------
        >>> x = st.tensor([1, 2])
        >>> x.to(st.float32)
        tensor([1., 2.])
        >>> x.to("cpu") is x
        True
        """
        if not kwargs and len(args) == 1 and isinstance(args[0], dtypes.CLASSES):
            dtype = dtypes.as_dtype(args[0])
            return self if dtype is self.array.dtype else table._to_copy(self, dtype)
        return to_dtype.to(self, args, kwargs)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """The tensor on a device, by the name of the array API: `to(device)`.

        Parameters
        ----------
        device : Device or str
            The device.
        stream : stream, optional
            Of a GPU, or its address, on which to copy; None: the current one.

        Returns
        -------
        Tensor
            Itself if it is there.

        See Also
        --------
        to

        Examples
        --------
        >>> st.zeros(2).to_device("cpu").device
        device(type='cpu')
        """
        return to_dtype.to_on_stream(self, as_device(device), stream)

    def type_as(self, other: Tensor) -> Tensor:
        """The tensor with the dtype and on the device of another.

        Parameters
        ----------
        other : Tensor
            The other tensor.

        Returns
        -------
        Tensor
            Itself if nothing changes.

        See Also
        --------
        to

        Examples
        --------
        >>> st.tensor([1, 2]).type_as(st.zeros(1))
        tensor([1., 2.])
        """
        refuse_foreign("type_as", (other,))
        return self.to(other.device, other.array.dtype)

    def cpu(self, memory_format: Any = None) -> Tensor:
        """The tensor on the CPU; itself if it is there.

        Parameters
        ----------
        memory_format : memory_format, optional
            Accepted; has no effect.

        Returns
        -------
        Tensor
            On the CPU.

        See Also
        --------
        to, cuda

        Notes
        -----
        Copies: none or one.

        Examples
        --------
        >>> st.zeros(2).cpu().device
        device(type='cpu')
        """
        return to_dtype.to_device(self, CPU)

    def cuda(
        self, device: Any = None, non_blocking: bool = False, memory_format: Any = None
    ) -> Tensor:
        """The tensor on a GPU; itself if it is there.

        Parameters
        ----------
        device : Device, str or int, optional
            The GPU; by default the current one.
        non_blocking : bool, optional
            Accepted; has no effect.
        memory_format : memory_format, optional
            Accepted; has no effect.

        Returns
        -------
        Tensor
            On the GPU.

        Raises
        ------
        DeviceMissing
            There is none.

        See Also
        --------
        to, cpu

        Notes
        -----
        Copies: none or one.
        """
        return to_dtype.to_device(self, as_device("cuda" if device is None else device))

    @overload
    def type(self, dtype: None = ..., non_blocking: bool = ...) -> str: ...
    @overload
    def type(self, dtype: Any, non_blocking: bool = ...) -> Tensor: ...
    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The old name of the tensor's type, or the tensor in another dtype.

        Parameters
        ----------
        dtype : dtype, class or str, optional
            A dtype, or an old name, which says the device, too: "shmtensor.cuda.FloatTensor". None
            asks for the name.
        non_blocking : bool, optional
            Accepted; has no effect.

        Returns
        -------
        str or Tensor
            The name, or the tensor; itself if nothing changes.

        See Also
        --------
        to

        Examples
        --------
        >>> x = st.zeros(2)
        >>> x.type(), x.type(st.int64).dtype
        ('shmtensor.FloatTensor', shmtensor.int64)
        """
        if dtype is None:
            return to_dtype.type_name(self.array)
        return to_dtype.to_type(self, dtype)

    def float(self, memory_format: Any = None) -> Tensor:
        """The tensor in float32; itself if it is of that dtype.

        Parameters
        ----------
        memory_format : memory_format, optional
            Accepted; has no effect.

        Returns
        -------
        Tensor
            The nearest numbers of the dtype.

        See Also
        --------
        to

        Notes
        -----
        Copies: none or one.

        Examples
        --------
        >>> st.tensor([1, 2]).float()
        tensor([1., 2.])
        """
        return self.to(dtypes.float32)

    def double(self, memory_format: Any = None) -> Tensor:
        """The tensor in float64; itself if it is of that dtype.

        Parameters
        ----------
        memory_format : memory_format, optional
            Accepted; has no effect.

        Returns
        -------
        Tensor
            The nearest numbers of the dtype.

        See Also
        --------
        to

        Notes
        -----
        Copies: none or one.

        Examples
        --------
        >>> st.tensor([1, 2]).double()
        tensor([1., 2.], dtype=shmtensor.float64)
        """
        return self.to(dtypes.float64)

    def half(self, memory_format: Any = None) -> Tensor:
        """The tensor in float16; itself if it is of that dtype.

        Parameters
        ----------
        memory_format : memory_format, optional
            Accepted; has no effect.

        Returns
        -------
        Tensor
            The nearest numbers of the dtype.

        See Also
        --------
        to

        Notes
        -----
        Copies: none or one.

        Examples
        --------
        >>> st.tensor([1, 2]).half()
        tensor([1., 2.], dtype=shmtensor.float16)
        """
        return self.to(dtypes.float16)

    def bfloat16(self, memory_format: Any = None) -> Tensor:
        """The tensor in bfloat16; itself if it is of that dtype.

        Parameters
        ----------
        memory_format : memory_format, optional
            Accepted; has no effect.

        Returns
        -------
        Tensor
            The nearest numbers of the dtype.

        See Also
        --------
        to

        Notes
        -----
        Copies: none or one.

        Examples
        --------
        >>> st.tensor([1, 2]).bfloat16()
        tensor([1., 2.], dtype=shmtensor.bfloat16)
        """
        return self.to(dtypes.bfloat16)

    def int(self, memory_format: Any = None) -> Tensor:
        """The tensor in int32; itself if it is of that dtype.

        Parameters
        ----------
        memory_format : memory_format, optional
            Accepted; has no effect.

        Returns
        -------
        Tensor
            Fractions are cut off.

        See Also
        --------
        to

        Notes
        -----
        Copies: none or one.

        Examples
        --------
        >>> st.tensor([1.5, 2.]).int()
        tensor([1, 2], dtype=shmtensor.int32)
        """
        return self.to(dtypes.int32)

    def long(self, memory_format: Any = None) -> Tensor:
        """The tensor in int64; itself if it is of that dtype.

        Parameters
        ----------
        memory_format : memory_format, optional
            Accepted; has no effect.

        Returns
        -------
        Tensor
            Fractions are cut off.

        See Also
        --------
        to

        Notes
        -----
        Copies: none or one.

        Examples
        --------
        >>> st.tensor([1.5, 2.]).long()
        tensor([1, 2])
        """
        return self.to(dtypes.int64)

    def short(self, memory_format: Any = None) -> Tensor:
        """The tensor in int16; itself if it is of that dtype.

        Parameters
        ----------
        memory_format : memory_format, optional
            Accepted; has no effect.

        Returns
        -------
        Tensor
            Fractions are cut off.

        See Also
        --------
        to

        Notes
        -----
        Copies: none or one.

        Examples
        --------
        >>> st.tensor([1.5, 2.]).short()
        tensor([1, 2], dtype=shmtensor.int16)
        """
        return self.to(dtypes.int16)

    def char(self, memory_format: Any = None) -> Tensor:
        """The tensor in int8; itself if it is of that dtype.

        Parameters
        ----------
        memory_format : memory_format, optional
            Accepted; has no effect.

        Returns
        -------
        Tensor
            Fractions are cut off.

        See Also
        --------
        to

        Notes
        -----
        Copies: none or one.

        Examples
        --------
        >>> st.tensor([1.5, 2.]).char()
        tensor([1, 2], dtype=shmtensor.int8)
        """
        return self.to(dtypes.int8)

    def byte(self, memory_format: Any = None) -> Tensor:
        """The tensor in uint8; itself if it is of that dtype.

        Parameters
        ----------
        memory_format : memory_format, optional
            Accepted; has no effect.

        Returns
        -------
        Tensor
            Fractions are cut off.

        See Also
        --------
        to

        Notes
        -----
        Copies: none or one.

        Examples
        --------
        >>> st.tensor([1.5, 2.]).byte()
        tensor([1, 2], dtype=shmtensor.uint8)
        """
        return self.to(dtypes.uint8)

    def bool(self, memory_format: Any = None) -> Tensor:
        """The tensor in bool; itself if it is of that dtype.

        Parameters
        ----------
        memory_format : memory_format, optional
            Accepted; has no effect.

        Returns
        -------
        Tensor
            True where an element is not 0.

        See Also
        --------
        to

        Notes
        -----
        Copies: none or one.

        Examples
        --------
        >>> st.tensor([0., 2.]).bool()
        tensor([False,  True])
        """
        return self.to(dtypes.bool)

    def cfloat(self, memory_format: Any = None) -> Tensor:
        """The tensor in complex64; itself if it is of that dtype.

        Parameters
        ----------
        memory_format : memory_format, optional
            Accepted; has no effect.

        Returns
        -------
        Tensor
            The nearest numbers of the dtype.

        See Also
        --------
        to

        Notes
        -----
        Copies: none or one.

        Examples
        --------
        >>> st.tensor([1, 2]).cfloat()
        tensor([1.+0.j, 2.+0.j])
        """
        return self.to(dtypes.complex64)

    def cdouble(self, memory_format: Any = None) -> Tensor:
        """The tensor in complex128; itself if it is of that dtype.

        Parameters
        ----------
        memory_format : memory_format, optional
            Accepted; has no effect.

        Returns
        -------
        Tensor
            The nearest numbers of the dtype.

        See Also
        --------
        to

        Notes
        -----
        Copies: none or one.

        Examples
        --------
        >>> st.tensor([1, 2]).cdouble()
        tensor([1.+0.j, 2.+0.j], dtype=shmtensor.complex128)
        """
        return self.to(dtypes.complex128)


native.set_tensor_class(Tensor)
