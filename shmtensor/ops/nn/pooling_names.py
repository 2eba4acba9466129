"""The public names of pooling by the number of dimensions; see `pooling.py` and `max_unpool.py`.

Where a docstring says (N, C, ...), an image without the batch, (C, ...), is accepted as well.
"""

from __future__ import annotations

from ..table.op_table import composite
from .max_unpool import max_unpool
from .pooling import adaptive_avg_pool, adaptive_max_pool, avg_pool, lp_pool, max_pool


@composite(method=False)
def max_pool1d(
    ops,
    input,
    kernel_size,
    stride=None,
    padding=0,
    dilation=1,
    ceil_mode=False,
    return_indices=False,
):
    """The largest element of each window.

    Parameters
    ----------
    input : Tensor
        `(N, C, L)` or `(C, L)`.
    kernel_size : int
        Elements of a window.
    stride : int, optional
        Steps from one window to the next; kernel_size if None.
    padding : int, optional
        Elements of -inf added on either side, at most half of a window.
    dilation : int, optional
        Steps from one element of a window to the next.
    ceil_mode : bool, optional
        Whether the last window may reach beyond the end.
    return_indices : bool, optional
        Whether the elements' places are returned, too.

    Returns
    -------
    Tensor
        `(N, C, L')` or `(C, L')`. With return_indices a pair with their int64 indices in the
        flattened `(L)`.

    Raises
    ------
    RuntimeError
        The padding exceeds half of a window, or no window fits.

    See Also
    --------
    avg_pool1d, adaptive_max_pool1d, max_unpool1d, nn.MaxPool1d

    Notes
    -----
    The gradient goes to the largest element; to the first of equal ones.

    Examples
    --------
    >>> x = st.tensor([[1., 5., 2., 4., 3., 0.]])
    >>> F.max_pool1d(x, 2)
    tensor([[5., 4., 3.]])
    >>> F.max_pool1d(x, 3, stride=1, return_indices=True)
    (tensor([[5., 5., 4., 4.]]), tensor([[1, 1, 3, 3]]))
    """
    return max_pool(
        ops,
        "max_pool1d",
        1,
        input,
        kernel_size,
        stride,
        padding,
        dilation,
        ceil_mode,
        return_indices,
    )


@composite(method=False)
def avg_pool1d(
    ops, input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True
):
    """The mean of each window.

    Parameters
    ----------
    input : Tensor
        `(N, C, L)` or `(C, L)`.
    kernel_size : int
        Elements of a window.
    stride : int, optional
        Steps from one window to the next; kernel_size if None.
    padding : int, optional
        Zeros added on either side, at most half of a window.
    ceil_mode : bool, optional
        Whether the last window may reach beyond the end.
    count_include_pad : bool, optional
        Whether the zeros of the padding count as elements.

    Returns
    -------
    Tensor
        `(N, C, L')` or `(C, L')`.

    See Also
    --------
    max_pool1d, adaptive_avg_pool1d, nn.AvgPool1d

    Examples
    --------
    >>> F.avg_pool1d(st.tensor([[1., 5., 2., 4.]]), 2)
    tensor([[3., 3.]])
    """
    return avg_pool(
        ops,
        "avg_pool1d",
        1,
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        None,
    )


@composite(method=False)
def adaptive_avg_pool1d(ops, input, output_size):
    """The mean of each of output_size windows that together cover the input.

    Parameters
    ----------
    input : Tensor
        `(N, C, L)` or `(C, L)`.
    output_size : int
        How many windows there are in each dimension; None keeps the input's size.

    Returns
    -------
    Tensor
        `(N, C, *output_size)` or `(C, *output_size)`.

    See Also
    --------
    avg_pool1d, nn.AdaptiveAvgPool1d

    Examples
    --------
    >>> F.adaptive_avg_pool1d(st.tensor([[1., 3., 5., 9.]]), 2)
    tensor([[2., 7.]])
    """
    return adaptive_avg_pool(ops, 1, input, output_size)


@composite(method=False, function=False)
def adaptive_max_pool1d(ops, input, output_size, return_indices=False):
    """The largest element of each of output_size windows that together cover the input.

    Parameters
    ----------
    input : Tensor
        `(N, C, L)` or `(C, L)`.
    output_size : int
        How many windows there are in each dimension; None keeps the input's size.
    return_indices : bool, optional
        Whether the elements' places are returned, too.

    Returns
    -------
    Tensor
        `(N, C, *output_size)` or `(C, *output_size)`. With return_indices a pair with their int64
        indices in the flattened `(L)`.

    See Also
    --------
    max_pool1d, nn.AdaptiveMaxPool1d

    Examples
    --------
    >>> F.adaptive_max_pool1d(st.tensor([[1., 3., 5., 9.]]), 2, return_indices=True)
    (tensor([[3., 9.]]), tensor([[1, 3]]))
    """
    return adaptive_max_pool(ops, 1, input, output_size, return_indices)


@composite(method=False, function=False)
def lp_pool1d(ops, input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """`(sum of x ** p) ** (1 / p)` of each window.

    Parameters
    ----------
    input : Tensor
        `(N, C, L)` or `(C, L)`.
    norm_type : float
        p; 1 is a sum.
    kernel_size : int
        Elements of a window.
    stride : int, optional
        Steps from one window to the next; kernel_size if None.
    ceil_mode : bool, optional
        Whether the last window may reach beyond the end.

    Returns
    -------
    Tensor
        `(N, C, L')` or `(C, L')`.

    See Also
    --------
    avg_pool1d, nn.LPPool1d

    Examples
    --------
    >>> F.lp_pool1d(st.tensor([[3., 4., 0., 0.]]), 2, kernel_size=2).round()
    tensor([[5., 0.]])
    """
    return lp_pool(ops, 1, input, norm_type, kernel_size, stride, ceil_mode)


@composite(method=False, function=False)
def max_unpool1d(ops, input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Writes what `max_pool1d` returned back at its indices, among zeros.

    Parameters
    ----------
    input : Tensor
        The values that `max_pool1d` returned.
    indices : Tensor
        The indices that it returned, of the same shape.
    kernel_size : int
        Its kernel_size.
    stride : int, optional
        Its stride; kernel_size if None.
    padding : int, optional
        Its padding.
    output_size : tuple of int, optional
        The size of the result, where several have such a result.

    Returns
    -------
    Tensor
        `(N, C, L)` or `(C, L)`.

    Raises
    ------
    ValueError
        output_size is not possible.
    RuntimeError
        Shapes differ, or an index is out of range.

    See Also
    --------
    max_pool1d, nn.MaxUnpool1d

    Examples
    --------
    >>> values, indices = F.max_pool1d(st.tensor([[1., 5., 2., 4.]]), 2, return_indices=True)
    >>> F.max_unpool1d(values, indices, 2)
    tensor([[0., 5., 0., 4.]])
    """
    return max_unpool(ops, 1, input, indices, kernel_size, stride, padding, output_size)


@composite(method=False)
def max_pool2d(
    ops,
    input,
    kernel_size,
    stride=None,
    padding=0,
    dilation=1,
    ceil_mode=False,
    return_indices=False,
):
    """The largest element of each window.

    Parameters
    ----------
    input : Tensor
        `(N, C, H, W)` or `(C, H, W)`.
    kernel_size : int or (int, int)
        Elements of a window.
    stride : int or (int, int), optional
        Steps from one window to the next; kernel_size if None.
    padding : int or (int, int), optional
        Elements of -inf added on either side, at most half of a window.
    dilation : int or (int, int), optional
        Steps from one element of a window to the next.
    ceil_mode : bool, optional
        Whether the last window may reach beyond the end.
    return_indices : bool, optional
        Whether the elements' places are returned, too.

    Returns
    -------
    Tensor
        `(N, C, H', W')` or `(C, H', W')`. With return_indices a pair with their int64 indices in
        the flattened `(H, W)`.

    Raises
    ------
    RuntimeError
        The padding exceeds half of a window, or no window fits.

    See Also
    --------
    avg_pool2d, adaptive_max_pool2d, max_unpool2d, nn.MaxPool2d

    Notes
    -----
    The gradient goes to the largest element; to the first of equal ones.

    Examples
    --------
    >>> F.max_pool2d(st.arange(16.).reshape(1, 4, 4), 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    >>> F.max_pool2d(st.ones(1, 8, 32, 32), 3, stride=2, padding=1).shape
    Size([1, 8, 16, 16])
    """
    return max_pool(
        ops,
        "max_pool2d",
        2,
        input,
        kernel_size,
        stride,
        padding,
        dilation,
        ceil_mode,
        return_indices,
    )


@composite(method=False, function=False)
def avg_pool2d(
    ops,
    input,
    kernel_size,
    stride=None,
    padding=0,
    ceil_mode=False,
    count_include_pad=True,
    divisor_override=None,
):
    """The mean of each window.

    Parameters
    ----------
    input : Tensor
        `(N, C, H, W)` or `(C, H, W)`.
    kernel_size : int or (int, int)
        Elements of a window.
    stride : int or (int, int), optional
        Steps from one window to the next; kernel_size if None.
    padding : int or (int, int), optional
        Zeros added on either side, at most half of a window.
    ceil_mode : bool, optional
        Whether the last window may reach beyond the end.
    count_include_pad : bool, optional
        Whether the zeros of the padding count as elements.
    divisor_override : int, optional
        What a window's sum is divided by; by default the number of its elements.

    Returns
    -------
    Tensor
        `(N, C, H', W')` or `(C, H', W')`.

    See Also
    --------
    max_pool2d, adaptive_avg_pool2d, nn.AvgPool2d

    Examples
    --------
    >>> F.avg_pool2d(st.arange(16.).reshape(1, 4, 4), 2)
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """
    return avg_pool(
        ops,
        "avg_pool2d",
        2,
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
    )


@composite(method=False, function=False)
def adaptive_avg_pool2d(ops, input, output_size):
    """The mean of each of output_size windows that together cover the input.

    Parameters
    ----------
    input : Tensor
        `(N, C, H, W)` or `(C, H, W)`.
    output_size : int, None or two of them
        How many windows there are in each dimension; None keeps the input's size.

    Returns
    -------
    Tensor
        `(N, C, *output_size)` or `(C, *output_size)`.

    See Also
    --------
    avg_pool2d, nn.AdaptiveAvgPool2d

    Examples
    --------
    >>> F.adaptive_avg_pool2d(st.ones(8, 64, 7, 7), (1, None)).shape
    Size([8, 64, 1, 7])
    """
    return adaptive_avg_pool(ops, 2, input, output_size)


@composite(method=False, function=False)
def adaptive_max_pool2d(ops, input, output_size, return_indices=False):
    """The largest element of each of output_size windows that together cover the input.

    Parameters
    ----------
    input : Tensor
        `(N, C, H, W)` or `(C, H, W)`.
    output_size : int, None or two of them
        How many windows there are in each dimension; None keeps the input's size.
    return_indices : bool, optional
        Whether the elements' places are returned, too.

    Returns
    -------
    Tensor
        `(N, C, *output_size)` or `(C, *output_size)`. With return_indices a pair with their int64
        indices in the flattened `(H, W)`.

    See Also
    --------
    max_pool2d, nn.AdaptiveMaxPool2d

    Examples
    --------
    >>> F.adaptive_max_pool2d(st.ones(1, 3, 10, 9), (5, None)).shape
    Size([1, 3, 5, 9])
    """
    return adaptive_max_pool(ops, 2, input, output_size, return_indices)


@composite(method=False, function=False)
def lp_pool2d(ops, input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """`(sum of x ** p) ** (1 / p)` of each window.

    Parameters
    ----------
    input : Tensor
        `(N, C, H, W)` or `(C, H, W)`.
    norm_type : float
        p; 1 is a sum.
    kernel_size : int or (int, int)
        Elements of a window.
    stride : int or (int, int), optional
        Steps from one window to the next; kernel_size if None.
    ceil_mode : bool, optional
        Whether the last window may reach beyond the end.

    Returns
    -------
    Tensor
        `(N, C, H', W')` or `(C, H', W')`.

    See Also
    --------
    avg_pool2d, nn.LPPool2d

    Examples
    --------
    >>> F.lp_pool2d(st.ones(1, 4, 4), 1, kernel_size=2)
    tensor([[[4., 4.],
             [4., 4.]]])
    """
    return lp_pool(ops, 2, input, norm_type, kernel_size, stride, ceil_mode)


@composite(method=False, function=False, autocast="full")
def max_unpool2d(ops, input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Writes what `max_pool2d` returned back at its indices, among zeros.

    Parameters
    ----------
    input : Tensor
        The values that `max_pool2d` returned.
    indices : Tensor
        The indices that it returned, of the same shape.
    kernel_size : int or (int, int)
        Its kernel_size.
    stride : int or (int, int), optional
        Its stride; kernel_size if None.
    padding : int or (int, int), optional
        Its padding.
    output_size : tuple of int, optional
        The size of the result, where several have such a result.

    Returns
    -------
    Tensor
        `(N, C, H, W)` or `(C, H, W)`.

    Raises
    ------
    ValueError
        output_size is not possible.
    RuntimeError
        Shapes differ, or an index is out of range.

    See Also
    --------
    max_pool2d, nn.MaxUnpool2d

    Examples
    --------
    >>> x = st.arange(1., 5.).reshape(1, 2, 2)
    >>> values, indices = F.max_pool2d(x, 2, return_indices=True)
    >>> F.max_unpool2d(values, indices, 2)
    tensor([[[0., 0.],
             [0., 4.]]])
    """
    return max_unpool(ops, 2, input, indices, kernel_size, stride, padding, output_size)


@composite(method=False, autocast="full")
def max_pool3d(
    ops,
    input,
    kernel_size,
    stride=None,
    padding=0,
    dilation=1,
    ceil_mode=False,
    return_indices=False,
):
    """The largest element of each window.

    Parameters
    ----------
    input : Tensor
        `(N, C, D, H, W)` or `(C, D, H, W)`.
    kernel_size : int or (int, int, int)
        Elements of a window.
    stride : int or (int, int, int), optional
        Steps from one window to the next; kernel_size if None.
    padding : int or (int, int, int), optional
        Elements of -inf added on either side, at most half of a window.
    dilation : int or (int, int, int), optional
        Steps from one element of a window to the next.
    ceil_mode : bool, optional
        Whether the last window may reach beyond the end.
    return_indices : bool, optional
        Whether the elements' places are returned, too.

    Returns
    -------
    Tensor
        `(N, C, D', H', W')` or `(C, D', H', W')`. With return_indices a pair with their int64
        indices in the flattened `(D, H, W)`.

    Raises
    ------
    RuntimeError
        The padding exceeds half of a window, or no window fits.

    See Also
    --------
    avg_pool3d, adaptive_max_pool3d, max_unpool3d, nn.MaxPool3d

    Notes
    -----
    The gradient goes to the largest element; to the first of equal ones.

    Examples
    --------
    >>> F.max_pool3d(st.ones(1, 3, 4, 6, 8), 2).shape
    Size([1, 3, 2, 3, 4])
    """
    return max_pool(
        ops,
        "max_pool3d",
        3,
        input,
        kernel_size,
        stride,
        padding,
        dilation,
        ceil_mode,
        return_indices,
    )


@composite(method=False, function=False, autocast="full")
def avg_pool3d(
    ops,
    input,
    kernel_size,
    stride=None,
    padding=0,
    ceil_mode=False,
    count_include_pad=True,
    divisor_override=None,
):
    """The mean of each window.

    Parameters
    ----------
    input : Tensor
        `(N, C, D, H, W)` or `(C, D, H, W)`.
    kernel_size : int or (int, int, int)
        Elements of a window.
    stride : int or (int, int, int), optional
        Steps from one window to the next; kernel_size if None.
    padding : int or (int, int, int), optional
        Zeros added on either side, at most half of a window.
    ceil_mode : bool, optional
        Whether the last window may reach beyond the end.
    count_include_pad : bool, optional
        Whether the zeros of the padding count as elements.
    divisor_override : int, optional
        What a window's sum is divided by; by default the number of its elements.

    Returns
    -------
    Tensor
        `(N, C, D', H', W')` or `(C, D', H', W')`.

    See Also
    --------
    max_pool3d, adaptive_avg_pool3d, nn.AvgPool3d

    Examples
    --------
    >>> F.avg_pool3d(st.ones(1, 3, 4, 6, 8), 2).shape
    Size([1, 3, 2, 3, 4])
    """
    return avg_pool(
        ops,
        "avg_pool3d",
        3,
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
    )


@composite(method=False, function=False, autocast="full")
def adaptive_avg_pool3d(ops, input, output_size):
    """The mean of each of output_size windows that together cover the input.

    Parameters
    ----------
    input : Tensor
        `(N, C, D, H, W)` or `(C, D, H, W)`.
    output_size : int, None or three of them
        How many windows there are in each dimension; None keeps the input's size.

    Returns
    -------
    Tensor
        `(N, C, *output_size)` or `(C, *output_size)`.

    See Also
    --------
    avg_pool3d, nn.AdaptiveAvgPool3d

    Examples
    --------
    >>> F.adaptive_avg_pool3d(st.ones(1, 3, 4, 6, 8), 2).shape
    Size([1, 3, 2, 2, 2])
    """
    return adaptive_avg_pool(ops, 3, input, output_size)


@composite(method=False, function=False, autocast="full")
def adaptive_max_pool3d(ops, input, output_size, return_indices=False):
    """The largest element of each of output_size windows that together cover the input.

    Parameters
    ----------
    input : Tensor
        `(N, C, D, H, W)` or `(C, D, H, W)`.
    output_size : int, None or three of them
        How many windows there are in each dimension; None keeps the input's size.
    return_indices : bool, optional
        Whether the elements' places are returned, too.

    Returns
    -------
    Tensor
        `(N, C, *output_size)` or `(C, *output_size)`. With return_indices a pair with their int64
        indices in the flattened `(D, H, W)`.

    See Also
    --------
    max_pool3d, nn.AdaptiveMaxPool3d

    Examples
    --------
    >>> F.adaptive_max_pool3d(st.ones(1, 3, 4, 6, 8), 2).shape
    Size([1, 3, 2, 2, 2])
    """
    return adaptive_max_pool(ops, 3, input, output_size, return_indices)


@composite(method=False, function=False)
def lp_pool3d(ops, input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """`(sum of x ** p) ** (1 / p)` of each window.

    Parameters
    ----------
    input : Tensor
        `(N, C, D, H, W)` or `(C, D, H, W)`.
    norm_type : float
        p; 1 is a sum.
    kernel_size : int or (int, int, int)
        Elements of a window.
    stride : int or (int, int, int), optional
        Steps from one window to the next; kernel_size if None.
    ceil_mode : bool, optional
        Whether the last window may reach beyond the end.

    Returns
    -------
    Tensor
        `(N, C, D', H', W')` or `(C, D', H', W')`.

    See Also
    --------
    avg_pool3d, nn.LPPool3d

    Examples
    --------
    >>> F.lp_pool3d(st.ones(1, 2, 2, 2), 1, kernel_size=2)
    tensor([[[[8.]]]])
    """
    return lp_pool(ops, 3, input, norm_type, kernel_size, stride, ceil_mode)


@composite(method=False, function=False, autocast="full")
def max_unpool3d(ops, input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Writes what `max_pool3d` returned back at its indices, among zeros.

    Parameters
    ----------
    input : Tensor
        The values that `max_pool3d` returned.
    indices : Tensor
        The indices that it returned, of the same shape.
    kernel_size : int or (int, int, int)
        Its kernel_size.
    stride : int or (int, int, int), optional
        Its stride; kernel_size if None.
    padding : int or (int, int, int), optional
        Its padding.
    output_size : tuple of int, optional
        The size of the result, where several have such a result.

    Returns
    -------
    Tensor
        `(N, C, D, H, W)` or `(C, D, H, W)`.

    Raises
    ------
    ValueError
        output_size is not possible.
    RuntimeError
        Shapes differ, or an index is out of range.

    See Also
    --------
    max_pool3d, nn.MaxUnpool3d

    Examples
    --------
    >>> values, indices = F.max_pool3d(st.ones(1, 4, 4, 5), 2, return_indices=True)
    >>> F.max_unpool3d(values, indices, 2, output_size=(4, 4, 5)).shape
    Size([1, 4, 4, 5])
    """
    return max_unpool(ops, 3, input, indices, kernel_size, stride, padding, output_size)
