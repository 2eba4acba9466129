"""Every layer of nn on CUDA: the CPU's outputs and gradients.

A layer is built on the CPU, copied, and the copy moved with `.cuda()`; both get the same inputs.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any, NamedTuple

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn


class Case(NamedTuple):
    """A layer with its inputs: a tuple is the shape of random numbers, an array is itself."""

    name: str
    args: tuple[Any, ...]
    inputs: tuple[Any, ...]
    kwargs: dict[str, Any]


def case(name: str, args: Any, *inputs: Any, **kwargs: Any) -> Case:
    return Case(name, args if isinstance(args, tuple) else (args,), inputs, kwargs)


def integers(low: int, high: int, *shape: int) -> Any:
    return np.random.default_rng(1).integers(low, high, shape)


def signs(*shape: int) -> Any:
    return np.random.default_rng(2).choice([-1.0, 1.0], shape).astype(np.float32)


def shares(*shape: int) -> Any:
    return np.random.default_rng(3).uniform(0.1, 0.9, shape).astype(np.float32)


ELEMENTWISE = [
    "CELU", "ELU", "GELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "LogSigmoid", "Mish", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softplus", "Softshrink",
    "Softsign", "Tanh", "Tanhshrink", "Identity",
]  # fmt: skip
BY_RANK = {1: (2, 3, 6), 2: (2, 3, 6, 6), 3: (1, 3, 4, 4, 4)}
PAIR = ((3, 4), (3, 4))

CASES: list[Case] = [case(name, (), (3, 4)) for name in ELEMENTWISE]
CASES += [
    case("Threshold", (0.1, -1.0), (3, 4)),
    case("PReLU", (), (2, 3, 4)),
    case("PReLU", 3, (2, 3, 4)),
    case("RReLU", (), (3, 4), eval=True),
    case("GLU", (), (3, 4)),
    case("Softmax", -1, (3, 4)),
    case("Softmax", 0, (3, 4)),
    case("LogSoftmax", 1, (3, 4)),
    case("Softmin", 1, (3, 4)),
    case("Softmax2d", (), (2, 3, 4, 4)),
    case("GELU", (), (3, 4), approximate="tanh"),
    case("Linear", (4, 2), (3, 4)),
    case("Linear", (4, 2), (2, 3, 4), bias=False),
    case("Bilinear", (4, 3, 2), (5, 4), (5, 3)),
    case("Embedding", (7, 3), integers(0, 7, 2, 5)),
    case("Embedding", (7, 3), integers(0, 7, 2, 5), padding_idx=2),
    case("Embedding", (7, 3), integers(0, 7, 2, 5), max_norm=1.0),
    *(
        case("EmbeddingBag", (7, 3), integers(0, 7, 2, 5), mode=mode)
        for mode in ("sum", "mean", "max")
    ),
    case("Flatten", (), (2, 3, 4)),
    case("Unflatten", (1, (2, 2)), (3, 4)),
    case("ChannelShuffle", 2, (2, 4, 3, 3)),
    case("PixelShuffle", 2, (2, 8, 3, 3)),
    case("PixelUnshuffle", 2, (2, 2, 4, 6)),
    case("Fold", ((4, 4), 2), (2, 12, 9)),
    case("Unfold", 2, (2, 3, 4, 4)),
    case("CosineSimilarity", (), *PAIR),
    case("PairwiseDistance", (), *PAIR),
    case("LayerNorm", 4, (2, 3, 4)),
    case("LayerNorm", ((3, 4),), (2, 3, 4), elementwise_affine=False),
    case("RMSNorm", 4, (2, 3, 4)),
    case("GroupNorm", (2, 4), (2, 4, 3)),
    case("LocalResponseNorm", 2, (2, 4, 3, 3)),
    case("CrossMapLRN2d", 3, (2, 4, 3, 3)),
    *(case(f"BatchNorm{n}d", 3, BY_RANK[n]) for n in BY_RANK),
    *(case(f"BatchNorm{n}d", 3, BY_RANK[n], eval=True) for n in BY_RANK),
    case("BatchNorm1d", 4, (3, 4), affine=False, track_running_stats=False),
    *(case(f"InstanceNorm{n}d", 3, BY_RANK[n]) for n in BY_RANK),
    case("InstanceNorm2d", 3, BY_RANK[2], affine=True, track_running_stats=True),
    *(
        case(name, 0.5, (3, 4), eval=True)
        for name in ("Dropout", "AlphaDropout", "FeatureAlphaDropout")
    ),
    *(case(f"Dropout{n}d", 0.5, BY_RANK[n], eval=True) for n in BY_RANK),
    case("Dropout", 0.0, (3, 4)),
    *(case(f"Conv{n}d", (3, 4, 3), BY_RANK[n]) for n in BY_RANK),
    case("Conv2d", (4, 4, 3), (2, 4, 6, 6), stride=2, padding=1, groups=2, bias=False),
    case("Conv2d", (3, 4, 3), (2, 3, 6, 6), padding=1, padding_mode="reflect"),
    *(case(f"ConvTranspose{n}d", (3, 4, 3), BY_RANK[n], stride=2) for n in BY_RANK),
    *(case(f"MaxPool{n}d", 2, BY_RANK[n]) for n in BY_RANK),
    *(case(f"AvgPool{n}d", 2, BY_RANK[n]) for n in BY_RANK),
    *(case(f"LPPool{n}d", (2, 2), BY_RANK[n]) for n in BY_RANK),
    *(case(f"AdaptiveAvgPool{n}d", 2, BY_RANK[n]) for n in BY_RANK),
    *(case(f"AdaptiveMaxPool{n}d", 2, BY_RANK[n]) for n in BY_RANK),
    case("MaxUnpool1d", 2, (1, 1, 2), np.array([[[1, 2]]])),
    case("MaxUnpool2d", 2, (1, 1, 1, 2), np.array([[[[1, 6]]]])),
    case("MaxUnpool3d", 2, (1, 1, 1, 1, 2), np.array([[[[[1, 6]]]]])),
    *(
        case(f"{kind}Pad{n}d", 1, BY_RANK[n])
        for kind in ("Circular", "Reflection", "Replication", "Zero")
        for n in BY_RANK
    ),
    *(case(f"ConstantPad{n}d", (1, 0.5), BY_RANK[n]) for n in BY_RANK),
    case("FractionalMaxPool2d", 2, (2, 3, 6, 6), output_size=3, samples=(2, 3, 2)),
    case("FractionalMaxPool3d", 2, (1, 3, 4, 4, 4), output_size=2, samples=(1, 3, 3)),
    case("Upsample", (), (2, 3, 4), scale_factor=2),
    *(
        case("Upsample", (), (2, 3, 4, 4), scale_factor=2, mode=mode)
        for mode in ("nearest", "bilinear", "bicubic")
    ),
    case("UpsamplingNearest2d", (), (2, 3, 4, 4), scale_factor=2),
    case("UpsamplingBilinear2d", (), (2, 3, 4, 4), scale_factor=2),
    case("RNN", (4, 3), (5, 2, 4)),
    case("RNN", (4, 3, 2), (5, 2, 4), nonlinearity="relu", bidirectional=True),
    case("LSTM", (4, 3, 2), (5, 2, 4)),
    case("LSTM", (4, 3), (2, 5, 4), batch_first=True, bidirectional=True, proj_size=2),
    case("GRU", (4, 3, 2), (5, 2, 4)),
    case("RNNCell", (4, 3), (2, 4)),
    case("LSTMCell", (4, 3), (2, 4)),
    case("GRUCell", (4, 3), (2, 4)),
    case("MultiheadAttention", (4, 2), (5, 2, 4), (6, 2, 4), (6, 2, 4)),
    case("MultiheadAttention", (4, 2), *[(2, 5, 4)] * 3, batch_first=True, add_bias_kv=True),
    case("TransformerEncoderLayer", (4, 2, 8), (5, 2, 4), dropout=0.0),
    case("TransformerEncoderLayer", (4, 2, 8), (5, 2, 4), dropout=0.0, norm_first=True),
    case("TransformerEncoderLayer", (4, 2, 8), (5, 2, 4), eval=True),
    case("TransformerDecoderLayer", (4, 2, 8), (5, 2, 4), (6, 2, 4), dropout=0.0),
    case("Transformer", (4, 2, 1, 1, 8), (2, 5, 4), (2, 6, 4), dropout=0.0, batch_first=True),
    case("AdaptiveLogSoftmaxWithLoss", (4, 9, [3, 6]), (5, 4), integers(0, 9, 5), div_value=2.0),
    # losses
    *(
        case(name, (), *PAIR)
        for name in ("HuberLoss", "L1Loss", "MSELoss", "SmoothL1Loss", "PoissonNLLLoss")
    ),
    case("BCELoss", (), shares(3, 4), shares(3, 4)),
    case("BCEWithLogitsLoss", (), (3, 4), shares(3, 4)),
    case("KLDivLoss", (), (3, 4), shares(3, 4), reduction="batchmean"),
    case("GaussianNLLLoss", (), *PAIR, shares(3, 4)),
    case("CrossEntropyLoss", (), (3, 4), integers(0, 4, 3)),
    case("CrossEntropyLoss", (), (3, 4), shares(3, 4), label_smoothing=0.1),
    case("CrossEntropyLoss", (), (2, 3, 4, 4), integers(0, 3, 2, 4, 4), ignore_index=1),
    case("LinearCrossEntropyLoss", (4, 7), (3, 4), integers(0, 7, 3)),
    case("NLLLoss", (), (3, 4), integers(0, 4, 3)),
    case("NLLLoss2d", (), (2, 3, 4, 4), integers(0, 3, 2, 4, 4)),
    case("CTCLoss", (), (6, 2, 4), integers(1, 4, 2, 3), np.array([6, 5]), np.array([3, 2])),
    case("CosineEmbeddingLoss", (), *PAIR, signs(3)),
    case("HingeEmbeddingLoss", (), (3, 4), signs(3, 4)),
    case("MarginRankingLoss", (), (3,), (3,), signs(3)),
    case("SoftMarginLoss", (), (3, 4), signs(3, 4)),
    case("MultiMarginLoss", (), (3, 4), integers(0, 4, 3)),
    case("MultiLabelMarginLoss", (), (2, 4), np.array([[3, 0, -1, 1], [1, 2, 3, 0]])),
    case("MultiLabelSoftMarginLoss", (), (3, 4), shares(3, 4)),
    case("TripletMarginLoss", (), *PAIR, (3, 4)),
    case("TripletMarginWithDistanceLoss", (), *PAIR, (3, 4)),
    # lazy
    case("LazyLinear", 2, (3, 4)),
    *(case(f"LazyConv{n}d", (4, 3), BY_RANK[n]) for n in BY_RANK),
    *(case(f"LazyConvTranspose{n}d", (4, 3), BY_RANK[n]) for n in BY_RANK),
    *(case(f"LazyBatchNorm{n}d", (), BY_RANK[n]) for n in BY_RANK),
    *(case(f"LazyInstanceNorm{n}d", (), BY_RANK[n], affine=True) for n in BY_RANK),
]

# Containers, bases, and stacks of a layer that is itself in the table.
ELSEWHERE = {
    "Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "RNNBase",
    "RNNCellBase", "Sequential", "TransformerDecoder", "TransformerEncoder",
}  # fmt: skip


def label(c: Case) -> str:
    kwargs = "".join(f"-{k}={v}" for k, v in c.kwargs.items() if k != "samples")
    return f"{c.name}{kwargs}{'-' + str(c.args[0]) if c.name == 'PReLU' and c.args else ''}"


def layer_of(c: Case, **options: Any) -> Any:
    st.manual_seed(0)
    kwargs = {k: v for k, v in c.kwargs.items() if k not in ("eval", "samples")} | options
    if "samples" in c.kwargs:
        kwargs["_random_samples"] = st.rand(*c.kwargs["samples"])
    layer = getattr(nn, c.name)(*c.args, **kwargs)
    return layer.eval() if c.kwargs.get("eval") else layer


def inputs_of(c: Case, device: str) -> list[Any]:
    random = np.random.default_rng(0)
    inputs = []
    for value in c.inputs:
        if isinstance(value, tuple):
            value = random.standard_normal(value).astype(np.float32)
        x = st.tensor(value.tolist(), dtype=st.float32 if value.dtype.kind == "f" else st.int64)
        inputs.append(x.to(device))
    if inputs[0].is_floating_point():
        inputs[0].requires_grad_()
    return inputs


def tensors_in(value: Any) -> list[Any]:
    if isinstance(value, st.Tensor):
        return [value]
    return [t for v in value for t in tensors_in(v)] if isinstance(value, (tuple, list)) else []


def run(layer: Any, inputs: list[Any]) -> dict[str, Any]:
    outputs = tensors_in(layer(*inputs))
    total: Any = 0.0
    for out in outputs:
        if out.requires_grad:
            weights = np.cos(np.arange(out.numel())).reshape(tuple(out.shape))
            total = (
                total + (out * st.tensor(weights.tolist(), dtype=out.dtype).to(out.device)).sum()
            )
    if not isinstance(total, float):
        total.backward()
    results = {f"output {i}": out for i, out in enumerate(outputs)}
    results |= {f"input {i}": x.grad for i, x in enumerate(inputs) if x.requires_grad}
    results |= {f"gradient of {name}": p.grad for name, p in layer.named_parameters()}
    results |= {f"buffer {name}": b for name, b in layer.named_buffers()}
    return results


def check(c: Case) -> None:
    near = layer_of(c)
    far = copy.deepcopy(near).cuda()
    if c.name.startswith("Lazy"):  # the first forward draws the parameters
        near(*inputs_of(c, "cpu"))
        far(*inputs_of(c, "cuda"))
        for layer in (near, far):
            if hasattr(layer, "reset_running_stats"):
                layer.reset_running_stats()
        far.load_state_dict(near.state_dict())
    expected = run(near, inputs_of(c, "cpu"))
    values = run(far, inputs_of(c, "cuda"))
    assert values.keys() == expected.keys()
    for name, value in expected.items():
        if value is None:
            assert values[name] is None, name
            continue
        assert values[name].is_cuda, name
        assert values[name].dtype is value.dtype, name
        assert values[name].shape == value.shape, name
        np.testing.assert_allclose(
            values[name].detach().cpu().numpy(), value.detach().numpy(), 1e-4, 1e-5, err_msg=name
        )


@pytest.mark.parametrize("c", CASES, ids=label)
def test_outputs_and_gradients_are_the_cpu_s(cp: Any, c: Case) -> None:
    check(c)


def takes_a_device(c: Case) -> bool:
    parameters = inspect.signature(getattr(nn, c.name).__init__).parameters
    return "device" in parameters and not c.name.startswith("Lazy")


@pytest.mark.parametrize("c", [c for c in CASES if takes_a_device(c)], ids=label)
def test_a_layer_is_made_on_a_device(cp: Any, c: Case) -> None:
    layer = layer_of(c, device="cuda")
    assert all(t.is_cuda for t in (*layer.parameters(), *layer.buffers()))
    assert all(p.requires_grad for p in layer.parameters())


def test_the_table_has_every_layer() -> None:
    layers = {
        name
        for name, cls in vars(nn).items()
        if inspect.isclass(cls) and issubclass(cls, nn.Module)
    }
    assert layers - {c.name for c in CASES} == ELSEWHERE
