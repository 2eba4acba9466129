"""Convolutions by cuDNN beside im2col, for `make gpu-test`: values, gradients and times."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

# Image, filters, stride, padding, dilation, groups.
SHAPES: dict[str, tuple[Any, ...]] = {
    "1d": ((4, 16, 100), (32, 16, 5), 2, 2, 1, 1),
    "2d": ((4, 16, 20, 20), (32, 16, 3, 3), 1, 1, 1, 1),
    "2d, strided": ((4, 16, 21, 20), (32, 16, 3, 3), 2, 1, 1, 1),
    "2d, dilated": ((4, 16, 20, 20), (32, 16, 3, 3), 1, 2, 2, 1),
    "2d, groups": ((4, 16, 20, 20), (32, 4, 3, 3), 1, 1, 1, 4),
    "2d, depthwise": ((4, 16, 20, 20), (16, 1, 3, 3), 1, 1, 1, 16),
    "2d, 1x1": ((4, 16, 20, 20), (32, 16, 1, 1), 1, 0, 1, 1),
    "3d": ((2, 8, 8, 10, 10), (16, 8, 3, 3, 3), 1, 1, 1, 1),
}


class Seen(NamedTuple):
    """What a convolution and its gradients are by cuDNN, beside im2col.

    Attributes:
        error: the largest difference, as a part of the largest value.
        plans: those that cuDNN ran; 3 if it took the image, its gradient and the filters'.
    """

    error: float
    plans: int


def results(operands: list[Any], options: tuple[Any, ...]) -> list[Any]:
    import shmtensor as st

    x, weight = operands
    call = getattr(st.nn.functional, f"conv{x.ndim - 2}d")
    stride, padding, dilation, groups = options
    out = call(x, weight, None, stride, padding, dilation, groups)
    grads = st.autograd.grad(out.float().square().sum(), operands)
    return [v.detach().double().cpu() for v in (out, *grads)]


def compare(name: str, dtype: Any, is_last: bool, **flags: Any) -> Seen:
    """One shape, by both."""
    import shmtensor as st
    from shmtensor.ops.cuda import cudnn as ours

    image, filters, *options = SHAPES[name]
    st.manual_seed(0)
    x = st.randn(*image).to("cuda", dtype)
    weight = (st.randn(*filters) / 10).to("cuda", dtype)
    if is_last:
        last = st.channels_last if x.ndim == 4 else st.channels_last_3d
        x, weight = x.contiguous(memory_format=last), weight.contiguous(memory_format=last)
    operands = [x.requires_grad_(), weight.requires_grad_()]
    count, execute = 0, ours.execute

    def counted(*arguments: Any) -> None:
        nonlocal count
        count += 1
        execute(*arguments)

    ours.execute = counted
    try:
        with st.backends.cudnn.flags(enabled=True, **flags):
            found = results(operands, tuple(options))
    finally:
        ours.execute = execute
    with st.backends.cudnn.flags(enabled=False):
        expected = results(operands, tuple(options))
    pairs = zip(found, expected, strict=True)
    error = max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)
    return Seen(error, count)


def fastest(enabled: bool, dtype: Any, n: int, repeats: int) -> float:
    """Microseconds of a convolution of n images (64, 56, 56) with 64 filters 3 by 3."""
    import shmtensor as st

    x = st.randn(n, 64, 56, 56, device="cuda").to(dtype)
    weight = st.randn(64, 64, 3, 3, device="cuda").to(dtype)
    best = float("inf")
    with st.backends.cudnn.flags(enabled=enabled, allow_tf32=False):
        for _ in range(repeats + 1):  # the first one makes plans, or compiles
            st.cuda.synchronize()
            begin = time.perf_counter()
            st.nn.functional.conv2d(x, weight, None, 1, 1)
            st.cuda.synchronize()
            best = min(best, time.perf_counter() - begin)
    return best * 1e6
