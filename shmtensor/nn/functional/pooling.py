"""Pooling, by the number of dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd import table as ops

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]

Function = Callable[..., Any]

adaptive_avg_pool1d: Function = ops.adaptive_avg_pool1d
adaptive_avg_pool2d: Function = ops.adaptive_avg_pool2d
adaptive_avg_pool3d: Function = ops.adaptive_avg_pool3d
adaptive_max_pool1d: Function = ops.adaptive_max_pool1d
adaptive_max_pool2d: Function = ops.adaptive_max_pool2d
adaptive_max_pool3d: Function = ops.adaptive_max_pool3d
avg_pool1d: Function = ops.avg_pool1d
avg_pool2d: Function = ops.avg_pool2d
avg_pool3d: Function = ops.avg_pool3d
lp_pool1d: Function = ops.lp_pool1d
lp_pool2d: Function = ops.lp_pool2d
lp_pool3d: Function = ops.lp_pool3d
max_pool1d: Function = ops.max_pool1d
max_pool2d: Function = ops.max_pool2d
max_pool3d: Function = ops.max_pool3d
max_unpool1d: Function = ops.max_unpool1d
max_unpool2d: Function = ops.max_unpool2d
max_unpool3d: Function = ops.max_unpool3d
