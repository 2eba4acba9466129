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
    """The Fourier transforms of overlapping frames of a signal.

    Parameters
    ----------
    input : Tensor
        `(L,)` or `(batch, L)`, real or complex.
    n_fft : int
        The number of points of a frame.
    hop_length : int, optional
        From one frame to the next; by default n_fft // 4.
    win_length : int, optional
        The number of points of the window; by default n_fft.
    window : Tensor, optional
        `win_length` weights, in the middle of a frame; by default ones.
    center : bool, optional
        Whether the signal is padded, so that frames are centred at 0, hop, 2 hop, ...
    pad_mode : str, optional
        How it is padded, as for `nn.functional.pad`.
    normalized : bool, optional
        Whether the result is scaled by 1 / sqrt(n_fft).
    onesided : bool, optional
        Whether only the first half of the frequencies is returned; by default for real signals.
    return_complex : bool, optional
        False gives pairs of real numbers; needed for real signals.
    align_to_window : bool, optional
        Accepted; has no effect.

    Returns
    -------
    Tensor
        `(..., frequencies, frames)`, complex, or `(..., frequencies, frames, 2)`.

    Raises
    ------
    RuntimeError
        The sizes do not fit, or `onesided` for complex numbers.

    See Also
    --------
    istft, hann_window, fft.rfft

    Examples
    --------
    >>> signal, window = st.ones(16), st.hann_window(8)
    >>> st.stft(signal, n_fft=8, hop_length=4, window=window, return_complex=True).shape
    Size([5, 5])
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
    """A signal from the Fourier transforms of its frames: the inverse of `stft`.

    Parameters
    ----------
    input : Tensor
        `(..., frequencies, frames)`, complex.
    n_fft : int
        The number of points of a frame.
    hop_length : int, optional
        From one frame to the next; by default n_fft // 4.
    win_length : int, optional
        The number of points of the window; by default n_fft.
    window : Tensor, optional
        The window of `stft`; by default ones.
    center : bool, optional
        Whether `stft` padded the signal.
    normalized : bool, optional
        Whether `stft` scaled the result.
    onesided : bool, optional
        Whether there is only the first half of the frequencies; by default unless there are n_fft
        of them.
    length : int, optional
        The length of the signal; by default what the frames cover.
    return_complex : bool, optional
        Whether the signal is complex.

    Returns
    -------
    Tensor
        `(L,)` or `(batch, L)`.

    Raises
    ------
    RuntimeError
        The windows leave gaps, or the sizes do not fit.

    See Also
    --------
    stft

    Notes
    -----
    The frames are added where they overlap, and divided by the sum of the squared windows.

    Examples
    --------
    >>> signal, window = st.arange(16.), st.hann_window(8)
    >>> frames = st.stft(signal, n_fft=8, hop_length=4, window=window, return_complex=True)
    >>> back = st.istft(frames, n_fft=8, hop_length=4, window=window)
    >>> st.allclose(back, signal, atol=1e-4)
    True
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
    """Reductions of consecutive segments along a dimension.

    Parameters
    ----------
    data : Tensor
        Of a floating-point dtype.
    reduce : str
        "sum", "mean", "max", "min" or "prod".
    lengths : Tensor, optional
        The lengths of the segments, `(..., segments)`; the dimensions before the last one are those
        of `data` before `axis`.
    indices : None, optional
        Only None.
    offsets : Tensor, optional
        In place of `lengths`: where the segments start and the last one ends.
    axis : int, optional
        The dimension.
    unsafe : bool, optional
        Whether the lengths are not checked.
    initial : number, optional
        The start of a reduction, and the result of an empty segment.

    Returns
    -------
    Tensor
        With the number of segments in place of the size of `axis`.

    Raises
    ------
    RuntimeError
        There is no such reduction, or the lengths do not fit.

    See Also
    --------
    scatter_reduce

    Examples
    --------
    >>> st.segment_reduce(st.tensor([1., 2., 3., 4.]), "sum", lengths=st.tensor([3, 1]))
    tensor([6., 4.])
    """
    if indices is not None:
        raise RuntimeError("segment_reduce: indices based reduction is not supported")
    return ops.fft_segments(data, reduce, lengths, offsets, axis, unsafe, initial)
