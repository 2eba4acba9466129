"""Layers of networks: convolution, pooling, norms; forward alone, and forward with backward."""

from __future__ import annotations

from typing import Any

from .harness.case import Build, Case, compare

# Targets of forward with backward, by the start of the name; forward alone has the target 1.
AT_MOST = {"conv 1x1": 1.0, "conv 7x7": 0.8, "conv 3x3 depthwise": 0.8, "conv 3x3": 0.5, "": 0.8}


def layer(make: Any, backward: bool) -> Build:
    """`make(st)` is (function, leaves)."""

    def build(st: Any) -> Any:
        function, *leaves = make(st)
        for x in leaves:
            x.requires_grad_(True)
        g = st.ones(*function(*leaves).shape)

        def both() -> None:
            function(*leaves).backward(g)
            for x in leaves:
                x.grad = None

        def forward() -> None:
            with st.no_grad():
                function(*leaves)

        return both if backward else forward

    return build


def conv(n: int, c: int, size: int, k: int, kernel: int, **kwargs: Any) -> Any:
    """Square images and filters."""
    inner = c // kwargs.get("groups", 1)

    def make(st: Any) -> Any:
        f = st.nn.functional.conv2d
        x, w = st.randn(n, c, size, size), st.randn(k, inner, kernel, kernel)
        return lambda x, w, b: f(x, w, b, **kwargs), x, w, st.randn(k)

    return make


def affine(st: Any, n: int) -> Any:
    """A weight and a bias."""
    return st.ones(n), st.zeros(n)


def layer_norm(st: Any) -> Any:
    f = st.nn.functional.layer_norm
    return lambda x, w, b: f(x, (768,), w, b), st.randn(512, 768), *affine(st, 768)


def rms_norm(st: Any) -> Any:
    f = st.nn.functional.rms_norm
    return lambda x, w: f(x, (768,), w, 1e-5), st.randn(512, 768), st.ones(768)


def group_norm(st: Any) -> Any:
    f = st.nn.functional.group_norm
    return lambda x, w, b: f(x, 8, w, b), st.randn(32, 64, 28, 28), *affine(st, 64)


def batch_norm(*shape: int) -> Any:
    def make(st: Any) -> Any:
        f, running = st.nn.functional.batch_norm, affine(st, shape[1])
        return lambda x, w, b: f(x, *running, w, b, True), st.randn(*shape), *affine(st, shape[1])

    return make


def pool(name: str, *arguments: Any) -> Any:
    def make(st: Any) -> Any:
        f = getattr(st.nn.functional, name)
        return lambda x: f(x, *arguments), st.randn(8, 64, 56, 56)

    return make


LAYERS = [
    ("conv 3x3, 3 to 16, 32 x 32^2", conv(32, 3, 32, 16, 3, padding=1)),
    ("conv 3x3, 1 to 32, 64 x 28^2", conv(64, 1, 28, 32, 3)),
    ("conv 3x3, 64, 8 x 56^2", conv(8, 64, 56, 64, 3, padding=1)),
    ("conv 3x3, 128, 32 x 14^2", conv(32, 128, 14, 128, 3, padding=1)),
    ("conv 1x1, 64, 8 x 56^2", conv(8, 64, 56, 64, 1)),
    ("conv 3x3 stride 2, 64 to 128, 8 x 56^2", conv(8, 64, 56, 128, 3, stride=2, padding=1)),
    ("conv 7x7 stride 2, 3 to 64, 2 x 224^2", conv(2, 3, 224, 64, 7, stride=2, padding=3)),
    ("conv 3x3 depthwise, 64, 8 x 28^2", conv(8, 64, 28, 64, 3, padding=1, groups=64)),
    ("layer_norm 512 x 768", layer_norm),
    ("rms_norm 512 x 768", rms_norm),
    ("group_norm 8, 32 x 64 x 28^2", group_norm),
    ("batch_norm 32 x 64 x 28^2", batch_norm(32, 64, 28, 28)),
    ("batch_norm 256 x 512", batch_norm(256, 512)),
    ("max_pool 2", pool("max_pool2d", 2)),
    ("max_pool 3 stride 2", pool("max_pool2d", 3, 2, 1)),
    ("avg_pool 2", pool("avg_pool2d", 2)),
    ("adaptive_avg_pool 1", pool("adaptive_avg_pool2d", 1)),
]

# Cases of the short run.
QUICK = ("conv 3x3, 64, 8 x 56^2", "layer_norm 512 x 768", "max_pool 2")


def target(name: str, backward: bool) -> float:
    return (
        next(limit for head, limit in AT_MOST.items() if name.startswith(head)) if backward else 1.0
    )


CASES = [
    Case(
        f"layers/{name}{', backward' * backward}",
        compare(layer(make, backward)),
        target(name, backward),
        slow=True,
        wide=name not in QUICK,
    )
    for name, make in LAYERS
    for backward in (False, True)
]
