"""Short-time Fourier transforms (Griffin and Lim 1984), and reductions of segments."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from ..table.constants import host_array
from ..table.op_table import composite


def frame_arguments(ops: Any, name: str, x: Any, n: int, hop: Any, length: Any, window: Any) -> Any:
    """(hop, window of n points) with the defaults; a shorter window is centred."""
    hop, length = n // 4 if hop is None else hop, n if length is None else length
    if hop <= 0 or not 0 < length <= n:
        raise RuntimeError(
            f"{name}: expected hop_length > 0 and 0 < win_length <= n_fft: {hop}, {length}, {n}"
        )
    if window is None:
        window = ops.new_ones(x, (length,), dtype=x.real.dtype)
    if tuple(window.shape) != (length,):
        raise RuntimeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={length}, but got "
            f"{tuple(window.shape)}"
        )
    before = (n - length) // 2
    return hop, ops.constant_pad_nd(window, (before, n - length - before)) if length < n else window


@composite(method=False, function=False)
def fft_stft(
    ops, input, n_fft, hop_length, win_length, window, center, mode, normalized, onesided, pairs
):
    """`stft`."""
    if pairs is None:
        if input.dtype.kind != "c" and (window is None or window.dtype.kind != "c"):
            raise RuntimeError(
                "stft: requires the return_complex parameter be given for real inputs, and will "
                "further require that return_complex=True in a future release"
            )
        pairs = True
    if input.dtype.kind not in "fc" or not 1 <= input.ndim <= 2:
        raise RuntimeError(
            "stft: expected a 1D or 2D tensor of floating point or complex values: "
            f"{input.dtype.name}, {tuple(input.shape)}"
        )
    x = input if input.ndim == 2 else ops.unsqueeze(input, 0)
    if n_fft <= 0:
        raise RuntimeError(f"stft: expected 0 < n_fft: {n_fft}")
    hop, window = frame_arguments(ops, "stft", x, n_fft, hop_length, win_length, window)
    if center:
        half = n_fft // 2
        x = ops.squeeze(ops.pad(ops.unsqueeze(x, 0), (half, half), mode), 0)
    if n_fft > x.shape[-1]:
        raise RuntimeError(f"stft: expected n_fft <= {x.shape[-1]}, but got n_fft={n_fft}")
    frames = ops.mul(ops.unfold(x, -1, n_fft, hop), window)
    real = frames.dtype.kind != "c"
    onesided = real if onesided is None else onesided
    if onesided and not real:
        raise RuntimeError("stft: cannot have onesided output if window or input is complex")
    norm = "ortho" if normalized else "backward"
    out = (ops.fft_rfft if onesided else ops.fft_fft)(frames, None, -1, norm)
    out = ops.transpose(out, 1, 2)
    out = out if input.ndim == 2 else ops.squeeze(out, 0)
    return out if pairs else ops.view_as_real(out)


@composite(method=False, function=False)
def fft_istft(
    ops, input, n_fft, hop_length, win_length, window, center, normalized, onesided, length, wide
):
    """`istft`."""
    if input.dtype.kind != "c" or not 2 <= input.ndim <= 3:
        raise RuntimeError(
            "istft: requires a complex-valued input tensor matching the output from stft with "
            f"return_complex=True: {input.dtype.name}, {tuple(input.shape)}"
        )
    x = input if input.ndim == 3 else ops.unsqueeze(input, 0)
    hop, window = frame_arguments(ops, "istft", x, n_fft, hop_length, win_length, window)
    onesided = x.shape[1] != n_fft if onesided is None else onesided
    n_frequencies = n_fft // 2 + 1 if onesided else n_fft
    if x.shape[1] != n_frequencies:
        raise RuntimeError(f"istft: expected {n_frequencies} frequencies, but got {x.shape[1]}")
    norm = "ortho" if normalized else "backward"
    frames = ops.transpose(x, 1, 2)
    if wide:
        frames = ops.fft_ifft(frames, n_fft, -1, norm)
    elif onesided:
        frames = ops.fft_irfft(frames, n_fft, -1, norm)
    else:
        frames = ops.real(ops.fft_ifft(frames, n_fft, -1, norm))
    count = x.shape[2]
    total = n_fft + hop * (count - 1)
    summed = ops._unfold_backward(ops.mul(frames, window), (x.shape[0], total), 1, n_fft, hop)
    squares = ops.expand(ops.unsqueeze(ops.square(window), 0), (count, n_fft))
    weight = ops._unfold_backward(squares, (total,), 0, n_fft, hop)
    start = n_fft // 2 if center else 0
    stop = total - (n_fft // 2 if center else 0) if length is None else start + length
    stop_here = min(stop, total)
    summed, weight = ops.narrow(summed, 1, start, stop_here - start), weight[start:stop_here]
    smallest = float(ops.amin(ops.abs(weight)).item()) if stop_here > start else 1.0
    if smallest < 1e-11:
        raise RuntimeError(f"istft: window overlap add min: {smallest}, the frames leave gaps")
    out = ops.div(summed, weight)
    if stop > stop_here:
        out = ops.constant_pad_nd(out, (0, stop - stop_here))
    return out if input.ndim == 3 else ops.squeeze(out, 0)


STARTS = {"sum": 0.0, "mean": math.nan, "max": -math.inf, "min": math.inf, "prod": 1.0}


def segment_bounds(lengths: Any, offsets: Any, n: int, unsafe: bool) -> Any:
    """The bounds of the segments: integers (..., segments + 1)."""
    if lengths is not None:
        sizes = host_array(lengths)
        ends = np.cumsum(sizes, -1)
        bounds = np.concatenate([np.zeros((*sizes.shape[:-1], 1), sizes.dtype), ends], -1)
    elif offsets is not None:
        bounds = host_array(offsets)
    else:
        raise RuntimeError("segment_reduce: either lengths or offsets must be given")
    if not unsafe and bounds.size:
        is_ascending = (np.diff(bounds, axis=-1) >= 0).all()
        if not is_ascending or (lengths is not None and (bounds[..., -1] != n).any()):
            raise RuntimeError(
                f"segment_reduce: lengths must be non-negative and sum to the size {n} of the data "
                f"along axis: {np.diff(bounds, axis=-1).tolist()}"
            )
    return bounds


@composite(method=False, function=False)
def fft_segments(ops, data, reduce, lengths, offsets, axis, unsafe, initial):
    """`segment_reduce`."""
    if reduce not in STARTS:
        raise RuntimeError(f"segment_reduce: unsupported reduce {reduce!r}, one of {[*STARTS]}")
    axis %= max(data.ndim, 1)
    bounds = segment_bounds(lengths, offsets, data.shape[axis], unsafe)
    if bounds.ndim != axis + 1 or bounds.shape[:-1] != tuple(data.shape[:axis]):
        raise RuntimeError(
            f"segment_reduce: lengths or offsets must have axis + 1 = {axis + 1} dimensions: "
            f"{bounds.shape}, data {tuple(data.shape)}"
        )
    batch = math.prod(data.shape[:axis])
    inner_shape = tuple(data.shape[axis + 1 :])
    flat = ops.reshape(data, (batch, data.shape[axis], *inner_shape))
    rows = bounds.reshape(batch, bounds.shape[-1]).tolist()
    start = STARTS[reduce] if initial is None else initial
    results = []
    for i, row in enumerate(rows):
        for low, high in pairwise(row):
            results.append(
                reduce_segment(ops, flat[i, low:high], reduce, start, initial, inner_shape, data)
            )
    out = ops.stack(results) if results else ops.new_zeros(data, (0, *inner_shape))
    return ops.reshape(out, (*bounds.shape[:-1], bounds.shape[-1] - 1, *inner_shape))


def reduce_segment(
    ops: Any, part: Any, reduce: str, start: float, initial: Any, inner_shape: Any, data: Any
) -> Any:
    """The reduction of one segment along its first dimension."""
    n = part.shape[0]
    if not n:
        return ops.new_full(data, inner_shape, start)
    if reduce in ("max", "min"):
        out = (ops.amax if reduce == "max" else ops.amin)(part, 0)
        if initial is None:
            return out
        clamp = ops.clamp_min if reduce == "max" else ops.clamp_max
        return clamp(out, initial)
    if reduce == "prod":
        out = ops.prod(part, 0)
        return out if initial is None else out * initial
    out = ops.sum(part, 0)
    out = out if initial is None else out + initial
    return out / n if reduce == "mean" else out
