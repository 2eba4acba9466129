"""Memory formats beside PyTorch's own: shape, strides and contiguity of results and of gradients,
for inputs of every layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import shmtensor as st

pytestmark = pytest.mark.torch

F = Callable[[Any, Any], Any]  # (module, x) -> tensor, or tuple of tensors

REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError)
LAST: dict[int, tuple[int, ...]] = {3: (2, 0, 1), 4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}
FIRST: dict[int, tuple[int, ...]] = {3: (1, 2, 0), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
WIDE = (slice(None, None, 2),)


def numbers(*shape: int) -> Any:
    """Numbers between 0.1 and 0.9."""
    rng = np.random.default_rng(list(shape))
    return (0.1 + 0.8 * rng.random(shape)).astype(np.float32)


def rows(*shape: int) -> Callable[[Any], Any]:
    return lambda m: m.tensor(numbers(*shape))


def channels_last(*shape: int) -> Callable[[Any], Any]:
    """Channels last in memory, also where sizes of 1 leave the strides open."""

    def make(m: Any) -> Any:
        array = numbers(*shape).transpose(FIRST[len(shape)])
        return m.tensor(array.copy()).permute(LAST[len(shape)])

    return make


def permuted(order: tuple[int, ...], *shape: int) -> Callable[[Any], Any]:
    """A tensor whose dimensions are ordered in memory from the outermost to the innermost."""

    def make(m: Any) -> Any:
        array = numbers(*shape).transpose(order).copy()
        return m.tensor(array).permute(tuple(int(i) for i in np.argsort(order)))

    return make


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "rows": rows(2, 4, 6, 5),
    "channels last": channels_last(2, 4, 6, 5),
    "channels last, N = 1": channels_last(1, 4, 6, 5),
    "channels last, C = 1": channels_last(2, 1, 6, 5),
    "rows, C = 1": rows(2, 1, 6, 5),
    "rows, N = 1": rows(1, 4, 6, 5),
    "to channels last, C = 1": lambda m: rows(2, 1, 6, 5)(m).contiguous(
        memory_format=m.channels_last
    ),
    "permuted": permuted((1, 0, 3, 2), 2, 4, 6, 5),
    "permuted, batch last": permuted((2, 3, 1, 0), 2, 4, 6, 5),
    "every second": lambda m: rows(2, 4, 6, 10)(m)[..., ::2],
    "every second of channels last": lambda m: channels_last(2, 4, 6, 10)(m)[..., ::2],
    "every second channel": lambda m: channels_last(2, 8, 6, 5)(m)[:, ::2],
    "expanded": lambda m: rows(2, 1, 6, 5)(m).expand(2, 4, 6, 5),
    "expanded batch": lambda m: channels_last(1, 4, 6, 5)(m).expand(2, 4, 6, 5),
    "expanded width": lambda m: rows(2, 4, 6, 1)(m).expand(2, 4, 6, 5),
}
SMALL: dict[str, Callable[[Any], Any]] = {  # too small for windows
    "channels last, H = W = 1": channels_last(2, 4, 1, 1),
    "rows, H = W = 1": rows(2, 4, 1, 1),
    "channels last, W = 1": channels_last(2, 4, 6, 1),
    "channels last, C = H = W = 1": channels_last(2, 1, 1, 1),
}
VOLUMES: dict[str, Callable[[Any], Any]] = {
    "volumes in rows": rows(2, 4, 6, 5, 4),
    "volumes, channels last": channels_last(2, 4, 6, 5, 4),
    "volumes, channels last, N = 1": channels_last(1, 4, 6, 5, 4),
    "volumes, channels last, C = 1": channels_last(2, 1, 6, 5, 4),
    "volumes, permuted": permuted((1, 0, 4, 3, 2), 2, 4, 6, 5, 4),
    "volumes, every second": lambda m: channels_last(2, 4, 6, 5, 8)(m)[..., ::2],
}
SERIES: dict[str, Callable[[Any], Any]] = {
    "three in rows": rows(4, 6, 5),
    "three, channels last": channels_last(4, 6, 5),
    "three, transposed": permuted((0, 2, 1), 4, 6, 5),
    "three, every second": lambda m: rows(4, 6, 10)(m)[..., ::2],
    "three, expanded": lambda m: rows(1, 6, 5)(m).expand(4, 6, 5),
}
IMAGES = {**LAYOUTS, **SERIES}
ALL = {**LAYOUTS, **SMALL, **VOLUMES, **SERIES}
FEW = {
    n: ALL[n]
    for n in ("rows", "channels last", "permuted", "every second", "expanded", "three, transposed")
}


def formats(m: Any, x: Any, gradient: bool = False) -> dict[str, Any]:
    """The compared properties of a tensor; a gradient's strides of sizes of 1 are arbitrary."""
    kinds = {4: m.channels_last, 5: m.channels_last_3d}
    steps = [s if n > 1 or not gradient else 0 for s, n in zip(x.stride(), x.shape)]
    description = {"shape": tuple(x.shape), "stride": tuple(steps), "rows": x.is_contiguous()}
    if x.ndim in kinds:
        description["channels last"] = x.is_contiguous(memory_format=kinds[x.ndim])
    return description


def tensors(result: Any) -> list[Any]:
    return [result] if hasattr(result, "stride") else list(result)


def outcome(m: Any, function: F, make: Callable[[Any], Any], gradient: bool) -> Any:
    """Formats of the results and of x.grad, and their values."""
    x = make(m).detach()
    if gradient:
        x.requires_grad_()
    try:
        outputs = tensors(function(m, x))
    except REFUSALS as error:
        return type(error), str(error)
    described = [formats(m, y) for y in outputs]
    values = [np.array(y.detach().float().numpy(force=True)) for y in outputs]
    tracked = [y for y in outputs if y.requires_grad]
    if gradient and tracked:
        try:
            tracked[0].sum().backward()
        except REFUSALS:  # not differentiable
            return described, values
        if x.grad is not None:
            described.append(formats(m, x.grad, True))
            values.append(np.array(x.grad.numpy(force=True)))
    return described, values


def differences(
    function: F,
    layouts: dict[str, Callable[[Any], Any]],
    gradient: bool,
    values: bool,
    any_step: bool = False,
) -> Iterator[str]:
    """Differences from PyTorch, one a line; `any_step` ignores the strides of sizes of 1."""
    for name, make in layouts.items():
        ours, theirs = (outcome(m, function, make, gradient) for m in (st, torch))
        if isinstance(theirs[0], type):
            continue  # PyTorch refuses this layout
        if isinstance(ours[0], type):
            yield f"{name}: {ours}"
            continue
        for i, (a, b) in enumerate(zip(ours[0], theirs[0])):
            for d in (a, b):
                if any_step:
                    pairs = zip(d["stride"], d["shape"], strict=True)
                    d["stride"] = tuple(s for s, n in pairs if n > 1)
                if 0 in d["shape"]:
                    d["stride"] = d["channels last"] = None
            if a != b:
                yield f"{name}, {i}: {a}, PyTorch {b}"
        for a, b in zip(ours[1], theirs[1]):
            if values and not np.allclose(a, b, 1e-3, 1e-4, equal_nan=True):
                yield f"{name}: other values"


def like(m: Any, *shape: int) -> Any:
    return m.tensor(numbers(*shape))


def same(m: Any, x: Any) -> Any:
    """Another contiguous tensor of x's shape."""
    return m.tensor(numbers(*x.shape))


def last(m: Any, x: Any) -> Any:
    """Another tensor in channels last, of x's shape."""
    return channels_last(*x.shape)(m)


def each(names: str, build: Callable[[str], F]) -> dict[str, F]:
    return {name: build(name) for name in names.split()}


def unary(name: str) -> F:
    return lambda m, x: getattr(m if hasattr(m, name) else x, name)(x)


def methods(name: str) -> F:
    return lambda m, x: getattr(x, name)()


def nn(name: str, *args: Any, **kwargs: Any) -> F:
    return lambda m, x: getattr(m.nn.functional, name)(x, *args, **kwargs)


UNARY = (
    "abs neg square sqrt rsqrt reciprocal sign sgn exp exp2 expm1 log log2 log10 log1p sin cos tan "
    "asin acos atan sinh cosh tanh asinh atanh sinc floor ceil trunc round frac erf erfc erfinv "
    "lgamma digamma i0 sigmoid relu deg2rad rad2deg logit nan_to_num positive isnan isinf isfinite "
    "isposinf isneginf isreal signbit logical_not angle real conj clone zeros_like ones_like "
    "rand_like empty_like randn_like bernoulli"
)
METHODS = "double half bfloat16 int bool detach contiguous clone sigmoid_ neg_"
ACTIVATIONS = (
    "relu relu6 elu selu celu gelu silu mish softplus softsign tanhshrink hardtanh hardswish "
    "hardsigmoid hardshrink softshrink leaky_relu logsigmoid rrelu"
)
BINARY = (
    "add sub mul div pow maximum minimum fmax fmin atan2 hypot copysign fmod remainder "
    "floor_divide logaddexp logaddexp2 xlogy eq ne lt le gt ge isclose logical_and logical_or "
    "logical_xor nextafter heaviside"
)


def on_detached(function: F) -> F:
    return lambda m, x: function(m, x.detach().clone())


POINTWISE: dict[str, F] = {
    **{n: unary(n) for n in UNARY.split()},
    **{f".{n}()": on_detached(methods(n)) for n in METHODS.split()},
    **{f"F.{n}": nn(n) for n in ACTIVATIONS.split()},
    "F.threshold": nn("threshold", 0.5, 0.0),
    "F.gelu, tanh": nn("gelu", approximate="tanh"),
    "F.prelu, one": lambda m, x: m.nn.functional.prelu(x, m.tensor([0.25])),
    "F.dropout": nn("dropout", 0.5, True),
    "F.dropout, eval": nn("dropout", 0.5, False),
    "F.alpha_dropout": nn("alpha_dropout", 0.5, True),
    "F.feature_alpha_dropout": nn("feature_alpha_dropout", 0.5, True),
    "clamp": lambda m, x: x.clamp(0.2, 0.7),
    "clamp by tensors": lambda m, x: x.clamp(same(m, x) * 0.5, same(m, x)),
    "clamp_min": lambda m, x: x.clamp_min(0.3),
    "x + 1": lambda m, x: x + 1,
    "1 - x": lambda m, x: 1 - x,
    "x ** 2": lambda m, x: x**2,
    "2 ** x": lambda m, x: 2**x,
    "x > 0.5": lambda m, x: x > 0.5,
    "x + 0-d": lambda m, x: x + m.tensor(2.0),
    "float64 0-d + x": lambda m, x: m.tensor(2.0, dtype=m.float64) + x,
    "x + float64": lambda m, x: x + same(m, x).double(),
    "x + int": lambda m, x: x + same(m, x).int(),
    "addcmul": lambda m, x: m.addcmul(x, x, same(m, x), value=0.5),
    "addcmul, third": lambda m, x: m.addcmul(same(m, x), same(m, x), x),
    "addcdiv": lambda m, x: m.addcdiv(x, x, same(m, x)),
    "lerp": lambda m, x: m.lerp(x, same(m, x), 0.3),
    "lerp by a tensor": lambda m, x: m.lerp(x, last(m, x), same(m, x)),
    "where": lambda m, x: m.where(x > 0.5, x, same(m, x)),
    "where, number": lambda m, x: m.where(x > 0.5, x, 0.0),
    "where, numbers": lambda m, x: m.where(x > 0.5, 1.0, 0.0),
    "where, condition in rows": lambda m, x: m.where(same(m, x) > 0.5, x, x * 2),
    "where, x second": lambda m, x: m.where(same(m, x) > 0.5, same(m, x), x),
    "masked_fill": lambda m, x: x.masked_fill(same(m, x) > 0.5, 1.0),
    "cumsum": lambda m, x: x.cumsum(1),
    "softmax": lambda m, x: x.softmax(1),
    "log_softmax": lambda m, x: x.log_softmax(1),
    "softmax, last": lambda m, x: x.softmax(-1),
    "sum, keepdim": lambda m, x: x.sum(1, keepdim=True),
    "sum": lambda m, x: x.sum(1),
    "mean of the last": lambda m, x: x.mean((-1, -2), keepdim=True),
    "amax, keepdim": lambda m, x: x.amax(1, keepdim=True),
    "max": lambda m, x: x.max(1, keepdim=True),
    "x += 1": on_detached(lambda m, x: x.add_(1)),
    "relu_": on_detached(lambda m, x: x.relu_()),
    "new_zeros": lambda m, x: x.new_zeros(x.shape),
    "full_like": lambda m, x: m.full_like(x, 2.0),
    "to float64": lambda m, x: x.to(m.float64),
    "to itself, copied": lambda m, x: x.to(m.float32, copy=True),
    "flip": lambda m, x: x.flip(-1),
    "roll": lambda m, x: x.roll(1, -1),
    "bernoulli": lambda m, x: m.bernoulli(x),
    "diff": lambda m, x: x.diff(dim=-1),
    "l1": lambda m, x: m.nn.functional.l1_loss(x, same(m, x), reduction="none"),
    "mse": lambda m, x: m.nn.functional.mse_loss(x, same(m, x), reduction="none"),
    "bce": lambda m, x: m.nn.functional.binary_cross_entropy_with_logits(
        x, same(m, x), reduction="none"
    ),
    "repeat_interleave": lambda m, x: x.repeat_interleave(2, 1),
    "index_select": lambda m, x: x.index_select(0, m.tensor([0])),
    "x[0]": lambda m, x: x[:1],
    "unsqueeze": lambda m, x: x.unsqueeze(1),
    "cat": lambda m, x: m.cat([x, x], 1),
    "cat with rows": lambda m, x: m.cat([x, same(m, x)], 1),
    "cat rows first": lambda m, x: m.cat([same(m, x), x], -1),
    "stack": lambda m, x: m.stack([x, x]),
}

PAIRS: dict[str, Callable[[F], F]] = {
    "self": lambda f: lambda m, x: f(x, x),
    "rows": lambda f: lambda m, x: f(x, same(m, x)),
    "rows first": lambda f: lambda m, x: f(same(m, x), x),
    "channels last": lambda f: lambda m, x: f(x, last(m, x)),
    "channels last first": lambda f: lambda m, x: f(last(m, x), x),
    "by channel": lambda f: lambda m, x: f(x, like(m, x.shape[-3], 1, 1)),
    "by channel first": lambda f: lambda m, x: f(like(m, x.shape[-3], 1, 1), x),
    "by column": lambda f: lambda m, x: f(x, like(m, x.shape[-1])),
    "one image": lambda f: lambda m, x: f(x, x[:1].detach()),
    "one channel": lambda f: lambda m, x: f(x, x[..., :1, :, :].detach()),
    "one more dimension": lambda f: lambda m, x: f(x, like(m, 2, *x.shape)),
}
BINARIES: dict[str, F] = {
    f"{name}, {pair}": build(lambda x, y, name=name: getattr(m_of(x), name)(x, y))
    for name in BINARY.split()
    for pair, build in (PAIRS.items() if name in ("add", "eq", "pow") else list(PAIRS.items())[:3])
}


def m_of(x: Any) -> Any:
    return torch if isinstance(x, torch.Tensor) else st


def conv(n: int, *, to: Callable[[Any], Any] | None = None, groups: int = 1, k: int = 3,
         bias: bool = True, transposed: bool = False, **kwargs: Any) -> F:  # fmt: skip
    """A convolution of n dimensions whose weight `to` brings into a format."""

    def run(m: Any, x: Any) -> Any:
        channels = x.shape[-n - 1]
        groups_of_x = channels if groups < 0 else groups
        if transposed:
            weight = like(m, channels, 6 // groups_of_x, *(k,) * n)
        else:
            weight = like(m, 2 * channels, channels // groups_of_x, *(k,) * n)
        out = weight.shape[1] * groups_of_x if transposed else weight.shape[0]
        weight = weight if to is None else to(m, weight)
        function = getattr(m.nn.functional, f"conv{'_transpose' if transposed else ''}{n}d")
        b = like(m, out) if bias else None
        return function(x, weight, b, groups=groups_of_x, **kwargs)

    return run


def by_channel(m: Any, weight: Any) -> Any:
    kind = m.channels_last if weight.ndim == 4 else m.channels_last_3d
    return weight.contiguous(memory_format=kind)


def affine(m: Any, x: Any) -> dict[str, Any]:
    return {"weight": like(m, x.shape[1]), "bias": like(m, x.shape[1])}


def norms(n: int) -> dict[str, F]:
    return {
        "batch_norm, train": lambda m, x: m.nn.functional.batch_norm(
            x, None, None, training=True, **affine(m, x)
        ),
        "batch_norm, train, running": lambda m, x: m.nn.functional.batch_norm(
            x, like(m, x.shape[1]), like(m, x.shape[1]), training=True
        ),
        "batch_norm, eval": lambda m, x: m.nn.functional.batch_norm(
            x, like(m, x.shape[1]), like(m, x.shape[1]), training=False, **affine(m, x)
        ),
        "instance_norm": lambda m, x: m.nn.functional.instance_norm(x, **affine(m, x)),
        "instance_norm, eval": lambda m, x: m.nn.functional.instance_norm(
            x, like(m, x.shape[1]), like(m, x.shape[1]), use_input_stats=False
        ),
        "group_norm": lambda m, x: m.nn.functional.group_norm(x, 1, **affine(m, x)),
        "group_norm, each": lambda m, x: m.nn.functional.group_norm(x, x.shape[1]),
        "layer_norm": lambda m, x: m.nn.functional.layer_norm(x, x.shape[1:]),
        "layer_norm of the last": lambda m, x: m.nn.functional.layer_norm(
            x, x.shape[-1:], like(m, x.shape[-1])
        ),
        "rms_norm": lambda m, x: m.nn.functional.rms_norm(x, x.shape[1:]),
        "local_response_norm": nn("local_response_norm", 2),
        "normalize": nn("normalize"),
    }


def unpooled(m: Any, x: Any) -> Any:
    values, indices = m.nn.functional.max_pool2d(x, 2, return_indices=True)
    return m.nn.functional.max_unpool2d(values, indices, 2, output_size=x.shape)


def pooled_window(m: Any, x: Any) -> Any:
    samples = like(m, *(x.shape[:2] if x.ndim == 4 else (1, x.shape[0])), 2)
    return m.nn.functional.fractional_max_pool2d(
        x, 2, output_size=(3, 3), _random_samples=samples, return_indices=True
    )


IMAGE_FUNCTIONS: dict[str, F] = {
    **{
        f"conv2d, {name}": f
        for name, f in {
            "weight in rows": conv(2),
            "weight channels last": conv(2, to=by_channel),
            "no bias": conv(2, bias=False),
            "padding": conv(2, padding=1),
            "same": conv(2, padding="same"),
            "strided": conv(2, stride=2),
            "dilated": conv(2, dilation=2),
            "depthwise": conv(2, groups=-1),
            "depthwise, weight channels last": conv(2, groups=-1, to=by_channel),
            "1 x 1": conv(2, k=1),
            "1 x 1, weight channels last": conv(2, k=1, to=by_channel),
            "float64": lambda m, x: m.nn.functional.conv2d(
                x.double(), like(m, 6, x.shape[-3], 3, 3).double()
            ),
        }.items()
    },
    "conv_transpose2d": conv(2, transposed=True),
    "conv_transpose2d, weight channels last": conv(2, transposed=True, to=by_channel),
    "conv_transpose2d, strided": conv(2, transposed=True, stride=2, output_padding=1),
    "max_pool2d": nn("max_pool2d", 2),
    "max_pool2d, indices": nn("max_pool2d", 2, return_indices=True),
    "max_pool2d, padded": nn("max_pool2d", 3, 2, 1),
    "avg_pool2d": nn("avg_pool2d", 2),
    "avg_pool2d, padded": nn("avg_pool2d", 3, 2, 1),
    "lp_pool2d": nn("lp_pool2d", 2, 2),
    "adaptive_avg_pool2d": nn("adaptive_avg_pool2d", (3, 2)),
    "adaptive_avg_pool2d, 1": nn("adaptive_avg_pool2d", 1),
    "adaptive_max_pool2d": nn("adaptive_max_pool2d", (3, 2)),
    "adaptive_max_pool2d, indices": nn("adaptive_max_pool2d", (3, 2), return_indices=True),
    "fractional_max_pool2d": pooled_window,
    "max_unpool2d": unpooled,
    "pad, constant": nn("pad", (1, 2, 0, 1)),
    "pad, channels": nn("pad", (1, 0, 0, 0, 1, 0)),
    "pad, cropped": nn("pad", (-1, 0, 1, 0)),
    "pad, reflect": nn("pad", (1, 2, 2, 1), mode="reflect"),
    "pad, replicate": nn("pad", (1, 2, 2, 1), mode="replicate"),
    "pad, circular": nn("pad", (1, 2, 2, 1), mode="circular"),
    "pad, nothing": nn("pad", (0, 0)),
    **{
        f"interpolate, {mode}": nn("interpolate", scale_factor=2, mode=mode)
        for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area")
    },
    "interpolate, smaller": nn("interpolate", size=(3, 2), mode="bilinear", align_corners=True),
    "interpolate, antialias": nn("interpolate", size=(3, 2), mode="bilinear", antialias=True),
    "interpolate, antialias, bicubic": nn(
        "interpolate", size=(3, 2), mode="bicubic", antialias=True
    ),
    "pixel_shuffle": nn("pixel_shuffle", 2),
    "pixel_unshuffle": lambda m, x: m.nn.functional.pixel_unshuffle(x[..., :4], 2),
    "channel_shuffle": nn("channel_shuffle", 2),
    "dropout2d": nn("dropout2d", 0.5, True),
    "grid_sample": lambda m, x: m.nn.functional.grid_sample(
        x, like(m, x.shape[0], 3, 4, 2), align_corners=False
    ),
    "grid_sample, nearest": lambda m, x: m.nn.functional.grid_sample(
        x, like(m, x.shape[0], 3, 4, 2), mode="nearest", align_corners=False
    ),
    "unfold": nn("unfold", 2),
    "flatten": lambda m, x: x.flatten(1),
    "linear": lambda m, x: m.nn.functional.linear(x, like(m, 3, x.shape[-1])),
    "cosine_similarity": lambda m, x: m.nn.functional.cosine_similarity(x, same(m, x)),
    "nll_loss2d": lambda m, x: m.nn.functional.cross_entropy(
        x, m.zeros(x.shape[0], *x.shape[2:], dtype=m.int64), reduction="none"
    ),
    "softmax2d": lambda m, x: m.nn.Softmax2d()(x),
    "prelu by channel": lambda m, x: m.nn.functional.prelu(x, like(m, x.shape[1])),
    **norms(2),
}
VOLUME_FUNCTIONS: dict[str, F] = {
    "conv3d": conv(3),
    "conv3d, weight channels last": conv(3, to=by_channel),
    "conv3d, 1 x 1": conv(3, k=1),
    "conv3d, depthwise": conv(3, groups=-1),
    "conv_transpose3d": conv(3, transposed=True),
    "conv_transpose3d, weight channels last": conv(3, transposed=True, to=by_channel),
    "max_pool3d": nn("max_pool3d", 2),
    "max_pool3d, indices": nn("max_pool3d", 2, return_indices=True),
    "avg_pool3d": nn("avg_pool3d", 2),
    "adaptive_avg_pool3d": nn("adaptive_avg_pool3d", (3, 2, 2)),
    "adaptive_avg_pool3d, 1": nn("adaptive_avg_pool3d", 1),
    "adaptive_max_pool3d": nn("adaptive_max_pool3d", (3, 2, 2)),
    "pad, constant": nn("pad", (1, 2, 0, 1)),
    "pad, reflect": nn("pad", (1, 2, 2, 1, 1, 1), mode="reflect"),
    "pad, replicate": nn("pad", (1, 2, 2, 1, 1, 1), mode="replicate"),
    "pad, circular": nn("pad", (1, 2, 2, 1, 1, 1), mode="circular"),
    **{
        f"interpolate, {mode}": nn("interpolate", scale_factor=2, mode=mode)
        for mode in ("nearest", "nearest-exact", "trilinear", "area")
    },
    "dropout3d": nn("dropout3d", 0.5, True),
    "grid_sample": lambda m, x: m.nn.functional.grid_sample(
        x, like(m, x.shape[0], 3, 4, 2, 3), align_corners=False
    ),
    "prelu by channel": lambda m, x: m.nn.functional.prelu(x, like(m, x.shape[1])),
    **norms(3),
}
SERIES_FUNCTIONS: dict[str, F] = {
    "conv1d": conv(1),
    "conv_transpose1d": conv(1, transposed=True),
    "max_pool1d": nn("max_pool1d", 2),
    "avg_pool1d": nn("avg_pool1d", 2),
    "adaptive_avg_pool1d": nn("adaptive_avg_pool1d", 2),
    "adaptive_max_pool1d": nn("adaptive_max_pool1d", 2),
    "pad, reflect": nn("pad", (1, 2), mode="reflect"),
    "interpolate, linear": nn("interpolate", scale_factor=2, mode="linear"),
    "interpolate, nearest": nn("interpolate", scale_factor=2),
    "dropout1d": nn("dropout1d", 0.5, True),
    **norms(1),
}
RANDOM = ("dropout", "rrelu", "rand", "empty", "bernoulli", "nextafter")

# Where PyTorch's result is contiguous although ours follows its operand.
FOLLOWS = {
    "pointwise: F.rrelu",
    "pointwise: 2 ** x",
    "pointwise: bce",  # PyTorch's result has the target's layout
    "volumes: avg_pool3d",
    "volumes: adaptive_avg_pool3d",
    "volumes: adaptive_max_pool3d",
    "volumes: interpolate, area",
    "volumes: conv3d",  # of one image, or of 1 x 1 x 1
    "volumes: conv3d, weight channels last",
    "volumes: conv3d, 1 x 1",
    "volumes: conv_transpose3d",
    "volumes: conv_transpose3d, weight channels last",
}
# (1, C, L) pools of a transposed matrix: PyTorch takes the added dimension for an image's.
FOLLOWS |= {f"series: {n}" for n in ("max_pool1d", "avg_pool1d", "adaptive_avg_pool1d")}
FOLLOWS |= {"series: adaptive_max_pool1d", "images: interpolate, area"}
# An image of width 1, rolled along it; a square of an expanded tensor.
FOLLOWS |= {"pointwise: roll", "images: local_response_norm"}
# Where PyTorch composes several functions, the strides of sizes of 1 are the last one's.
OPEN = (
    "deg2rad",
    "rad2deg",
    "nan_to_num",
    "isreal",
    "relu6",
    "hardtanh",
    "x ** 2",
    "pointwise: lerp",
    "masked_fill",
    "roll",
    "x[0]",
    "stack",
    "batch_norm",
    "instance_norm, eval",
    "F.dropout",
)

TABLE = [
    *((f"pointwise: {n}", f, ALL) for n, f in POINTWISE.items()),
    *((f"pointwise: {n}", f, ALL if n.startswith("add") else FEW) for n, f in BINARIES.items()),
    *((f"images: {n}", f, {**LAYOUTS, **SERIES}) for n, f in IMAGE_FUNCTIONS.items()),
    *((f"volumes: {n}", f, VOLUMES) for n, f in VOLUME_FUNCTIONS.items()),
    *((f"series: {n}", f, SERIES) for n, f in SERIES_FUNCTIONS.items()),
]
STRICT = [t for t in TABLE if t[0] not in FOLLOWS]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "function", "layouts"), STRICT, ids=[t[0] for t in STRICT])
def test_strides_are_pytorchs(name: str, function: F, layouts: Any) -> None:
    compares_values = not any(word in name for word in RANDOM)
    any_step = any(word in name for word in OPEN)
    mismatches = list(differences(function, layouts, True, compares_values, any_step))
    assert not mismatches, "\n".join(mismatches)


FOLLOWING = [t for t in TABLE if t[0] in FOLLOWS and t[0].startswith("volumes")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "function", "layouts"), FOLLOWING, ids=[t[0] for t in FOLLOWING])
def test_volumes_keep_channels_last_where_pytorch_does_not(
    name: str, function: F, layouts: Any
) -> None:
    out = tensors(function(st, VOLUMES["volumes, channels last"](st)))[0]
    assert out.is_contiguous(memory_format=st.channels_last_3d)


class Network(st.nn.Module):
    """Convolution, norm, activation, pool and a matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.first = st.nn.Parameter(like(st, 8, 3, 3, 3))
        self.second = st.nn.Parameter(like(st, 8, 8, 3, 3))
        self.linear = st.nn.Linear(32, 4)

    def forward(self, x: Any) -> Any:
        f = st.nn.functional
        self.outputs = [f.conv2d(x, self.first, padding=1)]
        for layer in (
            lambda y: f.batch_norm(y, None, None, training=True),
            f.relu,
            lambda y: f.max_pool2d(y, 2),
            lambda y: f.conv2d(y, self.second),
            lambda y: f.dropout(y, 0.0),
            lambda y: f.adaptive_avg_pool2d(y, 2),
        ):
            self.outputs.append(layer(self.outputs[-1]))
        return self.linear(self.outputs[-1].flatten(1))


def test_network_in_channels_last_has_the_activations_and_values_of_one_in_rows() -> None:
    rows_, last_ = Network(), Network()
    last_.load_state_dict(rows_.state_dict())
    last_.to(memory_format=st.channels_last)
    assert last_.first.is_contiguous(memory_format=st.channels_last)
    x = like(st, 2, 3, 12, 10)
    expected, y = rows_(x), last_(x.to(memory_format=st.channels_last))
    assert all(v.is_contiguous(memory_format=st.channels_last) for v in last_.outputs)
    assert all(v.is_contiguous() for v in rows_.outputs)
    np.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy(), 1e-4, 1e-5)
    (expected**2).sum().backward()
    (y**2).sum().backward()
    for p, q in zip(rows_.parameters(), last_.parameters(), strict=True):
        assert q.grad.stride() == q.stride()
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), 1e-3, 1e-3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("m", [st, torch], ids=["shmtensor", "torch"])
def test_gradient_has_the_layout_of_its_leaf(m: Any) -> None:
    x = channels_last(2, 4, 6, 5)(m).detach().requires_grad_()
    (x * same(m, x)).sum().backward()
    assert x.grad.stride() == x.stride()
    x.grad = None
    x.sum().backward()
    (x * 2).sum().backward()
    assert x.grad.stride() == x.stride()
    sparse = rows(2, 4, 6, 10)(m)[..., ::2].detach().requires_grad_()
    sparse.sum().backward()
    assert sparse.grad.is_contiguous()
    x.grad = None
    (x * same(m, x) * x).sum().backward(create_graph=True)
    assert x.grad.stride() == x.stride()
    (second,) = m.autograd.grad(x.grad.sum(), x)
    np.testing.assert_allclose(second.numpy(), 2 * same(m, x).numpy(), 1e-5)
