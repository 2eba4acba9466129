"""The trials of each kernel of the op table: calls as users make them. A row without trials of its
own gets a million numbers with the dtype and range of its first sample.

Long, because each row has its case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from shmtensor.ops import ROWS, Row
from shmtensor.ops.table.samples import Sample

Torch = Callable[..., Any]
SIZE = (1000, 1000)  # of matrices; the short run has smaller ones


class Trial(NamedTuple):
    """A call of a row: its description, arguments in the row's order, and PyTorch's call of the
    same inputs or None.
    """

    what: str
    arguments: tuple[Any, ...]
    torch: Torch | None = None


def floats(*shape: int, low: float = -1.0, high: float = 1.0, dtype: Any = np.float32) -> Any:
    return RANDOM.uniform(low, high, shape).astype(dtype)


def integers(high: int, *shape: int, low: int = 0) -> Any:
    return RANDOM.integers(low, high, shape)


def bools(*shape: int) -> Any:
    return RANDOM.random(shape) < 0.5


RANDOM = np.random.default_rng(0)
NO_BIAS, MEAN = None, "mean"
DIMS = {"rows": 1, "columns": 0}


def reduction(torch: Torch, *args: Any) -> Callable[[], list[Trial]]:
    """A reduction along either dimension of a matrix."""
    return lambda: [
        Trial(where, (floats(*SIZE), dim, *args), lambda t, x, d=dim: torch(t, x, d))
        for where, dim in DIMS.items()
    ]


def reductions(torch: Torch, *args: Any, draw: Any = floats) -> Callable[[], list[Trial]]:
    """The same, and of all elements."""
    return lambda: [
        Trial(where, (draw(*SIZE), dim, *args), lambda t, x, d=dim: torch(t, x, d))
        for where, dim in {"whole": None, **DIMS}.items()
    ]


def losses(torch: dict[str, Torch], *after: Any) -> Callable[[], list[Trial]]:
    """Losses of probabilities, which all of them accept."""
    return lambda: [
        Trial(
            name,
            (
                floats(*SIZE, low=0.1, high=0.9),
                floats(*SIZE, low=0.1, high=0.9),
                name,
                MEAN,
                1.0,
                1.0,
            ),
            call,
        )
        for name, call in torch.items()
    ]


def pointwise_loss_backward() -> list[Trial]:
    """The backward of each loss by its first input."""
    return [
        Trial(name, (floats(), floats(*SIZE, low=0.1, high=0.9), floats(*SIZE, low=0.1, high=0.9),
                     name, 0, MEAN, 1.0, 1.0))
        for name in LOSSES
    ]  # fmt: skip


def activation_backward() -> list[Trial]:
    """The derivative of each activation at a million elements."""
    return [
        Trial(s[2], (floats(*SIZE), floats(*SIZE, low=-4, high=4), *s[2:]))
        for s in ROWS["_activation_backward"].samples
    ]


def functional(name: str, *args: Any) -> Torch:
    return lambda t, *x: getattr(t.nn.functional, name)(*x, *args)


def aten(name: str, *args: Any) -> Torch:
    return lambda t, *x: getattr(t.ops.aten, name)(*x, *args)


LOSSES: dict[str, Torch] = {
    "mse": functional("mse_loss"),
    "l1": functional("l1_loss"),
    "huber": functional("smooth_l1_loss"),
    "bce": functional("binary_cross_entropy"),
    "bce_with_logits": functional("binary_cross_entropy_with_logits"),
    "soft_margin": functional("soft_margin_loss"),
    "kl_div": functional("kl_div"),
    "kl_div_log_target": lambda t, x, y: t.nn.functional.kl_div(x, y, log_target=True),
    "poisson_nll": functional("poisson_nll_loss"),
}

IMAGES = (8, 32, 64, 64)
CONVOLUTION = ((1, 1), (1, 1), (1, 1), 1)


def convolutions(*row: Any, torch: Torch | None = None) -> Callable[[], list[Trial]]:
    return lambda: [Trial("3x3, 32 to 32, 8 x 64^2", tuple(a() if callable(a) else a for a in row),
                          torch)]  # fmt: skip


def weights() -> Any:
    return floats(32, 32, 3, 3)


def images() -> Any:
    return floats(*IMAGES)


def one(what: str, make: Callable[[], tuple[Any, ...]], torch: Torch | None = None) -> Any:
    return lambda: [Trial(what, make(), torch)]


def cross_entropy_backward() -> tuple[Any, ...]:
    logits, *args = cross_entropy()
    _, normalizers = ROWS["_cross_entropy"].forward(np, logits, *args)
    return floats(), logits, normalizers, *args


def table_rows() -> tuple[Any, Any]:
    return integers(10_000, 4096), floats(4096, 64)


def cross_entropy() -> tuple[Any, ...]:
    return floats(128, 1000), integers(1000, 128), -100, MEAN


def ctc() -> tuple[Any, ...]:
    """32 sequences of 100 steps and 20 labels."""
    logits = floats(100, 32, 40)
    logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return logp, integers(40, 32, 20, low=1), (100,) * 32, (20,) * 32, 0, False


def ctc_backward() -> tuple[Any, ...]:
    logp, labels, *args = ctc()
    loss, alpha = ROWS["_ctc_loss"].forward(np, logp, labels, *args)
    return np.ones_like(loss), logp, labels, loss, alpha, *args


def sample_norm(n: int, groups: int, shape: tuple[int, ...], size: int, centred: bool) -> Any:
    return lambda: (
        floats(*shape), floats(size), floats(size) if centred else None, n, groups, 1e-5, centred,
    )  # fmt: skip


def norms() -> list[Trial]:
    return [
        Trial("layer_norm 512 x 768", sample_norm(1, 0, (512, 768), 768, True)(),
              lambda t, x, w, b: t.nn.functional.layer_norm(x, (768,), w, b)),
        Trial("rms_norm 512 x 768", sample_norm(1, 0, (512, 768), 768, False)(),
              lambda t, x, w: t.nn.functional.rms_norm(x, (768,), w, 1e-5)),
        Trial("group_norm 8, 8 x 32 x 64^2", sample_norm(1, 8, IMAGES, 32, True)(),
              lambda t, x, w, b: t.nn.functional.group_norm(x, 8, w, b)),
    ]  # fmt: skip


POOL = ((2, 2), (2, 2), (0, 0))
POOL3 = ((3, 3), (2, 2), (1, 1))

# The trials of rows that need other inputs than a million numbers, by the row's name.
TRIALS: dict[str, Callable[[], list[Trial]]] = {
    "_to_copy": lambda: [
        Trial("float32 to float64", (floats(*SIZE), np.dtype(np.float64)), lambda t, x: x.double()),
        Trial("uint8 to float32", (integers(256, *SIZE).astype(np.uint8), np.dtype(np.float32)),
              lambda t, x: x.float()),
    ],
    "_sum_to_size": one("to a row", lambda: (floats(*SIZE), (1, SIZE[1])),
        lambda t, x: x.sum_to_size(1, x.shape[1])),
    "_overwrite": one("matrix", lambda: (floats(*SIZE), floats(*SIZE)), lambda t, x, y: x.copy_(y)),
    "copy": one("matrix", lambda: (floats(*SIZE), floats(*SIZE)), lambda t, x, y: x.copy_(y)),
    "pow": lambda: [
        Trial("tensors", (floats(*SIZE, low=0.3, high=2.0), floats(*SIZE)), lambda t, x, y: x**y),
        Trial("to 3", (floats(*SIZE), 3), lambda t, x: x**3),
        Trial("to 2.5", (floats(*SIZE, low=0.3, high=2.0), 2.5), lambda t, x: x**2.5),
    ],
    "_clamp": one("matrix", lambda: (floats(*SIZE), -0.5, 0.5), lambda t, x: t.clamp(x, -0.5, 0.5)),
    "_add_alpha": one("matrix", lambda: (floats(*SIZE), floats(*SIZE), 0.5),
        lambda t, x, y: t.add(x, y, alpha=0.5)),
    "round": lambda: [
        Trial(f"{n} decimals", (floats(*SIZE), n), lambda t, x, n=n: t.round(x, decimals=n))
        for n in (0, 2)
    ],
    "_polygamma": one("1", lambda: (floats(*SIZE, low=0.3, high=4.0), 1),
        lambda t, x: t.polygamma(1, x)),
    "sum": reductions(lambda t, x, d: t.sum(x, d), False),
    "nansum": reductions(lambda t, x, d: t.nansum(x, d), False),
    "mean": reductions(lambda t, x, d: t.mean(x, d), False, None),
    "_prod": reduction(lambda t, x, d: t.prod(x, d), False),
    "amax": reductions(lambda t, x, d: t.amax(x, () if d is None else d), False),
    "amin": reductions(lambda t, x, d: t.amin(x, () if d is None else d), False),
    "argmax": reductions(lambda t, x, d: t.argmax(x, d), False),
    "argmin": reductions(lambda t, x, d: t.argmin(x, d), False),
    "count_nonzero": reductions(lambda t, x, d: t.count_nonzero(x, d), draw=bools),
    "_var": reductions(lambda t, x, d: t.var(x, d), 1, False),
    "_std": reductions(lambda t, x, d: t.std(x, d), 1, False),
    "logsumexp": reduction(lambda t, x, d: t.logsumexp(x, d), False),
    "_vector_norm": lambda: [
        Trial(f"{order}, {where}", (floats(*SIZE), order, dim, False),
              lambda t, x, o=order, d=dim: t.linalg.vector_norm(x, o, d))
        for order in (1, 2) for where, dim in {"whole": None, **DIMS}.items()
    ],
    "_bincount": one("1000 values", lambda: (integers(1000, 1_000_000), None, 0),
        lambda t, x: t.bincount(x)),
    "_histc": one("in 100", lambda: (floats(*SIZE), 100, -1.0, 1.0),
        lambda t, x: t.histc(x, 100, -1, 1)),
    "_cross": one("100000 x 3", lambda: (floats(100_000, 3), floats(100_000, 3), 1),
        lambda t, x, y: t.linalg.cross(x, y)),
    "_cosine_similarity": one("256 x 512", lambda: (floats(256, 512), floats(256, 512)),
        lambda t, x, y: t.nn.functional.cosine_similarity(x, y)),
    "_cdist": lambda: [
        Trial(f"{p}, 1000 x 64", (floats(1000, 64), floats(1000, 64), p),
              lambda t, x, y, p=p: t.cdist(x, y, p)) for p in (1.0, 2.0)
    ],
    "_pdist": one("500 x 64", lambda: (floats(500, 64), 2.0), lambda t, x: t.pdist(x)),
    "_trunc_divide": one(
        "matrix", lambda: (floats(*SIZE, low=-5, high=5), floats(*SIZE, low=0.5, high=2)),
        lambda t, x, y: t.div(x, y, rounding_mode="trunc")),
    "_take_along_dim": one(
        "1000 x 1000", lambda: (floats(*SIZE), np.argsort(floats(*SIZE), 1), 1),
        lambda t, x, i: t.gather(x, 1, i)),
    "_max": reduction(lambda t, x, d: t.max(x, d), False),
    "_min": reduction(lambda t, x, d: t.min(x, d), False),
    "kthvalue": one("100 of each row", lambda: (floats(*SIZE), 100, 1, False),
        lambda t, x: t.kthvalue(x, 100)),
    "_median": reduction(lambda t, x, d: t.median(x, d), False, False),
    "mode": one("rows of 1000, 50 values", lambda: (integers(50, *SIZE), 1, False),
        lambda t, x: t.mode(x)),
    "_sort": reduction(lambda t, x, d: t.sort(x, d), False),
    "topk": one("10 of each row", lambda: (floats(*SIZE), 10, 1, True, True),
        lambda t, x: t.topk(x, 10)),
    "_isin": one("in 1000", lambda: (floats(*SIZE), floats(1000), False),
        lambda t, x, y: t.isin(x, y)),
    "_searchsorted": one("in 1000", lambda: (np.sort(floats(1000)), floats(*SIZE), None, "left"),
        lambda t, s, x: t.searchsorted(s, x)),
    "_unique2": one("1000 values", lambda: (integers(1000, *SIZE), None),
        lambda t, x: t.unique(x, return_inverse=True, return_counts=True)),
    "_unique_consecutive": one(
        "1000 values, in order", lambda: (np.sort(integers(1000, SIZE[0] ** 2)), None),
        lambda t, x: t.unique_consecutive(x, True, True)),
    "_unique_consecutive_values": one(
        "1000 values, in order", lambda: (np.sort(integers(1000, SIZE[0] ** 2)),),
        lambda t, x: t.unique_consecutive(x)),
    "_unique": lambda: [
        Trial("1000 values", (integers(1000, *SIZE),), lambda t, x: t.unique(x)),
        Trial("reals", (floats(*SIZE),), lambda t, x: t.unique(x)),
    ],
    "cumsum": reduction(lambda t, x, d: t.cumsum(x, d), None),
    "cumprod": reduction(lambda t, x, d: t.cumprod(x, d), None),
    "cummax": reduction(lambda t, x, d: t.cummax(x, d)),
    "cummin": reduction(lambda t, x, d: t.cummin(x, d)),
    "logcumsumexp": reduction(lambda t, x, d: t.logcumsumexp(x, d)),
    "cat": lambda: [Trial(f"dim {d}", ([floats(*SIZE), floats(*SIZE)], d),
                          lambda t, x, y, d=d: t.cat([x, y], d)) for d in (0, 1)],
    "stack": lambda: [Trial(f"dim {d}", ([floats(*SIZE), floats(*SIZE)], d),
                            lambda t, x, y, d=d: t.stack([x, y], d)) for d in (0, 1)],
    "_where": one("matrix", lambda: (bools(*SIZE), floats(*SIZE), floats(*SIZE)),
        lambda t, c, x, y: t.where(c, x, y)),
    "_where_other": one("matrix", lambda: (bools(*SIZE), floats(*SIZE), floats()),
        lambda t, c, x, y: t.masked_fill(x, c, 0.0)),
    "_index_put": one(
        "rows", lambda: (floats(*SIZE), floats(100, SIZE[1]), (integers(100, 100),), False),
        lambda t, x, v: x.index_put((t.arange(100),), v)),
    "_argwhere": one("matrix", lambda: (bools(*SIZE),), lambda t, x: t.nonzero(x)),
    "_index_select": lambda: [
        Trial(f"dim {d}", (floats(*SIZE), integers(SIZE[1], SIZE[1]), d),
              lambda t, x, i, d=d: t.index_select(x, d, i)) for d in (0, 1)
    ],
    "_index_add": one("4096 rows of 64", lambda: (floats(10_000, 64), *table_rows()[::-1], 0),
        lambda t, x, v, i: t.index_add(x, 0, i, v)),
    "_gather": one("1000 x 1000", lambda: (floats(*SIZE), integers(SIZE[1], *SIZE), 1, False),
        lambda t, x, i: t.gather(x, 1, i)),
    "_scatter": one(
        "1000 x 1000", lambda: (floats(*SIZE), floats(*SIZE), integers(SIZE[1], *SIZE), 1),
        lambda t, x, v, i: t.scatter(x, 1, i, v)),
    "_scatter_add": one("1000 x 1000",
        lambda: (floats(*SIZE), floats(*SIZE), integers(SIZE[1], *SIZE), 1),
        lambda t, x, v, i: t.scatter_add(x, 1, i, v)),
    "_scatter_reduce": one(
        "amax, 1000 x 1000",
        lambda: (floats(*SIZE), floats(*SIZE), integers(SIZE[1], *SIZE), 1, "amax", True),
        lambda t, x, v, i: t.scatter_reduce(x, 1, i, v, "amax")),
    "tril": one("1000 x 1000", lambda: (floats(*SIZE), 0), lambda t, x: t.tril(x)),
    "triu": one("1000 x 1000", lambda: (floats(*SIZE), 0), lambda t, x: t.triu(x)),
    "matmul": one("512 x 512", lambda: (floats(512, 512), floats(512, 512)), lambda t, x, y: x @ y),
    "linear": one("128 x 512 to 512", lambda: (floats(128, 512), floats(512, 512), floats(512)),
        functional("linear")),
    "bmm": one("64 of 64 x 64", lambda: (floats(64, 64, 64), floats(64, 64, 64)),
        lambda t, x, y: t.bmm(x, y)),
    "dot": one(
        "matrix", lambda: (floats(1_000_000), floats(1_000_000)), lambda t, x, y: t.dot(x, y)),
    "_activation_backward": activation_backward,
    "_glu": one("1000 x 1000", lambda: (floats(*SIZE), 1), functional("glu")),
    "_glu_backward": one("1000 x 1000", lambda: (floats(SIZE[0], SIZE[1] // 2), floats(*SIZE), 1),
        aten("glu_backward", 1)),
    "_gelu": lambda: [
        Trial(how, (floats(*SIZE, low=-3, high=3), how == "tanh"),
              lambda t, x, how=how: t.nn.functional.gelu(x, approximate=how))
        for how in ("none", "tanh")
    ],
    "_gelu_backward": lambda: [
        Trial(how, (floats(*SIZE), floats(*SIZE, low=-3, high=3), how == "tanh"),
              lambda t, g, x, how=how: t.ops.aten.gelu_backward(g, x, approximate=how))
        for how in ("none", "tanh")
    ],
    "_relu_backward": one("matrix", lambda: (floats(*SIZE), floats(*SIZE)),
        aten("threshold_backward", 0)),
    "_sigmoid_backward": one("matrix", lambda: (floats(*SIZE), floats(*SIZE)),
        aten("sigmoid_backward")),
    "_tanh_backward": one("matrix", lambda: (floats(*SIZE), floats(*SIZE)), aten("tanh_backward")),
    "_prelu_kernel": one("channels", lambda: (images(), floats(32, 1, 1)),
        lambda t, x, w: t.nn.functional.prelu(x, w.reshape(-1))),
    "_softmax": reduction(lambda t, x, d: t.softmax(x, d)),
    "_log_softmax": reduction(lambda t, x, d: t.log_softmax(x, d)),
    "_softmax_backward_data": lambda: [
        Trial(where, (floats(*SIZE), floats(*SIZE), d),
              lambda t, g, x, d=d: t.ops.aten._softmax_backward_data(g, x, d, t.float32))
        for where, d in DIMS.items()
    ],
    "_log_softmax_backward_data": lambda: [
        Trial(where, (floats(*SIZE), floats(*SIZE), d),
              lambda t, g, x, d=d: t.ops.aten._log_softmax_backward_data(g, x, d, t.float32))
        for where, d in DIMS.items()
    ],
    "_masked_scale": one("matrix", lambda: (floats(*SIZE), bools(*SIZE), 2.0),
        lambda t, x, m: t.ops.aten.native_dropout_backward(x, m, 2.0)),
    "_dropout": one("matrix", lambda: (floats(*SIZE), 0.5, 7, 0), functional("dropout")),
    "_native_layer_norm": norms,
    "_native_batch_norm": one(
        "batch_norm 8 x 32 x 64^2", lambda: (images(), floats(32), floats(32), 1e-5),
        lambda t, x, w, b: t.nn.functional.batch_norm(x, None, None, w, b, True)),
    "_convolution": convolutions(images, weights, NO_BIAS, *CONVOLUTION,
                              torch=lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1)),
    "_conv_transpose": convolutions(
        images, weights, (64, 64), *CONVOLUTION,
        torch=lambda t, g, w: t.nn.functional.conv_transpose2d(g, w, padding=1)),
    "_convolution_backward_weight": convolutions(
        images, images, (3, 3), *CONVOLUTION,
        torch=lambda t, x, g: t.nn.grad.conv2d_weight(x, (32, 32, 3, 3), g, padding=1)),
    "_max_pool": lambda: [
        Trial("2", (images(), *POOL, (1, 1), False),
              lambda t, x: t.nn.functional.max_pool2d(x, 2, return_indices=True)),
        Trial("3 stride 2", (images(), *POOL3, (1, 1), False),
              lambda t, x: t.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True)),
    ],
    "_sum_pool": lambda: [
        Trial("2", (images(), *POOL, False), functional("avg_pool2d", 2)),
        Trial("3 stride 2", (images(), *POOL3, False), functional("avg_pool2d", 3, 2, 1)),
        Trial("8", (images(), (8, 8), (8, 8), (0, 0), False), functional("avg_pool2d", 8)),
    ],
    "_sum_pool_backward": lambda: [
        Trial(str(k), (floats(8, 32, 64 // k, 64 // k), (64, 64), (k, k), (k, k), (0, 0), False),
              lambda t, g, k=k: t.ops.aten.avg_pool2d_backward(
                  g, t.empty(IMAGES), [k, k], [k, k], [0, 0], False, True, None))
        for k in (2, 8)
    ],
    "_fractional_max_pool": one(
        "2 to 32^2", lambda: (images(), floats(8, 32, 2, low=0), (2, 2), (32, 32)),
        lambda t, x, u: t.nn.functional.fractional_max_pool2d(x, 2, 32, _random_samples=u)),
    "_attention": one(
        "32 heads of 128 x 64",
        lambda: ([floats(32, 128, 64) for _ in range(3)], 0.125, False, 0.0, 0, 0),
        functional("scaled_dot_product_attention")),
    "_slice_backward": one(
        "matrix, a frame of 1",
        lambda: (floats(*SIZE), tuple(n + 2 for n in SIZE), (slice(1, -1), slice(1, -1)), 0),
        lambda t, x: t.nn.functional.pad(x, (1, 1, 1, 1))),
    "_grid_sample": one(
        "8 x 32 x 64^2, bilinear",
        lambda: (images(), floats(8, 64, 64, 2), 0, 0, 0),
        lambda t, x, grid: t.nn.functional.grid_sample(x, grid, align_corners=False)),
    "_nll_loss": one(
        "128 x 1000", lambda: (floats(128, 1000), integers(1000, 128), None, -100, MEAN),
        functional("nll_loss")),
    "_nll_loss_backward": one(
        "128 x 1000", lambda: (floats(), integers(1000, 128), None, (128, 1000), -100, MEAN)),
    "_cross_entropy": one("128 x 1000", cross_entropy, functional("cross_entropy")),
    "_cross_entropy_backward": one("128 x 1000", cross_entropy_backward),
    "_ctc_loss": one("100 x 32, 20 labels", ctc,
        lambda t, x, y: t.nn.functional.ctc_loss(x, y, (100,) * 32, (20,) * 32)),
    "_ctc_loss_backward": one("100 x 32, 20 labels", ctc_backward),
    "_pointwise_loss": losses(LOSSES),
    "_pointwise_loss_backward": pointwise_loss_backward,
    "_bernoulli": one("matrix", lambda: (floats(*SIZE, low=0), 3, 0), lambda t, x: t.bernoulli(x)),
    "_multinomial": lambda: [
        Trial(f"10 of each row{how}", (floats(*SIZE, low=0.1), 10, replacement, 3, 0),
              lambda t, x, replacement=replacement: t.multinomial(x, 10, replacement))
        for how, replacement in {"": False, ", again": True}.items()
    ],
    "_uniform": one("matrix", lambda: (floats(*SIZE), 5, 0, 0.0, 1.0), lambda t, x: x.uniform_()),
    "_normal": one("matrix", lambda: (floats(*SIZE), 5, 0, 0.0, 1.0), lambda t, x: x.normal_()),
}  # fmt: skip

# Views: they cost a call, whatever the size.
SMALL = {
    "_view": ((floats(3, 4), (4, 3)), lambda t, x: x.view(4, 3)),
    "reshape": (
        (floats(8, 4, 8, 784).swapaxes(1, 2), (8, 32, 784)),
        lambda t, x: x.reshape(8, 32, 784),
    ),
    "squeeze": ((floats(3, 1, 4), None), lambda t, x: x.squeeze()),
    "unsqueeze": ((floats(3, 4), 1), lambda t, x: x.unsqueeze(1)),
    "expand": ((floats(3, 1), (3, 4)), lambda t, x: x.expand(3, 4)),
    "broadcast_to": ((floats(3, 1), (3, 4)), lambda t, x: x.broadcast_to((3, 4))),
    "_flatten": ((floats(3, 4, 5), 0, -1), lambda t, x: x.flatten()),
    "diagonal": ((floats(3, 4), 0, 0, 1), lambda t, x: x.diagonal()),
    "unfold": ((floats(8), 0, 3, 2), lambda t, x: x.unfold(0, 3, 2)),
    "unbind": ((floats(3, 4), 0), lambda t, x: x.unbind()),
    "_getitem": ((floats(3, 4), (slice(1, 3), 2)), lambda t, x: x[1:3, 2]),
}
TRIALS.update({name: one("view", lambda a=a: a, call) for name, (a, call) in SMALL.items()})

PYTORCH_NAMES = {  # of rows with other names
    "_clamp_min": "maximum", "_clamp_max": "minimum", "_clamp_tensor": "clamp",
    "i1": "special.i1",
    "leaky_relu": "nn.functional.leaky_relu",
}  # fmt: skip


def sample_array(draw: Any) -> Any:
    """A million numbers with a sample's dtype kind and range."""
    draw = draw if isinstance(draw, Sample) else Sample(draw)
    if draw.kind == "b":
        return bools(*SIZE)
    if draw.kind == "i":
        return integers(int(draw.high), *SIZE, low=int(draw.low))
    return floats(*SIZE, low=draw.low, high=draw.high)


def trials_of(row: Row) -> list[Trial]:
    """A row's own trials, or one with a million numbers like its first sample."""
    if row.name in TRIALS:
        return TRIALS[row.name]()
    n = len(row.inputs)
    inputs, attributes = row.samples[0][:n], row.samples[0][n:]
    arguments = (*map(sample_array, inputs), *attributes)
    return [Trial("matrix", arguments, by_name(row.name, attributes))]


def by_name(name: str, attributes: tuple[Any, ...]) -> Torch:
    """PyTorch's function of that name."""
    name_in_torch = PYTORCH_NAMES.get(name, name)
    paths = [name_in_torch, name.replace("special_", "special."), "nn.functional." + name]

    def call(t: Any, *inputs: Any) -> Any:
        for path in paths:
            function = t
            for word in path.split("."):
                function = getattr(function, word, None)
            if function is not None:
                return function(*inputs, *attributes)
        raise LookupError(f"benchmarks: PyTorch has no function: {name}")

    return call
