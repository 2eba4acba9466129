"""What is measured of each kernel of the op table: calls that a user would recognise. A row without
trials of its own gets a million numbers of the kind of its first sample.

Long, because each row has its case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from shmtensor.ops import ROWS, Row
from shmtensor.ops.table.samples import Sample

__all__ = ["Trial", "trials_of"]

Torch = Callable[..., Any]
SIZE = (1000, 1000)  # of matrices; the short run has smaller ones


class Trial(NamedTuple):
    """A call of a row: `what` it is, arguments in the row's order, PyTorch's call of the same
    inputs if it has one.
    """

    what: str
    arguments: tuple[Any, ...]
    torch: Torch | None = None


def reals(*shape: int, low: float = -1.0, high: float = 1.0, dtype: Any = np.float32) -> Any:
    return RANDOM.uniform(low, high, shape).astype(dtype)


def whole(high: int, *shape: int, low: int = 0) -> Any:
    return RANDOM.integers(low, high, shape)


def coins(*shape: int) -> Any:
    return RANDOM.random(shape) < 0.5


RANDOM = np.random.default_rng(0)
BLANK, MEAN = None, "mean"
ALONG = {"rows": 1, "columns": 0}


def along(torch: Torch, *rest: Any) -> Callable[[], list[Trial]]:
    """A reduction along either dimension of a matrix."""
    return lambda: [
        Trial(where, (reals(*SIZE), dim, *rest), lambda t, x, d=dim: torch(t, x, d))
        for where, dim in ALONG.items()
    ]


def reduced(torch: Torch, *rest: Any, draw: Any = reals) -> Callable[[], list[Trial]]:
    """The same, and of the whole matrix."""
    return lambda: [
        Trial(where, (draw(*SIZE), dim, *rest), lambda t, x, d=dim: torch(t, x, d))
        for where, dim in {"whole": None, **ALONG}.items()
    ]


def losses(torch: dict[str, Torch], *after: Any) -> Callable[[], list[Trial]]:
    """Of probabilities, which all losses take."""
    return lambda: [
        Trial(
            name,
            (
                reals(*SIZE, low=0.1, high=0.9),
                reals(*SIZE, low=0.1, high=0.9),
                name,
                MEAN,
                1.0,
                1.0,
            ),
            call,
        )
        for name, call in torch.items()
    ]


def slopes() -> list[Trial]:
    """Of each loss by its left number."""
    return [
        Trial(name, (reals(), reals(*SIZE, low=0.1, high=0.9), reals(*SIZE, low=0.1, high=0.9),
                     name, 0, MEAN, 1.0, 1.0))
        for name in LOSSES
    ]  # fmt: skip


def curves() -> list[Trial]:
    """The slope of each activation at a million places."""
    return [
        Trial(s[2], (reals(*SIZE), reals(*SIZE, low=-4, high=4), *s[2:]))
        for s in ROWS["_activation_backward"].samples
    ]


def functional(name: str, *rest: Any) -> Torch:
    return lambda t, *x: getattr(t.nn.functional, name)(*x, *rest)


def aten(name: str, *rest: Any) -> Torch:
    return lambda t, *x: getattr(t.ops.aten, name)(*x, *rest)


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
    return reals(32, 32, 3, 3)


def images() -> Any:
    return reals(*IMAGES)


def one(what: str, make: Callable[[], tuple[Any, ...]], torch: Torch | None = None) -> Any:
    return lambda: [Trial(what, make(), torch)]


def warp(kind: str) -> tuple[Any, ...]:
    """What grid_sample of 8 images of 32 channels gives its rows: four neighbours each."""
    x, g, w = reals(8, 32, 4096), reals(8, 32, 4096), reals(8, 4, 4096)
    places = whole(4096, 8, 4, 4096)
    return {
        "weighed": (x, w, places), "dealt": (g, w, places, 4096), "matched": (g, x, places),
    }[kind]  # fmt: skip


def table_rows() -> tuple[Any, Any]:
    return whole(10_000, 4096), reals(4096, 64)


def entropy() -> tuple[Any, ...]:
    return reals(128, 1000), whole(1000, 128), -100, MEAN


def alignment() -> tuple[Any, ...]:
    """32 sequences of 100 steps and 20 labels."""
    logits = reals(100, 32, 40)
    logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return logp, whole(40, 32, 20, low=1), (100,) * 32, (20,) * 32, 0, False


def alignment_slope() -> tuple[Any, ...]:
    logp, labels, *rest = alignment()
    loss, alpha = ROWS["_ctc_loss"].forward(np, logp, labels, *rest)
    return np.ones_like(loss), logp, labels, loss, alpha, *rest


def sample_norm(n: int, groups: int, shape: tuple[int, ...], size: int, centred: bool) -> Any:
    return lambda: (
        reals(*shape), reals(size), reals(size) if centred else None, n, groups, 1e-5, centred,
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

# Where a million numbers in each input are no case of the row: by its name, what makes its trials.
TRIALS: dict[str, Callable[[], list[Trial]]] = {
    "cast": lambda: [
        Trial("float32 to float64", (reals(*SIZE), np.dtype(np.float64)), lambda t, x: x.double()),
        Trial("uint8 to float32", (whole(256, *SIZE).astype(np.uint8), np.dtype(np.float32)),
              lambda t, x: x.float()),
    ],
    "overwrite": one("matrix", lambda: (reals(*SIZE), reals(*SIZE)), lambda t, x, y: x.copy_(y)),
    "copy": one("matrix", lambda: (reals(*SIZE), reals(*SIZE)), lambda t, x, y: x.copy_(y)),
    "pow": lambda: [
        Trial("tensors", (reals(*SIZE, low=0.3, high=2.0), reals(*SIZE)), lambda t, x, y: x**y),
        Trial("to 3", (reals(*SIZE), 3), lambda t, x: x**3),
        Trial("to 2.5", (reals(*SIZE, low=0.3, high=2.0), 2.5), lambda t, x: x**2.5),
    ],
    "clamped": one("matrix", lambda: (reals(*SIZE), -0.5, 0.5), lambda t, x: t.clamp(x, -0.5, 0.5)),
    "add_scaled": one("matrix", lambda: (reals(*SIZE), reals(*SIZE), 0.5),
                      lambda t, x, y: t.add(x, y, alpha=0.5)),
    "round": lambda: [
        Trial(f"{n} decimals", (reals(*SIZE), n), lambda t, x, n=n: t.round(x, decimals=n))
        for n in (0, 2)
    ],
    "polygamma_of": one("1", lambda: (reals(*SIZE, low=0.3, high=4.0), 1),
                        lambda t, x: t.polygamma(1, x)),
    "sum": reduced(lambda t, x, d: t.sum(x, d), False),
    "nansum": reduced(lambda t, x, d: t.nansum(x, d), False),
    "mean": reduced(lambda t, x, d: t.mean(x, d), False, None),
    "prod_along": along(lambda t, x, d: t.prod(x, d), False),
    "amax": reduced(lambda t, x, d: t.amax(x, () if d is None else d), False),
    "amin": reduced(lambda t, x, d: t.amin(x, () if d is None else d), False),
    "argmax": reduced(lambda t, x, d: t.argmax(x, d), False),
    "argmin": reduced(lambda t, x, d: t.argmin(x, d), False),
    "count_nonzero": reduced(lambda t, x, d: t.count_nonzero(x, d), draw=coins),
    "variance": reduced(lambda t, x, d: t.var(x, d), 1, False),
    "deviation": reduced(lambda t, x, d: t.std(x, d), 1, False),
    "logsumexp": along(lambda t, x, d: t.logsumexp(x, d), False),
    "vector_norm": lambda: [
        Trial(f"{order}, {where}", (reals(*SIZE), order, dim, False),
              lambda t, x, o=order, d=dim: t.linalg.vector_norm(x, o, d))
        for order in (1, 2) for where, dim in {"whole": None, **ALONG}.items()
    ],
    "tally": one("1000 values", lambda: (whole(1000, 1_000_000), None, 0),
                 lambda t, x: t.bincount(x)),
    "bars": one("in 100", lambda: (reals(*SIZE), 100, -1.0, 1.0),
                lambda t, x: t.histc(x, 100, -1, 1)),
    "crossed": one("100000 x 3", lambda: (reals(100_000, 3), reals(100_000, 3), 1),
                   lambda t, x, y: t.linalg.cross(x, y)),
    "distances": lambda: [
        Trial(f"{p}, 1000 x 64", (reals(1000, 64), reals(1000, 64), p),
              lambda t, x, y, p=p: t.cdist(x, y, p)) for p in (1.0, 2.0)
    ],
    "pair_distances": one("500 x 64", lambda: (reals(500, 64), 2.0), lambda t, x: t.pdist(x)),
    "take_along": one(
        "1000 x 1000", lambda: (reals(*SIZE), np.argsort(reals(*SIZE), 1), 1),
        lambda t, x, i: t.gather(x, 1, i)),
    "max_along": along(lambda t, x, d: t.max(x, d), False),
    "min_along": along(lambda t, x, d: t.min(x, d), False),
    "kthvalue": one("100 of each row", lambda: (reals(*SIZE), 100, 1, False),
                    lambda t, x: t.kthvalue(x, 100)),
    "median_along": along(lambda t, x, d: t.median(x, d), False, False),
    "mode": one("rows of 1000, 50 values", lambda: (whole(50, *SIZE), 1, False),
                lambda t, x: t.mode(x)),
    "sort_along": along(lambda t, x, d: t.sort(x, d), False),
    "topk": one("10 of each row", lambda: (reals(*SIZE), 10, 1, True, True),
                lambda t, x: t.topk(x, 10)),
    "among": one("in 1000", lambda: (reals(*SIZE), reals(1000), False),
                 lambda t, x, y: t.isin(x, y)),
    "sought": one("in 1000", lambda: (np.sort(reals(1000)), reals(*SIZE), None, "left"),
                  lambda t, s, x: t.searchsorted(s, x)),
    "unique_values": one("1000 values", lambda: (whole(1000, *SIZE), None),
                         lambda t, x: t.unique(x, return_inverse=True, return_counts=True)),
    "unique_runs": one("1000 values, in order", lambda: (np.sort(whole(1000, SIZE[0] ** 2)), None),
                       lambda t, x: t.unique_consecutive(x, True, True)),
    "run_values": one("1000 values, in order", lambda: (np.sort(whole(1000, SIZE[0] ** 2)),),
                      lambda t, x: t.unique_consecutive(x)),
    "distinct": lambda: [
        Trial("1000 values", (whole(1000, *SIZE),), lambda t, x: t.unique(x)),
        Trial("reals", (reals(*SIZE),), lambda t, x: t.unique(x)),
    ],
    "cumsum": along(lambda t, x, d: t.cumsum(x, d), None),
    "cumprod": along(lambda t, x, d: t.cumprod(x, d), None),
    "cummax": along(lambda t, x, d: t.cummax(x, d)),
    "cummin": along(lambda t, x, d: t.cummin(x, d)),
    "logcumsumexp": along(lambda t, x, d: t.logcumsumexp(x, d)),
            "cat": lambda: [Trial(f"dim {d}", ([reals(*SIZE), reals(*SIZE)], d),
                          lambda t, x, y, d=d: t.cat([x, y], d)) for d in (0, 1)],
    "stack": lambda: [Trial(f"dim {d}", ([reals(*SIZE), reals(*SIZE)], d),
                            lambda t, x, y, d=d: t.stack([x, y], d)) for d in (0, 1)],
    "choose": one("matrix", lambda: (coins(*SIZE), reals(*SIZE), reals(*SIZE)),
                  lambda t, c, x, y: t.where(c, x, y)),
    "replace": one("matrix", lambda: (coins(*SIZE), reals(*SIZE), reals()),
                   lambda t, c, x, y: t.masked_fill(x, c, 0.0)),
    "written": one("rows", lambda: (reals(*SIZE), reals(100, SIZE[1]), (whole(100, 100),), False),
                   lambda t, x, v: x.index_put((t.arange(100),), v)),
    "argwhere_rows": one("matrix", lambda: (coins(*SIZE),), lambda t, x: t.nonzero(x)),
    "selected": lambda: [
        Trial(f"dim {d}", (reals(*SIZE), whole(SIZE[1], SIZE[1]), d),
              lambda t, x, i, d=d: t.index_select(x, d, i)) for d in (0, 1)
    ],
    "slices_plus": one("4096 rows of 64", lambda: (reals(10_000, 64), *table_rows()[::-1], 0),
                       lambda t, x, v, i: t.index_add(x, 0, i, v)),
    "gathered": one("1000 x 1000", lambda: (reals(*SIZE), whole(SIZE[1], *SIZE), 1, False),
                    lambda t, x, i: t.gather(x, 1, i)),
    "scattered": one("1000 x 1000", lambda: (reals(*SIZE), reals(*SIZE), whole(SIZE[1], *SIZE), 1),
                     lambda t, x, v, i: t.scatter(x, 1, i, v)),
    "scatter_added": one("1000 x 1000",
                         lambda: (reals(*SIZE), reals(*SIZE), whole(SIZE[1], *SIZE), 1),
                         lambda t, x, v, i: t.scatter_add(x, 1, i, v)),
    "scatter_reduced": one(
        "amax, 1000 x 1000",
        lambda: (reals(*SIZE), reals(*SIZE), whole(SIZE[1], *SIZE), 1, "amax", True),
        lambda t, x, v, i: t.scatter_reduce(x, 1, i, v, "amax")),
    "tril": one("1000 x 1000", lambda: (reals(*SIZE), 0), lambda t, x: t.tril(x)),
    "triu": one("1000 x 1000", lambda: (reals(*SIZE), 0), lambda t, x: t.triu(x)),
    "matmul": one("512 x 512", lambda: (reals(512, 512), reals(512, 512)), lambda t, x, y: x @ y),
    "linear": one("128 x 512 to 512", lambda: (reals(128, 512), reals(512, 512), reals(512)),
                  functional("linear")),
    "bmm": one("64 of 64 x 64", lambda: (reals(64, 64, 64), reals(64, 64, 64)),
               lambda t, x, y: t.bmm(x, y)),
    "dot": one("matrix", lambda: (reals(1_000_000), reals(1_000_000)), lambda t, x, y: t.dot(x, y)),
    "curve_backward": curves,
    "gated": one("1000 x 1000", lambda: (reals(*SIZE), 1), functional("glu")),
    "gated_backward": one("1000 x 1000", lambda: (reals(SIZE[0], SIZE[1] // 2), reals(*SIZE), 1),
                          aten("glu_backward", 1)),
    "gelu_rows": lambda: [
        Trial(how, (reals(*SIZE, low=-3, high=3), how == "tanh"),
              lambda t, x, how=how: t.nn.functional.gelu(x, approximate=how))
        for how in ("none", "tanh")
    ],
    "gelu_backward": lambda: [
        Trial(how, (reals(*SIZE), reals(*SIZE, low=-3, high=3), how == "tanh"),
              lambda t, g, x, how=how: t.ops.aten.gelu_backward(g, x, approximate=how))
        for how in ("none", "tanh")
    ],
    "relu_backward": one("matrix", lambda: (reals(*SIZE), reals(*SIZE)),
                         aten("threshold_backward", 0)),
    "sigmoid_backward": one("matrix", lambda: (reals(*SIZE), reals(*SIZE)),
                            aten("sigmoid_backward")),
    "tanh_backward": one("matrix", lambda: (reals(*SIZE), reals(*SIZE)), aten("tanh_backward")),
    "weighted_below": one("channels", lambda: (images(), reals(32, 1, 1)),
                          lambda t, x, w: t.nn.functional.prelu(x, w.reshape(-1))),
    "softmax_along": along(lambda t, x, d: t.softmax(x, d)),
    "log_softmax_along": along(lambda t, x, d: t.log_softmax(x, d)),
    "softmax_backward": lambda: [
        Trial(where, (reals(*SIZE), reals(*SIZE), d),
              lambda t, g, x, d=d: t.ops.aten._softmax_backward_data(g, x, d, t.float32))
        for where, d in ALONG.items()
    ],
    "log_softmax_backward": lambda: [
        Trial(where, (reals(*SIZE), reals(*SIZE), d),
              lambda t, g, x, d=d: t.ops.aten._log_softmax_backward_data(g, x, d, t.float32))
        for where, d in ALONG.items()
    ],
    "kept_by": one("matrix", lambda: (reals(*SIZE), coins(*SIZE), 2.0),
                   lambda t, x, m: t.ops.aten.native_dropout_backward(x, m, 2.0)),
    "dropped": one("matrix", lambda: (reals(*SIZE), 0.5, 7, 0), functional("dropout")),
    "normed": norms,
    "channels_normed": one(
        "batch_norm 8 x 32 x 64^2", lambda: (images(), reals(32), reals(32), 1e-5),
        lambda t, x, w, b: t.nn.functional.batch_norm(x, None, None, w, b, True)),
    "convolved": convolutions(images, weights, BLANK, *CONVOLUTION,
                              torch=lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1)),
    "unconvolved": convolutions(
        images, weights, (64, 64), *CONVOLUTION,
        torch=lambda t, g, w: t.nn.functional.conv_transpose2d(g, w, padding=1)),
    "filters": convolutions(
        images, images, (3, 3), *CONVOLUTION,
        torch=lambda t, x, g: t.nn.grad.conv2d_weight(x, (32, 32, 3, 3), g, padding=1)),
    "max_pooled": lambda: [
        Trial("2", (images(), *POOL, (1, 1), False),
              lambda t, x: t.nn.functional.max_pool2d(x, 2, return_indices=True)),
        Trial("3 stride 2", (images(), *POOL3, (1, 1), False),
              lambda t, x: t.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True)),
    ],
    "window_sums": lambda: [
        Trial("2", (images(), *POOL, False), functional("avg_pool2d", 2)),
        Trial("3 stride 2", (images(), *POOL3, False), functional("avg_pool2d", 3, 2, 1)),
        Trial("8", (images(), (8, 8), (8, 8), (0, 0), False), functional("avg_pool2d", 8)),
    ],
    "spread_sums": lambda: [
        Trial(str(k), (reals(8, 32, 64 // k, 64 // k), (64, 64), (k, k), (k, k), (0, 0), False),
              lambda t, g, k=k: t.ops.aten.avg_pool2d_backward(
                  g, t.empty(IMAGES), [k, k], [k, k], [0, 0], False, True, None))
        for k in (2, 8)
    ],
    "weighed": one("8 x 32 x 64^2, bilinear", lambda: warp("weighed")),
    "dealt": one("8 x 32 x 64^2, bilinear", lambda: warp("dealt")),
    "matched": one("8 x 32 x 64^2, bilinear", lambda: warp("matched")),
    "neighbours": one("8 x 64^2, bilinear",
                      lambda: (reals(8, 2, 4096, low=-2, high=66), (64, 64), 2, 0)),
    "picked": one("128 x 1000", lambda: (reals(128, 1000), whole(1000, 128), None, -100, MEAN),
                  functional("nll_loss")),
    "picked_backward": one(
        "128 x 1000", lambda: (reals(), whole(1000, 128), None, (128, 1000), -100, MEAN)),
    "class_entropy": one("128 x 1000", entropy, functional("cross_entropy")),
    "class_entropy_backward": one(
        "128 x 1000",
        lambda: (reals(), *[reals(128, 1000, low=0)] * 2, whole(1000, 128), -100, MEAN)),
    "ctc": one("100 x 32, 20 labels", alignment,
               lambda t, x, y: t.nn.functional.ctc_loss(x, y, (100,) * 32, (20,) * 32)),
    "ctc_slope": one("100 x 32, 20 labels", alignment_slope),
    "measured": losses(LOSSES),
    "measure_backward": slopes,
    "coins": one("matrix", lambda: (reals(*SIZE, low=0), 3, 0), lambda t, x: t.bernoulli(x)),
    "multinomial_places": lambda: [
        Trial(f"10 of each row{how}", (reals(*SIZE, low=0.1), 10, again, 3, 0),
              lambda t, x, again=again: t.multinomial(x, 10, again))
        for how, again in {"": False, ", again": True}.items()
    ],
    "uniform_fill": one("matrix", lambda: (reals(*SIZE), 5, 0, 0.0, 1.0),
                        lambda t, x: x.uniform_()),
    "normal_fill": one("matrix", lambda: (reals(*SIZE), 5, 0, 0.0, 1.0), lambda t, x: x.normal_()),
}  # fmt: skip

# Views: their cost is that of the call, whatever the size.
SMALL = {
    "viewed": ((reals(3, 4), (4, 3)), lambda t, x: x.view(4, 3)),
    "squeeze": ((reals(3, 1, 4), None), lambda t, x: x.squeeze()),
    "unsqueeze": ((reals(3, 4), 1), lambda t, x: x.unsqueeze(1)),
    "expand": ((reals(3, 1), (3, 4)), lambda t, x: x.expand(3, 4)),
    "broadcast_to": ((reals(3, 1), (3, 4)), lambda t, x: x.broadcast_to((3, 4))),
    "flattened": ((reals(3, 4, 5), 0, -1), lambda t, x: x.flatten()),
    "diagonal": ((reals(3, 4), 0, 0, 1), lambda t, x: x.diagonal()),
    "unfold": ((reals(8), 0, 3, 2), lambda t, x: x.unfold(0, 3, 2)),
    "unbind": ((reals(3, 4), 0), lambda t, x: x.unbind()),
    "getitem": ((reals(3, 4), (slice(1, 3), 2)), lambda t, x: x[1:3, 2]),
}
TRIALS.update({name: one("view", lambda a=a: a, call) for name, (a, call) in SMALL.items()})

WORDS = {  # PyTorch's names, where a row's are others
    "at_least": "maximum", "at_most": "minimum", "i1": "special.i1", "trunc_divide": "floor_divide",
    "clamped_between": "clamp", "leaky_relu": "nn.functional.leaky_relu",
}  # fmt: skip


def drawn(draw: Any) -> Any:
    """A million numbers of a sample's kind and range; of other shapes as they are."""
    draw = draw if isinstance(draw, Sample) else Sample(draw)
    if draw.kind == "b":
        return coins(*SIZE)
    if draw.kind == "i":
        return whole(int(draw.high), *SIZE, low=int(draw.low))
    return reals(*SIZE, low=draw.low, high=draw.high)


def trials_of(row: Row) -> list[Trial]:
    """What is measured of a row: its own trials, or a million numbers as its first sample has."""
    if row.name in TRIALS:
        return TRIALS[row.name]()
    n = len(row.inputs)
    inputs, attributes = row.samples[0][:n], row.samples[0][n:]
    return [Trial("matrix", (*map(drawn, inputs), *attributes), by_name(row.name, attributes))]


def by_name(name: str, attributes: tuple[Any, ...]) -> Torch:
    """PyTorch's function of that name."""
    paths = [WORDS.get(name, name), name.replace("special_", "special."), "nn.functional." + name]

    def call(t: Any, *inputs: Any) -> Any:
        for path in paths:
            found = t
            for word in path.split("."):
                found = getattr(found, word, None)
            if found is not None:
                return found(*inputs, *attributes)
        raise LookupError(f"benchmarks: PyTorch has no function: {name}")

    return call
