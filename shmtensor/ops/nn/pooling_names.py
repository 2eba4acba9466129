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
    """The largest element of each window of (N, C, L); with return_indices also its index in the
    flattened image.
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
    """The mean of each window of (N, C, L); count_include_pad: zeros of the padding count."""
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
    """The mean of each of output_size windows that cover (N, C, L)."""
    return adaptive_avg_pool(ops, 1, input, output_size)


@composite(method=False, function=False)
def adaptive_max_pool1d(ops, input, output_size, return_indices=False):
    """The largest element of each of output_size windows that cover (N, C, L)."""
    return adaptive_max_pool(ops, 1, input, output_size, return_indices)


@composite(method=False, function=False)
def lp_pool1d(ops, input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The norm_type-norm of each window of (N, C, L)."""
    return lp_pool(ops, 1, input, norm_type, kernel_size, stride, ceil_mode)


@composite(method=False, function=False)
def max_unpool1d(ops, input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """What `max_pool1d` returned, written to its indices among zeros."""
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
    """The largest element of each window of (N, C, H, W); with return_indices also its index in the
    flattened image.
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
    """The mean of each window of (N, C, H, W); divisor_override: the sum over that number."""
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
    """The mean of each of output_size windows that cover (N, C, H, W)."""
    return adaptive_avg_pool(ops, 2, input, output_size)


@composite(method=False, function=False)
def adaptive_max_pool2d(ops, input, output_size, return_indices=False):
    """The largest element of each of output_size windows that cover (N, C, H, W)."""
    return adaptive_max_pool(ops, 2, input, output_size, return_indices)


@composite(method=False, function=False)
def lp_pool2d(ops, input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The norm_type-norm of each window of (N, C, H, W)."""
    return lp_pool(ops, 2, input, norm_type, kernel_size, stride, ceil_mode)


@composite(method=False, function=False, autocast="full")
def max_unpool2d(ops, input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """What `max_pool2d` returned, written to its indices among zeros."""
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
    """The largest element of each window of (N, C, D, H, W); return_indices: also its index in the
    flattened image.
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
    """The mean of each window of (N, C, D, H, W); divisor_override: the sum over that number."""
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
    """The mean of each of output_size windows that cover (N, C, D, H, W)."""
    return adaptive_avg_pool(ops, 3, input, output_size)


@composite(method=False, function=False, autocast="full")
def adaptive_max_pool3d(ops, input, output_size, return_indices=False):
    """The largest element of each of output_size windows that cover (N, C, D, H, W)."""
    return adaptive_max_pool(ops, 3, input, output_size, return_indices)


@composite(method=False, function=False)
def lp_pool3d(ops, input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The norm_type-norm of each window of (N, C, D, H, W)."""
    return lp_pool(ops, 3, input, norm_type, kernel_size, stride, ceil_mode)


@composite(method=False, function=False, autocast="full")
def max_unpool3d(ops, input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """What `max_pool3d` returned, written to its indices among zeros."""
    return max_unpool(ops, 3, input, indices, kernel_size, stride, padding, output_size)
