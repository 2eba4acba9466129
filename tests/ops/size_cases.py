"""Calls with absurd sizes, each for a size n: for `test_absurd_sizes.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import shmtensor as st
from shmtensor import linalg, signal, special
from shmtensor.nn import functional as F
from shmtensor.ops import ROWS

# No memory holds so much, or the bytes overflow 64 bits, or it is negative.
SIZES = (2**40, 2**61, 2**62, 2**63 - 1, 2**63, -1, -(2**63))
# The same in two dimensions: a product of two, which overflows where a factor does not.
SIDES = (2**31 - 1, 2**31, 2**32, 2**33)

X = st.ones(3)
M = st.ones(3, 4)
LINE, IMAGE, VOLUME = st.ones(1, 2, 7), st.ones(1, 2, 7, 6), st.ones(1, 2, 5, 6, 7)
LONG = st.tensor([0, 1, 2])
Call = Callable[[int], Any]

# One size.
ONE: dict[str, Call] = {
    "empty": lambda n: st.empty(n),
    "zeros": lambda n: st.zeros(n),
    "zeros of bytes": lambda n: st.zeros(n, dtype=st.uint8),
    "zeros of bool": lambda n: st.zeros(n, 1, dtype=st.bool),
    "ones": lambda n: st.ones(n, 3),
    "full": lambda n: st.full((n,), 2.0),
    "full of ints": lambda n: st.full((2, n), 2),
    "empty_strided": lambda n: st.empty_strided((n,), (1,)),
    "empty_strided by strides": lambda n: st.empty_strided((2,), (n,)),
    "empty_permuted": lambda n: st.empty_permuted((n, 2), (1, 0)),
    "arange": lambda n: st.arange(n),
    "arange of floats": lambda n: st.arange(0.0, float(n), 1.0),
    "arange by a small step": lambda n: st.arange(0, 1, 1 / n),
    "range": lambda n: st.range(0, n),
    "linspace": lambda n: st.linspace(0, 1, n),
    "linspace of ints": lambda n: st.linspace(0, 1, n, dtype=st.int64),
    "linspace of complex": lambda n: st.linspace(0, 1j, n),
    "logspace": lambda n: st.logspace(0, 1, n),
    "logspace in float64": lambda n: st.logspace(0, 1, n, dtype=st.float64),
    "eye": lambda n: st.eye(n),
    "eye, wide": lambda n: st.eye(3, n),
    "rand": lambda n: st.rand(n),
    "randn": lambda n: st.randn(n),
    "randint": lambda n: st.randint(0, 5, (n,)),
    "randint's bound": lambda n: st.randint(0, n, (3,)),
    "randperm": lambda n: st.randperm(n),
    "normal": lambda n: st.normal(0.0, 1.0, (n,)),
    "multinomial": lambda n: st.multinomial(X, n, True),
    "multinomial, each once": lambda n: st.multinomial(X, n),
    "tril_indices": lambda n: st.tril_indices(n, n),
    "tril_indices, one column": lambda n: st.tril_indices(n, 1),
    "triu_indices": lambda n: st.triu_indices(n, n),
    "triu_indices, one row": lambda n: st.triu_indices(1, n),
    "tril_indices' offset": lambda n: st.tril_indices(3, 3, n),
    "one_hot": lambda n: F.one_hot(LONG, n),
    "vander": lambda n: st.vander(X, n),
    "linalg.vander": lambda n: linalg.vander(X, N=n),
    "bartlett_window": lambda n: st.bartlett_window(n),
    "blackman_window": lambda n: st.blackman_window(n),
    "hamming_window": lambda n: st.hamming_window(n),
    "hann_window": lambda n: st.hann_window(n),
    "kaiser_window": lambda n: st.kaiser_window(n),
    "windows.cosine": lambda n: signal.windows.cosine(n),
    "windows.gaussian": lambda n: signal.windows.gaussian(n),
    "windows.general_cosine": lambda n: signal.windows.general_cosine(n, a=[0.5, 0.5]),
    "windows.exponential": lambda n: signal.windows.exponential(n),
    "windows.nuttall": lambda n: signal.windows.nuttall(n),
    "fftfreq": lambda n: st.fft.fftfreq(n),
    "rfftfreq": lambda n: st.fft.rfftfreq(n),
    "fft": lambda n: st.fft.fft(X, n),
    "ifft": lambda n: st.fft.ifft(X, n),
    "rfft": lambda n: st.fft.rfft(X, n),
    "irfft": lambda n: st.fft.irfft(X, n),
    "hfft": lambda n: st.fft.hfft(X, n),
    "ihfft": lambda n: st.fft.ihfft(X, n),
    "fft2": lambda n: st.fft.fft2(M, (2, n)),
    "fftn": lambda n: st.fft.fftn(M, (n, n)),
    "irfftn": lambda n: st.fft.irfftn(M, (2, n)),
    "stft": lambda n: st.stft(X.repeat(10), n, return_complex=True),
    "stft's hop": lambda n: st.stft(X.repeat(10), 4, n, return_complex=True),
    "stft's window": lambda n: st.stft(X.repeat(10), 4, 2, n, return_complex=True),
    "istft": lambda n: st.istft(st.ones(3, 4, dtype=st.complex64), 4, 2, length=n),
    "istft's n_fft": lambda n: st.istft(st.ones(3, 4, dtype=st.complex64), n, 2),
    "histc": lambda n: st.histc(X, n),
    "histogram": lambda n: st.histogram(X, n),
    "histogramdd": lambda n: st.histogramdd(M[:, :2], [n, n]),
    "bincount": lambda n: st.bincount(LONG, minlength=n),
    "bincount of a large number": lambda n: st.bincount(st.tensor([n])),
    "nonzero_static": lambda n: st.nonzero_static(X, size=n),
    "tile": lambda n: st.tile(X, (n,)),
    "tile of an empty tensor": lambda n: st.tile(X[:0], (n,)),
    "repeat": lambda n: X.repeat(n),
    "repeat twice": lambda n: X.repeat(n, 2),
    "repeat of a larger tensor": lambda n: st.ones(5000).repeat(n),
    "repeat_interleave": lambda n: st.repeat_interleave(X, n),
    "repeat_interleave along": lambda n: st.repeat_interleave(M, n, 1),
    "repeat_interleave by a tensor": lambda n: st.repeat_interleave(X, st.tensor([1, n, 1])),
    "repeat_interleave of counts": lambda n: st.repeat_interleave(st.tensor([1, n, 1])),
    "repeat_interleave's output_size": lambda n: st.repeat_interleave(X, 2, output_size=n),
    "expand and clone": lambda n: st.ones(1).expand(n).clone(),
    "expand and contiguous": lambda n: st.ones(1, 2).expand(n, 2).t().contiguous(),
    "expand and add": lambda n: st.ones(1).expand(n) + 1,
    "expand and convert": lambda n: st.ones(1).expand(n).to(st.float64),
    "expand and sort": lambda n: st.ones(1).expand(n).sort() if n > 2**41 else 0,
    "expand and tolist": lambda n: st.ones(1).expand(n).tolist() if n > 2**41 else 0,
    "broadcast_to": lambda n: st.broadcast_to(X, (n, 3)).clone(),
    "as_strided": lambda n: X.as_strided((n,), (1,)),
    "as_strided's strides": lambda n: X.as_strided((2,), (n,)),
    "as_strided's offset": lambda n: X.as_strided((1,), (1,), n),
    "reshape": lambda n: X.reshape(n, 3),
    "view": lambda n: X.view(n, 3),
    "unflatten": lambda n: X.unflatten(0, (n, 3)),
    "resize_": lambda n: X.clone().resize_(n),
    "resize_ of two": lambda n: X.clone().resize_(n, 2),
    "resize_as_": lambda n: X.clone().resize_as_(st.ones(1).expand(n)),
    "new_empty": lambda n: X.new_empty((n,)),
    "new_zeros": lambda n: X.new_zeros((n,)),
    "new_ones": lambda n: X.new_ones((n, 2)),
    "new_full": lambda n: X.new_full((n,), 1.0),
    "Tensor": lambda n: st.Tensor(n),
    "FloatTensor": lambda n: st.FloatTensor(n, 2),
    "pad": lambda n: F.pad(X, (0, n)),
    "pad with ones": lambda n: F.pad(M, (n, 0, 0, 0), value=1.0),
    "pad, reflected": lambda n: F.pad(LINE, (n, 0), "reflect"),
    "pad, replicated": lambda n: F.pad(IMAGE, (0, 0, n, 0), "replicate"),
    "pad, circular": lambda n: F.pad(LINE, (n, 0), "circular"),
    "constant_pad_nd": lambda n: st.constant_pad_nd(X, (n, n)),
    "adaptive_avg_pool1d": lambda n: F.adaptive_avg_pool1d(LINE, n),
    "adaptive_avg_pool2d": lambda n: F.adaptive_avg_pool2d(IMAGE, (1, n)),
    "adaptive_max_pool1d": lambda n: F.adaptive_max_pool1d(LINE, n),
    "adaptive_max_pool2d": lambda n: F.adaptive_max_pool2d(IMAGE, (1, n)),
    "max_pool1d": lambda n: F.max_pool1d(LINE, n),
    "max_pool1d's stride": lambda n: F.max_pool1d(LINE, 2, n),
    "max_pool1d's padding": lambda n: F.max_pool1d(LINE, 2, 1, n),
    "max_pool1d's dilation": lambda n: F.max_pool1d(LINE, 2, 1, 0, n),
    "max_pool1d, padded as much": lambda n: F.max_pool1d(LINE, n, 1, n // 2),
    "max_pool2d": lambda n: F.max_pool2d(IMAGE, (1, n)),
    "max_pool2d, padded as much": lambda n: F.max_pool2d(IMAGE, n, 1, n // 2),
    "max_pool2d, padded as much, far apart": lambda n: F.max_pool2d(IMAGE, n, n, n // 2),
    "max_pool3d": lambda n: F.max_pool3d(VOLUME, n, 1, n // 2),
    "avg_pool1d": lambda n: F.avg_pool1d(LINE, n),
    "avg_pool1d, padded as much": lambda n: F.avg_pool1d(LINE, n, 1, n // 2),
    "avg_pool2d, padded as much": lambda n: F.avg_pool2d(IMAGE, n, 1, n // 2),
    "avg_pool2d, padded as much, far apart": lambda n: F.avg_pool2d(IMAGE, n, n, n // 2),
    "avg_pool3d, padded as much": lambda n: F.avg_pool3d(VOLUME, n, n, n // 2),
    "avg_pool2d's stride": lambda n: F.avg_pool2d(IMAGE, 2, n),
    "lp_pool1d": lambda n: F.lp_pool1d(LINE, 2, n),
    "lp_pool2d": lambda n: F.lp_pool2d(IMAGE, 2, 2, n),
    "fractional_max_pool2d": lambda n: F.fractional_max_pool2d(IMAGE, 2, output_size=n),
    "fractional_max_pool2d's kernel": lambda n: F.fractional_max_pool2d(IMAGE, n, output_size=2),
    "max_unpool1d": lambda n: F.max_unpool1d(
        LINE, st.zeros(1, 2, 7, dtype=st.int64), 2, output_size=(n,)
    ),
    "max_unpool1d's kernel": lambda n: F.max_unpool1d(LINE, st.zeros(1, 2, 7, dtype=st.int64), n),
    "max_unpool3d": lambda n: F.max_unpool3d(VOLUME, st.zeros(1, 2, 5, 6, 7, dtype=st.int64), n),
    "max_unpool2d": lambda n: F.max_unpool2d(IMAGE, st.zeros(1, 2, 7, 6, dtype=st.int64), 2, n),
    "unfold's kernel": lambda n: F.unfold(IMAGE, n),
    "unfold's padding": lambda n: F.unfold(IMAGE, 2, 1, n),
    "unfold's dilation": lambda n: F.unfold(IMAGE, 2, n),
    "unfold's stride": lambda n: F.unfold(IMAGE, 2, 1, 0, n),
    "unfold, padded as much": lambda n: F.unfold(IMAGE, (1, n), 1, (0, n // 2)),
    "fold": lambda n: F.fold(st.ones(1, 4, 12), n, 2),
    "fold's kernel": lambda n: F.fold(st.ones(1, 4, 12), (4, 5), n),
    "fold's padding": lambda n: F.fold(st.ones(1, 4, 12), (4, 5), 2, 1, n),
    "Tensor.unfold": lambda n: X.unfold(0, n, 1),
    "Tensor.unfold's step": lambda n: X.unfold(0, 2, n),
    "conv1d's stride": lambda n: F.conv1d(LINE, st.ones(4, 2, 3), stride=n),
    "conv1d's padding": lambda n: F.conv1d(LINE, st.ones(4, 2, 3), padding=n),
    "conv1d's dilation": lambda n: F.conv1d(LINE, st.ones(4, 2, 3), dilation=n),
    "conv1d's groups": lambda n: F.conv1d(LINE, st.ones(4, 2, 3), groups=n),
    "conv1d, same": lambda n: F.conv1d(LINE, st.ones(4, 2, 3), padding="same", dilation=n),
    "conv1d, padded and apart": lambda n: F.conv1d(LINE, st.ones(4, 2, 3), None, n, n, n),
    "conv2d's padding": lambda n: F.conv2d(IMAGE, st.ones(4, 2, 3, 3), padding=n),
    "conv2d, padded and apart": lambda n: F.conv2d(IMAGE, st.ones(4, 2, 3, 3), None, n, n, n),
    "conv2d's stride and padding": lambda n: F.conv2d(IMAGE, st.ones(4, 2, 3, 3), None, n, n),
    "conv3d's padding": lambda n: F.conv3d(VOLUME, st.ones(4, 2, 3, 3, 3), padding=n),
    "conv3d, padded and apart": lambda n: F.conv3d(VOLUME, st.ones(4, 2, 3, 3, 3), None, n, n, n),
    "conv_transpose1d's stride": lambda n: F.conv_transpose1d(LINE, st.ones(2, 2, 3), stride=n),
    "conv_transpose1d's padding": lambda n: F.conv_transpose1d(LINE, st.ones(2, 2, 3), padding=n),
    "conv_transpose1d's dilation": lambda n: F.conv_transpose1d(LINE, st.ones(2, 2, 3), dilation=n),
    "conv_transpose1d's output_padding": lambda n: F.conv_transpose1d(
        LINE, st.ones(2, 2, 3), None, n, 0, n - 1
    ),
    "conv_transpose2d's stride": lambda n: F.conv_transpose2d(IMAGE, st.ones(2, 2, 3, 3), stride=n),
    "conv_transpose2d's dilation": lambda n: F.conv_transpose2d(
        IMAGE, st.ones(2, 2, 3, 3), dilation=n
    ),
    "conv_transpose2d, padded": lambda n: F.conv_transpose2d(
        IMAGE, st.ones(2, 2, 3, 3), None, n, 3 * n
    ),
    "conv_tbc": lambda n: F.conv_tbc(st.ones(5, 2, 3), st.ones(3, 3, 4), st.ones(4), n),
    "interpolate": lambda n: F.interpolate(LINE, size=n),
    "interpolate by a scale": lambda n: F.interpolate(LINE, scale_factor=float(n)),
    "interpolate, linear": lambda n: F.interpolate(LINE, size=n, mode="linear"),
    "interpolate, exact": lambda n: F.interpolate(LINE, size=n, mode="nearest-exact"),
    "interpolate, area": lambda n: F.interpolate(LINE, size=n, mode="area"),
    "interpolate, bilinear": lambda n: F.interpolate(IMAGE, size=(1, n), mode="bilinear"),
    "interpolate, bicubic": lambda n: F.interpolate(IMAGE, size=(n, 1), mode="bicubic"),
    "interpolate, antialiased": lambda n: F.interpolate(
        IMAGE, size=(n, 1), mode="bicubic", antialias=True
    ),
    "interpolate, trilinear": lambda n: F.interpolate(VOLUME, size=(1, 1, n), mode="trilinear"),
    "upsample": lambda n: F.upsample(LINE, n),
    "pixel_shuffle": lambda n: F.pixel_shuffle(IMAGE, n),
    "pixel_unshuffle": lambda n: F.pixel_unshuffle(IMAGE, n),
    "channel_shuffle": lambda n: F.channel_shuffle(IMAGE, n),
    "affine_grid": lambda n: F.affine_grid(st.ones(1, 2, 3), [1, 1, 2, n]),
    "affine_grid of volumes": lambda n: F.affine_grid(st.ones(1, 3, 4), [1, 1, n, 2, 2]),
    "grid's size": lambda n: F.affine_grid(st.ones(1, 2, 3), [n, 1, 2, 2]),
    "combinations": lambda n: st.combinations(st.ones(100), n),
    "combinations with replacement": lambda n: st.combinations(X, n, True),
    "matrix_power": lambda n: linalg.matrix_power(st.ones(2, 2), n),
    "diag": lambda n: st.diag(X, n),
    "diagflat": lambda n: st.diagflat(X, n),
    "diag_embed": lambda n: st.diag_embed(X, n),
    "diagonal": lambda n: M.diagonal(n),
    "tril": lambda n: M.tril(n),
    "triu": lambda n: M.triu(n),
    "trapezoid": lambda n: st.trapezoid(X, dx=n),
    "diff": lambda n: st.diff(X, n),
    "roll": lambda n: st.roll(X, n),
    "rot90": lambda n: st.rot90(M, n),
    "chunk": lambda n: X.chunk(n),
    "split": lambda n: X.split(n),
    "tensor_split": lambda n: X.tensor_split(n),
    "narrow": lambda n: X.narrow(0, 0, n),
    "narrow's start": lambda n: X.narrow(0, n, 1),
    "select": lambda n: X.select(0, n),
    "topk": lambda n: X.topk(n),
    "kthvalue": lambda n: X.kthvalue(n),
    "sum over dims": lambda n: X.sum(n),
    "unsqueeze": lambda n: X.unsqueeze(n),
    "embedding": lambda n: F.embedding(LONG, M, padding_idx=n),
    "glu": lambda n: F.glu(M, n),
    "local_response_norm": lambda n: F.local_response_norm(IMAGE, n),
    "group_norm": lambda n: F.group_norm(IMAGE, n),
    "unravel_index": lambda n: st.unravel_index(LONG, (n, n)),
    "polygamma": lambda n: st.polygamma(n, X) if n < 2**40 else 0,
    "mvlgamma": lambda n: st.mvlgamma(X + 5, n),
    "hermite polynomials": lambda n: special.hermite_polynomial_h(X, n),
    "tensordot": lambda n: st.tensordot(X, X, n),
    "cumulative_trapezoid": lambda n: st.cumulative_trapezoid(X, dim=n),
    "svd_lowrank": lambda n: st.svd_lowrank(M, n),
    "pca_lowrank": lambda n: st.pca_lowrank(M, n),
    "renorm": lambda n: st.renorm(M, 2, n, 1.0),
    "sparse size": lambda n: st.sparse_coo_tensor([[0]], [1.0], (n,)).to_dense(),
    "from_file": lambda n: st.from_file("/dev/null", size=n),
    "frombuffer": lambda n: st.frombuffer(b"12345678", dtype=st.int32, count=n),
    "frombuffer's offset": lambda n: st.frombuffer(b"12345678", dtype=st.int32, offset=n),
    "ctc_loss' lengths": lambda n: F.ctc_loss(
        st.ones(5, 1, 3).log_softmax(2), st.tensor([[1]]), st.tensor([n]), st.tensor([1])
    ),
    "segment_reduce": lambda n: st.segment_reduce(X, "sum", lengths=st.tensor([n])),
    "pad_sequence": lambda n: st.nn.utils.rnn.pad_packed_sequence(
        st.nn.utils.rnn.pack_padded_sequence(st.ones(3, 1), [3]), total_length=n
    ),
    "logcumsumexp": lambda n: st.logcumsumexp(X, n),
    "cdist": lambda n: st.cdist(st.ones(1, 2).expand(n, 2), st.ones(3, 2)),
    "gradient": lambda n: st.gradient(X, spacing=n),
    "index_add": lambda n: st.Tensor.index_add(X, 0, st.tensor([n]), st.ones(1)),
}

# Two sizes whose product overflows, or is more than any memory.
TWO: dict[str, Call] = {
    "zeros": lambda n: st.zeros(n, n),
    "zeros of bytes": lambda n: st.zeros(n, n, n, dtype=st.uint8),
    "empty of no elements": lambda n: st.empty(n, n, n, 0),
    "eye": lambda n: st.eye(n, n),
    "rand": lambda n: st.rand(n, n),
    "tile": lambda n: st.tile(X, (n, n)),
    "tile of a matrix": lambda n: st.tile(M, (n, n)),
    "tile of a large one": lambda n: st.tile(st.ones(100, 100), (n, n)),
    "tile thrice": lambda n: st.tile(X, (n, n, n)),
    "repeat": lambda n: X.repeat(n, n),
    "repeat of a large one": lambda n: st.ones(100, 100).repeat(n, n),
    "expand and clone": lambda n: st.ones(1, 1).expand(n, n).clone(),
    "expand thrice": lambda n: st.ones(1).expand(n, n, n),
    "expand and contiguous": lambda n: st.ones(1, 1).expand(n, n).contiguous(),
    "expand and reshape": lambda n: st.ones(1, 1).expand(n, n).reshape(-1),
    "expand and add": lambda n: st.ones(1, 1).expand(n, n) + 1,
    "expand and cat": lambda n: st.cat([st.ones(1, 1).expand(n, n)] * 2),
    "expand and stack": lambda n: st.stack([st.ones(1, 1).expand(n, n)] * 2),
    "kron": lambda n: st.kron(st.ones(1).expand(n), st.ones(1).expand(n)),
    "outer": lambda n: st.outer(st.ones(1).expand(n), st.ones(1).expand(n)),
    "meshgrid": lambda n: [
        x.clone() for x in st.meshgrid(*[st.ones(1).expand(n)] * 2, indexing="ij")
    ],
    "cartesian_prod": lambda n: st.cartesian_prod(*[st.ones(1).expand(n)] * 2),
    "block_diag": lambda n: st.block_diag(*[st.ones(1, 1).expand(n, n)] * 2),
    "matmul": lambda n: st.ones(1, 1).expand(n, 1) @ st.ones(1, 1).expand(1, n),
    "bmm": lambda n: st.bmm(st.ones(1, 1, 1).expand(n, n, 1), st.ones(1, 1, 1).expand(n, 1, n)),
    "broadcast": lambda n: st.ones(1, 1).expand(n, 1) + st.ones(1, 1).expand(1, n),
    "vander": lambda n: st.vander(st.ones(1).expand(n), n),
    "diag": lambda n: st.diag(st.ones(1).expand(n)),
    "diag_embed": lambda n: st.diag_embed(st.ones(1).expand(n)),
    "one_hot": lambda n: F.one_hot(st.zeros(1, dtype=st.int64).expand(n), n),
    "adaptive_avg_pool2d": lambda n: F.adaptive_avg_pool2d(IMAGE, n),
    "adaptive_max_pool2d": lambda n: F.adaptive_max_pool2d(IMAGE, n),
    "adaptive_avg_pool3d": lambda n: F.adaptive_avg_pool3d(VOLUME, n),
    "adaptive_max_pool3d": lambda n: F.adaptive_max_pool3d(VOLUME, n),
    "interpolate": lambda n: F.interpolate(IMAGE, size=n),
    "interpolate, area": lambda n: F.interpolate(IMAGE, size=n, mode="area"),
    "interpolate, exact": lambda n: F.interpolate(IMAGE, size=n, mode="nearest-exact"),
    "interpolate, bilinear": lambda n: F.interpolate(IMAGE, size=n, mode="bilinear"),
    "interpolate, bicubic": lambda n: F.interpolate(IMAGE, size=n, mode="bicubic"),
    "interpolate, antialiased": lambda n: F.interpolate(
        IMAGE, size=n, mode="bilinear", antialias=True
    ),
    "interpolate, trilinear": lambda n: F.interpolate(VOLUME, size=n, mode="trilinear"),
    "pad": lambda n: F.pad(M, (n, n, n, n)),
    "pad with ones": lambda n: F.pad(M, (n, n, n, n), value=1.0),
    "pad, replicated": lambda n: F.pad(IMAGE, (n, n, n, n), "replicate"),
    "conv2d": lambda n: F.conv2d(IMAGE, st.ones(4, 2, 3, 3), padding=n),
    "conv2d, depthwise": lambda n: F.conv2d(IMAGE, st.ones(2, 1, 3, 3), padding=n, groups=2),
    "conv3d": lambda n: F.conv3d(VOLUME, st.ones(4, 2, 3, 3, 3), padding=n),
    "conv_transpose2d": lambda n: F.conv_transpose2d(IMAGE, st.ones(2, 2, 3, 3), stride=n),
    "max_pool2d": lambda n: F.max_pool2d(IMAGE, n, 1, n // 2),
    "max_pool2d, apart": lambda n: F.max_pool2d(IMAGE, n, n, n // 2),
    "max_pool3d": lambda n: F.max_pool3d(VOLUME, n, 1, n // 2),
    "avg_pool2d": lambda n: F.avg_pool2d(IMAGE, n, 1, n // 2),
    "avg_pool2d, apart": lambda n: F.avg_pool2d(IMAGE, n, n, n // 2),
    "avg_pool3d": lambda n: F.avg_pool3d(VOLUME, n, 1, n // 2),
    "unfold": lambda n: F.unfold(IMAGE, n, 1, n),
    "unfold's padding": lambda n: F.unfold(IMAGE, 2, 1, n),
    "fold": lambda n: F.fold(st.ones(1, 4, 12), (n, n), 2),
    "affine_grid": lambda n: F.affine_grid(st.ones(1, 2, 3), [1, 1, n, n]),
    "resize_": lambda n: X.clone().resize_(n, n),
    "as_strided": lambda n: X.as_strided((n, n), (n, n)),
    "empty_strided": lambda n: st.empty_strided((n, n), (n, 1)),
    "new_zeros": lambda n: X.new_zeros((n, n)),
    "tril_indices": lambda n: st.tril_indices(n, n),
    "triu_indices": lambda n: st.triu_indices(n, n),
    "histogramdd": lambda n: st.histogramdd(M[:, :2], [n, n]),
    "fftn": lambda n: st.fft.fftn(M, (n, n)),
    "cdist": lambda n: st.cdist(st.ones(1, 2).expand(n, 2), st.ones(1, 2).expand(n, 2)),
    "repeat_interleave": lambda n: st.repeat_interleave(X, st.tensor([n, n, n]) * n),
    "repeat_interleave of many": lambda n: st.repeat_interleave(st.ones(3, 1).expand(3, n), n, 0),
    "unfold of a vector": lambda n: st.ones(1).expand(n).unfold(0, n // 2, 1).clone(),
    "FloatTensor": lambda n: st.FloatTensor(n, n),
    "where": lambda n: (
        st.where(st.ones(1, 1).expand(n, 1) > 0, st.ones(1, 1).expand(1, n), X[0])
        if n > 2**60
        else 0
    ),
    "einsum": lambda n: st.einsum(
        "ij,kj->ik", st.ones(1, 1).expand(n, 1), st.ones(1, 1).expand(n, 1)
    ),
    "linear": lambda n: F.linear(st.ones(1, 1).expand(n, 1), st.ones(1, 1).expand(n, 1)),
    "index": lambda n: (
        st.ones(1, 1).expand(1, n)[st.zeros(1, dtype=st.int64).expand(n)] if n > 2**60 else 0
    ),
    "addmm": lambda n: st.addmm(X[0], st.ones(1, 1).expand(n, 1), st.ones(1, 1).expand(1, n)),
    "Linear": lambda n: st.nn.Linear(n, n),
    "Embedding": lambda n: st.nn.Embedding(n, n),
    "LSTM": lambda n: st.nn.LSTM(n, n),
    "Conv2d": lambda n: st.nn.Conv2d(n, n, 1),
    "MultiheadAttention": lambda n: st.nn.MultiheadAttention(n, 1),
}


def substituted(value: Any, n: int) -> Iterator[Any]:
    """Copies of an argument with one number in it replaced by n."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield n
    elif isinstance(value, (tuple, list)):
        for i, part in enumerate(value):
            for other in substituted(part, n):
                yield type(value)([*value[:i], other, *value[i + 1 :]])


def of_rows() -> Iterator[tuple[str, Callable[[], Any]]]:
    """The samples of the public rows, each whole number replaced by an absurd one."""
    from draws import calls

    from shmtensor.autograd.dispatch.op_function import table

    for row in ROWS.values():
        if row.name.startswith("_") or not row.function:
            continue
        function = getattr(table, row.name)
        for call in calls(row):
            for i, attribute in enumerate(call.attributes):
                for n in SIZES:
                    for other in substituted(attribute, n):
                        attributes = [*call.attributes[:i], other, *call.attributes[i + 1 :]]
                        yield (
                            f"{row.name}{call.sample} with {attributes}",
                            lambda call=call, attributes=attributes, function=function: function(
                                *call.tensors(), *attributes, **call.kwargs
                            ),
                        )


def all_cases() -> list[tuple[str, Callable[[], Any]]]:
    """(name, call) of all."""
    cases: list[tuple[str, Callable[[], Any]]] = []
    for kind, table, numbers in (("one", ONE, SIZES), ("two", TWO, SIDES)):
        for name, call in table.items():
            for n in numbers:
                cases.append((f"{name} ({kind}) of {n}", lambda call=call, n=n: call(n)))
    return [*cases, *of_rows()]
