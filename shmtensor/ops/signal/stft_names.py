"""stft, istft and segment_reduce under their names in `shmtensor`. They are implemented in
`stft_segment_reduce.py`, which is declared on first use (ops/__init__.py).
"""

from __future__ import annotations

from ..table.op_table import composite


@composite(autocast="full")
def stft(
    ops,
    input,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    pad_mode="reflect",
    normalized=False,
    onesided=None,
    return_complex=None,
    align_to_window=None,
):
    """The Fourier transforms of overlapping frames of a signal: (..., frequencies, frames).

    Args:
        input: (L) or (batch, L)
        n_fft: points of a frame; hop_length: from frame to frame, by default a quarter.
        window: win_length weights, in the middle of a frame; by default ones.
        center: the signal is padded, so that frames are centred at 0, hop, 2 hop, ...
        normalized: scaled by 1 / sqrt(n_fft).
        onesided: the first half of the frequencies; by default of real signals.
        return_complex: False gives pairs of real numbers.
    """
    return ops.fft_stft(
        input, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided,
        return_complex,
    )  # fmt: skip


@composite
def istft(
    ops,
    input,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    normalized=False,
    onesided=None,
    length=None,
    return_complex=False,
):
    """The inverse of `stft`, by overlap-add; length: of the signal.

    Raises: RuntimeError, the windows leave gaps.
    """
    return ops.fft_istft(
        input, n_fft, hop_length, win_length, window, center, normalized, onesided, length,
        return_complex,
    )  # fmt: skip


@composite(method=False)
def segment_reduce(
    ops,
    data,
    reduce,
    *,
    lengths=None,
    indices=None,
    offsets=None,
    axis=0,
    unsafe=False,
    initial=None,
):
    """ "sum", "mean", "max", "min" or "prod" of consecutive segments along a dimension.

    Args:
        lengths: of the segments, (..., segments), the dimensions before it those of data before
            axis; or offsets: where they start and the last one ends.
        initial: the start of a reduction, and the result of an empty segment.
        unsafe: the lengths are not checked.
    """
    if indices is not None:
        raise RuntimeError("segment_reduce: indices based reduction is not supported")
    return ops.fft_segments(data, reduce, lengths, offsets, axis, unsafe, initial)
