"""The tables of docs/design/convolution.md:
`python -m benchmarks.convolutions [--channels-last] [--only REGEX]`.

Medians of forward, gradient of the input and gradient of the weight, each measured in turn with
PyTorch's, as rows of Markdown:

ratio    the sum of our three times over the sum of PyTorch's
share    direct multiply-adds of our slowest pass, over what the processor can do at all
GB/s     the bytes of images, filters and results, each moved once, of that pass

With --channels-last: a block of convolution, batch norm and ReLU forward and backward, in
milliseconds: ours and PyTorch's of images in channels_last, and ours of contiguous ones.

The C library keeps freed memory, so that PyTorch's results are on warm pages, as ours are.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import re
import statistics
import sys
from typing import Any, NamedTuple

from .harness.case import OURS, PYTORCH, Build, Case, compare
from .harness.machine import ceilings
from .harness.measure import measure

PASSES = ("forward", "input", "weight")
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of mallopt


class Layer(NamedTuple):
    """Images (n, c, *size), and filters: k of c / groups channels of `kernel`."""

    name: str
    images: tuple[int, ...]
    k: int
    kernel: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    transposed: bool = False

    def build(self, only: str) -> Build:
        """A function of the library that returns one of the passes."""
        options = {
            name: getattr(self, name) for name in ("stride", "padding", "dilation", "groups")
        }
        channels = [self.images[1], self.k // self.groups]
        if not self.transposed:
            channels = [self.k, self.images[1] // self.groups]
        function = f"conv{'_transpose' * self.transposed}{len(self.kernel)}d"

        def build(st: Any) -> Any:
            convolve = getattr(st.nn.functional, function)
            x, w = st.randn(*self.images), st.randn(*channels, *self.kernel)
            if only == "forward":
                return lambda: convolve(x, w, **options)
            leaf = (x if only == "input" else w).requires_grad_(True)
            y = convolve(x, w, **options)
            g = st.randn(*y.shape)
            return lambda: st.autograd.grad(y, leaf, g, retain_graph=True)

        return build

    def sizes(self) -> tuple[int, int, int, int]:
        """Numbers of images, of filters and of results, and of multiply-adds."""
        span = self.dilation * (max(self.kernel) - 1)
        size = [
            (n - 1) * self.stride - 2 * self.padding + span + 1
            if self.transposed
            else (n + 2 * self.padding - self.dilation * (m - 1) - 1) // self.stride + 1
            for n, m in zip(self.images[2:], self.kernel, strict=True)
        ]
        x, y = math.prod(self.images), self.images[0] * self.k * math.prod(size)
        w = self.k * self.images[1] // self.groups * math.prod(self.kernel)
        return x, w, y, w * (x // self.images[1] if self.transposed else y // self.k)


def square(name: str, n: int, c: int, size: int, k: int, kernel: int, **options: Any) -> Layer:
    return Layer(name, (n, c, size, size), k, (kernel, kernel), **options)


LAYERS = [
    square("3 x 3, 3 to 16, 32 x 32^2", 32, 3, 32, 16, 3, padding=1),
    square("3 x 3, 1 to 32, 64 x 28^2", 64, 1, 28, 32, 3),
    square("5 x 5, 3 to 64, 4 x 64^2", 4, 3, 64, 64, 5, padding=2),
    square("3 x 3, 64 to 3, 8 x 64^2", 8, 64, 64, 3, 3, padding=1),
    square("7 x 7 stride 2, 3 to 64, 2 x 224^2", 2, 3, 224, 64, 7, stride=2, padding=3),
    square("3 x 3, 16, 32 x 32^2", 32, 16, 32, 16, 3, padding=1),
    square("3 x 3, 32, 32 x 28^2", 32, 32, 28, 32, 3, padding=1),
    square("3 x 3, 64, 8 x 56^2", 8, 64, 56, 64, 3, padding=1),
    square("3 x 3, 64, 4 x 56^2", 4, 64, 56, 64, 3, padding=1),
    square("3 x 3, 128, 4 x 28^2", 4, 128, 28, 128, 3, padding=1),
    square("3 x 3, 128, 32 x 14^2", 32, 128, 14, 128, 3, padding=1),
    square("3 x 3, 256, 32 x 14^2", 32, 256, 14, 256, 3, padding=1),
    square("3 x 3, 256, 8 x 14^2", 8, 256, 14, 256, 3, padding=1),
    square("3 x 3, 256, 4 x 14^2", 4, 256, 14, 256, 3, padding=1),
    square("3 x 3, 512, 32 x 7^2", 32, 512, 7, 512, 3, padding=1),
    square("3 x 3, 512, 8 x 7^2", 8, 512, 7, 512, 3, padding=1),
    square("3 x 3, 512, 4 x 7^2", 4, 512, 7, 512, 3, padding=1),
    square("1 x 1, 64, 8 x 56^2", 8, 64, 56, 64, 1),
    square("1 x 1, 256, 32 x 14^2", 32, 256, 14, 256, 1),
    square("1 x 1, 256, 8 x 14^2", 8, 256, 14, 256, 1),
    square("1 x 1, 64 to 256, 8 x 56^2", 8, 64, 56, 256, 1),
    square("1 x 1, 512, 32 x 7^2", 32, 512, 7, 512, 1),
    square("1 x 1 stride 2, 64 to 128, 8 x 56^2", 8, 64, 56, 128, 1, stride=2),
    square("3 x 3 stride 2, 64 to 128, 8 x 56^2", 8, 64, 56, 128, 3, stride=2, padding=1),
    square("3 x 3 stride 2, 128 to 256, 32 x 14^2", 32, 128, 14, 256, 3, stride=2, padding=1),
    square("3 x 3 stride 2, 128 to 256, 4 x 28^2", 4, 128, 28, 256, 3, stride=2, padding=1),
    square("3 x 3 stride 2, 256 to 512, 4 x 14^2", 4, 256, 14, 512, 3, stride=2, padding=1),
    square("4 x 4 stride 2, 64 to 128, 64 x 14^2", 64, 64, 14, 128, 4, stride=2, padding=1),
    square("4 x 4 stride 2, 64 to 128, 64 x 8^2", 64, 64, 8, 128, 4, stride=2, padding=1),
    square("depthwise 3 x 3, 64, 8 x 28^2", 8, 64, 28, 64, 3, padding=1, groups=64),
    square(
        "depthwise 3 x 3 stride 2, 64, 8 x 56^2", 8, 64, 56, 64, 3, stride=2, padding=1, groups=64
    ),
    square("3 x 3 dilation 2, 32, 8 x 28^2", 8, 32, 28, 32, 3, padding=2, dilation=2),
    square("3 x 3, 4 groups, 64, 8 x 28^2", 8, 64, 28, 64, 3, padding=1, groups=4),
    Layer("3, 32, 16 x 256", (16, 32, 256), 32, (3,), padding=1),
    Layer("3 x 3 x 3, 16 to 32, 2 x 12 x 14^2", (2, 16, 12, 14, 14), 32, (3, 3, 3), padding=1),
    square("transposed 3 x 3, 32 to 16, 8 x 28^2", 8, 32, 28, 16, 3, padding=1, transposed=True),
    Layer(
        "transposed 3 x 3 x 3, 16, 2 x 12 x 14^2",
        (2, 16, 12, 14, 14),
        16,
        (3, 3, 3),
        padding=1,
        transposed=True,
    ),
    square("4 x 4 on 4 x 4, 128 to 1, 64 images", 64, 128, 4, 1, 4),
]


BLOCKS = [
    square("block 3 x 3, 64 to 64, 8 x 56^2", 8, 64, 56, 64, 3, padding=1),
    square("block 3 x 3, 128 to 128, 8 x 28^2", 8, 128, 28, 128, 3, padding=1),
    square("block 3 x 3, 256 to 256, 8 x 14^2", 8, 256, 14, 256, 3, padding=1),
    square("block 3 x 3 stride 2, 64 to 128, 8 x 56^2", 8, 64, 56, 128, 3, stride=2, padding=1),
    square("block 3 x 3, 3 to 32, 16 x 32^2", 16, 3, 32, 32, 3, padding=1),
    square("block 1 x 1, 64 to 256, 8 x 56^2", 8, 64, 56, 256, 1),
    square("block 1 x 1, 256 to 64, 8 x 56^2", 8, 256, 56, 64, 1),
    square("block 1 x 1, 256 to 256, 8 x 14^2", 8, 256, 14, 256, 1),
]


def build_block(layer: Layer, form: str) -> Build:
    """Convolution, batch norm and ReLU, forward and all gradients, in a memory format."""

    def build(st: Any) -> Any:
        c = layer.images[1]
        convolution = st.nn.Conv2d(
            c, layer.k, layer.kernel, layer.stride, layer.padding, bias=False
        )
        model = st.nn.Sequential(convolution, st.nn.BatchNorm2d(layer.k), st.nn.ReLU())
        model.to(memory_format=getattr(st, form))
        x = st.randn(*layer.images).to(memory_format=getattr(st, form)).requires_grad_(True)
        leaves = [x, *model.parameters()]
        g = st.randn(*model(x).shape).to(memory_format=getattr(st, form))
        return lambda: st.autograd.grad(model(x), leaves, g)

    return build


def block_row(layer: Layer, repeats: int, seconds: float) -> str:
    """The block's row of the table of channels_last."""
    times = {}
    for form in ("channels_last", "contiguous_format"):
        case = Case(f"{layer.name}, {form}", compare(build_block(layer, form)))
        result = measure(case, repeats, seconds)
        times[form] = [statistics.median(result.seconds[who]) * 1e3 for who in (OURS, PYTORCH)]
    (ours, theirs), (contiguous, _) = times["channels_last"], times["contiguous_format"]
    cells = [f"{ours:.1f}", f"{contiguous:.1f}", f"{theirs:.1f}", f"{ours / theirs:.2f}"]
    return f"| {layer.name} | {' | '.join(cells)} |"


def row(layer: Layer, repeats: int, seconds: float, flops: float) -> str:
    """The layer's row of the table."""
    ours, theirs = [], []
    for name in PASSES:
        case = Case(f"{layer.name}, {name}", compare(layer.build(name)))
        result = measure(case, repeats, seconds)
        ours.append(statistics.median(result.seconds[OURS]))
        theirs.append(statistics.median(result.seconds[PYTORCH]))
    x, w, y, products = layer.sizes()
    cells = [f"{a * 1e6:.0f} / {b * 1e6:.0f}" for a, b in zip(ours, theirs, strict=True)]
    share = f"{2 * products / max(ours) / flops:.2f}" if flops else ""
    cells += [f"{sum(ours) / sum(theirs):.2f}", share, f"{4 * (x + w + y) / max(ours) / 1e9:.1f}"]
    return f"| {layer.name} | {' | '.join(cells)} |"


def main(arguments: list[str] | None = None) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.convolutions", description=__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="layers whose name matches")
    parser.add_argument("--repeats", type=int, default=9, help="turns of each library")
    parser.add_argument("--seconds", type=float, default=0.03, help="of a turn")
    parser.add_argument("--channels-last", action="store_true", help="the table of blocks")
    options = parser.parse_args(arguments)
    libc = ctypes.CDLL(None)
    libc.mallopt(TRIM_THRESHOLD, 1 << 30)
    libc.mallopt(MMAP_THRESHOLD, 1 << 25)
    if options.channels_last:
        columns = ("layer, images", "ours", "ours, contiguous", "PyTorch, channels last", "ratio")
        print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
        for layer in BLOCKS:
            if re.search(options.only, layer.name):
                print(block_row(layer, options.repeats, options.seconds), flush=True)
        return 0
    flops = ceilings(len(os.sched_getaffinity(0))).get("flops", 0.0)
    print(f"{flops / 1e9:.0f} GFLOP/s at most; microseconds, shmtensor / PyTorch\n")
    titles = ("shape", *PASSES, "ratio", "share", "GB/s")
    print(f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|")
    for layer in LAYERS:
        if re.search(options.only, layer.name):
            print(row(layer, options.repeats, options.seconds, flops), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
