"""New tensors: filled with a number, and with the shape of others."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ... import native
from ...dtypes import as_dtype, get_default_dtype, of_number
from ..table.op_table import composite
from ..table.python_scalars import as_element
from ..table.tensor_like import order_in
from .device_forms import array_like, new_like, new_tensor, on_cuda

Shape = tuple[int, ...]


def as_shape(name: str, size: tuple[Any, ...]) -> Shape:
    """A shape given as one sequence or as several numbers, which may be tensors."""
    try:
        is_one = len(size) == 1 and not isinstance(size[0], (int, np.integer))
        if is_one and getattr(size[0], "ndim", True):
            size = tuple(size[0])
        shape = tuple(map(operator.index, size))
    except TypeError:
        raise TypeError(f"{name}: sizes must be ints: {size}") from None
    if min(shape, default=0) < 0:
        raise RuntimeError(f"{name}: sizes must not be negative: {shape}")
    return shape


def dtype_or_default(dtype: Any) -> Any:
    """The canonical dtype; the default one for None."""
    return get_default_dtype() if dtype is None else as_dtype(dtype)


def dtype_of(value: Any, dtype: Any) -> Any:
    """The given dtype, or the one that a Python number has as a tensor."""
    if dtype is not None:
        return as_dtype(dtype)
    if isinstance(value, float):
        return get_default_dtype()
    if hasattr(value, "dtype"):
        return as_dtype(value.dtype)
    return of_number(type(value))


def as_number(value: Any) -> Any:
    """A Python number, of a number or a tensor with one element."""
    if not hasattr(value, "item"):
        return value
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "mMOSTU":
        raise TypeError(f"number: no tensor can hold a {value.dtype}: {value!r}")
    return value.item()


def dtype_or_out(name: str, out: Any, dtype: Any) -> Any:
    """The argument `dtype`, or the dtype of `out`."""
    if out is None:
        return dtype
    if not isinstance(out, native.TensorBase):
        raise TypeError(f"{name}: argument 'out' must be Tensor, not {type(out).__name__}")
    out_dtype = out.array.dtype
    if dtype is not None and as_dtype(dtype) is not out_dtype:
        raise RuntimeError(
            f"{name}: dtype {as_dtype(dtype)} does not match dtype of out parameter ({out_dtype})"
        )
    return out_dtype


def copy_into_out(out: Any, value: Any, keeps_shape: bool = False) -> Any:
    """The value, or `out` with the value copied in; `out` is resized to the value's shape.

    Args:
        keeps_shape: `out` keeps its shape if it has as many elements.
    """
    if out is None:
        return value
    fresh = value.detach()
    if keeps_shape and out.numel() == fresh.numel():
        fresh = fresh.view(out.shape)
    elif out.shape != fresh.shape:
        out.resize_(fresh.shape)
    out.copy_(fresh)
    return out.requires_grad_() if value.requires_grad else out


@composite(method=False)
def zeros(
    ops,
    *size,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """A new tensor of zeros.

    Parameters
    ----------
    *size : int
        The shape: `zeros(2, 3)`, or one sequence: `zeros((2, 3))`. Without sizes the tensor is 0-d.
    dtype : dtype, optional
        Of the result; the default dtype (float32 unless set) if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Contiguous, of the shape `size`.

    Raises
    ------
    RuntimeError
        A size is negative.
    TypeError
        A size is not an integer.

    See Also
    --------
    zeros_like, ones, full, empty

    Examples
    --------
    >>> st.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    >>> st.zeros((2,), dtype=st.int64)
    tensor([0, 0])
    """
    if out is dtype is layout is device is None and not (requires_grad or pin_memory):
        result = native.empty(size, get_default_dtype(), 1)
        if result is not None:
            return result
    shape, dtype = as_shape("zeros", size), dtype_or_out("zeros", out, dtype)
    return copy_into_out(
        out,
        new_tensor(
            np.zeros,
            shape,
            dtype_or_default(dtype),
            device=device,
            requires_grad=requires_grad,
            like=out,
        ),
    )


@composite(method=False)
def ones(
    ops,
    *size,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """A new tensor of ones.

    Parameters
    ----------
    *size : int
        The shape: `ones(2, 3)`, or one sequence: `ones((2, 3))`. Without sizes the tensor is 0-d.
    dtype : dtype, optional
        Of the result; the default dtype (float32 unless set) if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Contiguous, of the shape `size`.

    Raises
    ------
    RuntimeError
        A size is negative.
    TypeError
        A size is not an integer.

    See Also
    --------
    ones_like, zeros, full

    Examples
    --------
    >>> st.ones(2, 3)
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    >>> st.ones((2,), dtype=st.bool)
    tensor([True, True])
    """
    if out is dtype is layout is device is None and not (requires_grad or pin_memory):
        result = native.empty(size, get_default_dtype(), 2)
        if result is not None:
            return result
    shape, dtype = as_shape("ones", size), dtype_or_out("ones", out, dtype)
    return copy_into_out(
        out,
        new_tensor(
            of_one_number,
            shape,
            1,
            dtype_or_default(dtype),
            device=device,
            requires_grad=requires_grad,
            like=out,
        ),
    )


@composite(method=False)
def empty(
    ops,
    *size,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
    memory_format=None,
):
    """A new tensor whose memory is not initialized: its elements are arbitrary until they are
    written.

    Parameters
    ----------
    *size : int
        The shape: `empty(2, 3)`, or one sequence: `empty((2, 3))`.
    dtype : dtype, optional
        Of the result; the default dtype (float32 unless set) if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.
    memory_format : memory_format, optional
        Row order by default; `channels_last` (4 dimensions) and `channels_last_3d` (5 dimensions).

    Returns
    -------
    Tensor
        Without gaps, of the shape `size`.

    Raises
    ------
    RuntimeError
        A size is negative, or the memory format is for another number of dimensions.

    See Also
    --------
    zeros, empty_like, empty_strided

    Examples
    --------
    >>> x = st.empty(2, 3, dtype=st.int32)
    >>> x.shape, x.dtype
    (Size([2, 3]), shmtensor.int32)
    >>> x.fill_(7)
    tensor([[7, 7, 7],
            [7, 7, 7]], dtype=shmtensor.int32)
    """
    if memory_format is out is dtype is layout is device is None and not (
        requires_grad or pin_memory
    ):
        result = native.empty(size, get_default_dtype(), 0)
        if result is not None:
            return result
    shape, dtype = as_shape("empty", size), dtype_or_out("empty", out, dtype)
    if out is not None:
        out.resize_(shape)
        return out.requires_grad_() if requires_grad else out
    order = order_in(shape, memory_format)
    sizes = shape if order is None else tuple(shape[d] for d in order)
    result = new_tensor(np.empty, sizes, dtype_or_default(dtype), device=device)
    if order is not None:
        result = native.wrap(result.array.transpose(np.argsort(order)))
    return result.requires_grad_() if requires_grad else result


def small_full(size: Any, fill_value: Any) -> Any:
    """A small tensor of a Python float in the default dtype; None where `full` has more to do."""
    if fill_value.__class__ is not float or size.__class__ is not tuple:
        return None
    if not -1e38 < fill_value < 1e38:  # perhaps more than the dtype holds
        return None
    out = native.empty(size, get_default_dtype(), 0)
    if out is None or out.array.size > 4096:
        return None
    out.array.fill(fill_value)
    return out


@composite(method=False)
def full(
    ops, size, fill_value, *, out=None, dtype=None, layout=None, device=None, requires_grad=False
):
    """A new tensor of one number.

    Parameters
    ----------
    size : sequence of int
        The shape.
    fill_value : number or Tensor
        A number, or a tensor of one element.
    dtype : dtype, optional
        By default the one that the number has as a tensor: bool, int64, the default dtype for a
        float, or that of a tensor.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Contiguous, of the shape `size`.

    Raises
    ------
    RuntimeError
        A size is negative, or the number does not fit the dtype.

    See Also
    --------
    full_like, zeros, ones

    Examples
    --------
    >>> st.full((2, 2), 7)
    tensor([[7, 7],
            [7, 7]])
    >>> st.full((3,), 1, dtype=st.float32)
    tensor([1., 1., 1.])
    """
    if out is dtype is layout is device is None and not requires_grad:
        result = small_full(size, fill_value)
        if result is not None:
            return result
    if fill_value is None or isinstance(fill_value, str):
        raise TypeError(f"full: fill_value must be a number: {fill_value!r:.80}")
    value = as_number(fill_value)
    dtype = dtype_of(fill_value, dtype_or_out("full", out, dtype))
    shape = as_shape("full", (size,))
    return copy_into_out(
        out,
        new_tensor(
            full_array, shape, value, dtype, device=device, requires_grad=requires_grad, like=out
        ),
    )


def full_array(shape: Any, value: Any, dtype: Any) -> Any:
    """An array of one number, which wraps around if it is below 0 and the dtype is unsigned."""
    if value:
        value = as_element("full", value, dtype)
    return of_one_number(shape, value, dtype)


def of_one_number(shape: Any, value: Any, dtype: Any) -> Any:
    """`numpy.full`, in parallel if the array is large."""
    out = np.empty(shape, dtype)
    if out.size > 4096 and native.copy_into(out, np.full((), value, dtype)):
        return out
    out.fill(value)
    return out


@on_cuda(full_array)
def full_on_cuda(cupy: Any, shape: Any, value: Any, dtype: Any) -> Any:
    return cupy.full(shape, as_element("full", value, dtype) if value else value, dtype)


@on_cuda(of_one_number)
def of_one_number_on_cuda(cupy: Any, shape: Any, value: Any, dtype: Any) -> Any:
    return cupy.full(shape, value, dtype)


def like(name: str, kernel: Any, doc: str, others: str, example: str) -> Any:
    """Declares zeros_like and the like. doc: what they are, others: related functions, example: its
    call and output, for the docstring.
    """

    def compute(
        ops, input, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None
    ):
        dtype = input.dtype if dtype is None else as_dtype(dtype)
        if not hasattr(input, "requires_grad"):
            return array_like(kernel, input, dtype)
        return new_like(
            kernel,
            input,
            dtype,
            device=device,
            requires_grad=requires_grad,
            memory_format=memory_format,
        )

    compute.__doc__ = f"""A new tensor of {doc} in the shape and dtype of another.

    Parameters
    ----------
    input : Tensor
        Whose shape, dtype, device and layout are taken.
    dtype : dtype, optional
        By default that of `input`.
    device : Device or str, optional
        By default that of `input`.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.
    memory_format : memory_format, optional
        The order of the dimensions in memory; by default that of `input`.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    See Also
    --------
    {others}

    Examples
    --------
    >>> x = st.tensor([[1., 2.], [3., 4.]])
    >>> {example}
    """
    return composite(compute, name=name, method=False)


def ones_of(shape: Shape, dtype: Any) -> Any:
    """np.ones, without its call of a Python function for the fill."""
    return np.full(shape, 1, dtype)


@on_cuda(ones_of)
def ones_on_cuda(cupy: Any, shape: Any, dtype: Any) -> Any:
    return cupy.ones(shape, dtype)


zeros_like = like(
    "zeros_like",
    np.zeros,
    "zeros",
    "zeros, ones_like, full_like",
    "st.zeros_like(x)\n    tensor([[0., 0.],\n            [0., 0.]])",
)
ones_like = like(
    "ones_like",
    ones_of,
    "ones",
    "ones, zeros_like, full_like",
    "st.ones_like(x, dtype=st.int64)\n    tensor([[1, 1],\n            [1, 1]])",
)
empty_like = like(
    "empty_like",
    np.empty,
    "arbitrary numbers, not initialized,",
    "empty, zeros_like",
    "st.empty_like(x.t()).stride()\n    (1, 2)",
)


@composite(method=False)
def full_like(
    ops,
    input,
    fill_value,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    memory_format=None,
):
    """A new tensor of one number in the shape and dtype of another.

    Parameters
    ----------
    input : Tensor
        Whose shape, dtype, device and layout are taken.
    fill_value : number or Tensor
        A number, or a tensor of one element.
    dtype : dtype, optional
        By default that of `input`.
    device : Device or str, optional
        By default that of `input`.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.
    memory_format : memory_format, optional
        The order of the dimensions in memory; by default that of `input`.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    RuntimeError
        The number does not fit the dtype.

    See Also
    --------
    full, zeros_like

    Examples
    --------
    >>> x = st.tensor([[1., 2.], [3., 4.]])
    >>> st.full_like(x, 9)
    tensor([[9., 9.],
            [9., 9.]])
    """
    dtype = input.dtype if dtype is None else as_dtype(dtype)
    value = as_number(fill_value)
    return new_like(
        full_array,
        input,
        value,
        dtype,
        device=device,
        requires_grad=requires_grad,
        memory_format=memory_format,
    )


def new(name: str, kernel: Any, doc: str) -> Any:
    """Declares new_zeros and the like. doc: what they are, for the docstring."""

    def compute(
        ops,
        input,
        *size,
        dtype=None,
        device=None,
        requires_grad=False,
        layout=None,
        pin_memory=False,
    ):
        dtype = input.dtype if dtype is None else as_dtype(dtype)
        shape = as_shape(name, size)
        return new_tensor(
            kernel, shape, dtype, device=device, requires_grad=requires_grad, like=input
        )

    compute.__doc__ = f"""A new tensor of {doc}, in the dtype and on the device of this one.

    Parameters
    ----------
    *size : int
        The shape, as several sizes or one sequence.
    dtype : dtype, optional
        By default that of this tensor.
    device : Device or str, optional
        By default that of this tensor.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of the shape `size`.

    Examples
    --------
    >>> st.tensor([1, 2]).{name}(3).dtype
    shmtensor.int64
    """
    return composite(compute, name=name, function=False)


new_zeros = new("new_zeros", np.zeros, "zeros")
new_ones = new("new_ones", ones_of, "ones")
new_empty = new("new_empty", np.empty, "arbitrary numbers, not initialized")


@composite(function=False)
def new_full(
    ops,
    input,
    size,
    fill_value,
    *,
    dtype=None,
    device=None,
    requires_grad=False,
    layout=None,
    pin_memory=False,
):
    """A new tensor of one number, in the dtype and on the device of this one.

    Parameters
    ----------
    size : sequence of int
        The shape.
    fill_value : number
        The number.
    dtype : dtype, optional
        By default that of this tensor.
    device : Device or str, optional
        By default that of this tensor.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of the shape `size`.

    Raises
    ------
    RuntimeError
        The number does not fit the dtype.

    See Also
    --------
    full, full_like

    Examples
    --------
    >>> st.tensor([1., 2.]).new_full((3,), 7)
    tensor([7., 7., 7.])
    """
    dtype = input.dtype if dtype is None else as_dtype(dtype)
    value = as_number(fill_value)
    return new_tensor(
        full_array,
        as_shape("new_full", (size,)),
        value,
        dtype,
        device=device,
        requires_grad=requires_grad,
        like=input,
    )


@composite(method=False)
def eye(ops, n, m=None, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """A matrix with 1 on its diagonal and 0 elsewhere.

    Parameters
    ----------
    n : int
        The number of rows.
    m : int, optional
        The number of columns; by default n.
    dtype : dtype, optional
        Of the result; the default dtype (float32 unless set) if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(n, m)`.

    Raises
    ------
    RuntimeError
        n or m is negative.

    See Also
    --------
    diag

    Examples
    --------
    >>> st.eye(3)
    tensor([[1., 0., 0.],
            [0., 1., 0.],
            [0., 0., 1.]])
    >>> st.eye(2, 3, dtype=st.int64)
    tensor([[1, 0, 0],
            [0, 1, 0]])
    """
    if n < 0 or (m is not None and m < 0):
        raise RuntimeError(f"eye: sizes must not be negative: {n}, {m}")
    dtype = dtype_or_out("eye", out, dtype)
    result = new_tensor(
        np.eye,
        n,
        m,
        0,
        dtype_or_default(dtype),
        device=device,
        requires_grad=requires_grad,
        like=out,
    )
    return copy_into_out(out, result)
