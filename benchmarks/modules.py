"""Every layer of nn.modules once: forward with backward, at a realistic size."""

from __future__ import annotations

from typing import Any

from .harness.case import Build, Case, compare

__all__ = ["CASES"]


def module(name: str, arguments: tuple[Any, ...], *shapes: tuple[int, ...], **kwargs: Any) -> Build:
    """Forward and backward of `nn.name(*arguments, **kwargs)` in training mode."""

    def build(st: Any) -> Any:
        layer = getattr(st.nn, name)(*arguments, **kwargs)
        inputs = [st.rand(*shape) for shape in shapes]
        for x in inputs:
            x.requires_grad_(True)
        leaves = [*inputs, *layer.parameters()]

        def run() -> None:
            out = layer(*inputs)
            (out[0] if isinstance(out, tuple) else out).sum().backward()
            for x in leaves:
                x.grad = None

        return run

    return build


def loss(name: str, *shapes: tuple[int, ...], target: Any = None, **kwargs: Any) -> Build:
    """Forward and backward of a loss; `target(st)` is made once."""

    def build(st: Any) -> Any:
        function = getattr(st.nn, name)(**kwargs)
        inputs = [st.rand(*shape) for shape in shapes]
        for x in inputs:
            x.requires_grad_(True)
        targets = () if target is None else target(st)

        def run() -> None:
            function(*inputs, *targets).backward()
            for x in inputs:
                x.grad = None

        return run

    return build


ROW, IMAGE, VOLUME, LINE = (256, 512), (8, 32, 28, 28), (2, 16, 12, 14, 14), (16, 32, 256)
CHANNELS = "channels"
BY_DIMENSION = {1: LINE, 2: IMAGE, 3: VOLUME}
WORDS = (32, 16, 128)  # (time, batch, features)

ACTIVATIONS = (
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "ReLU", "ReLU6", "RReLU", "SELU", "SiLU",
    "Sigmoid", "Softmax", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink",
)  # fmt: skip
WITH_DIM = {"LogSoftmax", "Softmax", "Softmin"}


def dimensions(name: str, *arguments: Any, **kwargs: Any) -> list[tuple[str, Build]]:
    """name1d, name2d and name3d; CHANNELS is replaced by the input's channels."""
    rows = []
    for d, shape in BY_DIMENSION.items():
        args = tuple(shape[1] if x is CHANNELS else x for x in arguments)
        rows.append((f"{name}{d}d", module(f"{name}{d}d", args, shape, **kwargs)))
    return rows


def classes(n: int, count: int) -> Any:
    return lambda st: (st.arange(count) % n,)


MODULES: list[tuple[str, Build]] = [
    *((n, module(n, (), ROW, **({"dim": 1} if n in WITH_DIM else {}))) for n in ACTIVATIONS),
    ("Threshold", module("Threshold", (0.5, 0.0), ROW)),
    ("Softmax2d", module("Softmax2d", (), IMAGE)),
    ("MultiheadAttention", module("MultiheadAttention", (128, 4), WORDS, WORDS, WORDS)),
    *dimensions("Conv", CHANNELS, 32, 3, padding=1),
    *dimensions("ConvTranspose", CHANNELS, 16, 3),
    *dimensions("BatchNorm", CHANNELS),
    *dimensions("InstanceNorm", CHANNELS),
    *dimensions("MaxPool", 2),
    *dimensions("AvgPool", 2),
    *dimensions("LPPool", 2, 2),
    *dimensions("AdaptiveAvgPool", 5),
    *dimensions("AdaptiveMaxPool", 5),
    *dimensions("ZeroPad", 2),
    *dimensions("ConstantPad", 2, 1.0),
    *dimensions("ReflectionPad", 2),
    *dimensions("ReplicationPad", 2),
    *dimensions("CircularPad", 2),
    *dimensions("Dropout"),
    ("FractionalMaxPool2d", module("FractionalMaxPool2d", (2, 14), IMAGE)),
    ("FractionalMaxPool3d", module("FractionalMaxPool3d", (2, 6), VOLUME)),
    ("GroupNorm", module("GroupNorm", (8, 32), IMAGE)),
    ("LayerNorm", module("LayerNorm", (512,), ROW)),
    ("RMSNorm", module("RMSNorm", (512,), ROW)),
    ("LocalResponseNorm", module("LocalResponseNorm", (5,), IMAGE)),
    ("CrossMapLRN2d", module("CrossMapLRN2d", (5,), IMAGE)),
    ("Upsample", module("Upsample", (), IMAGE, scale_factor=2)),
    ("UpsamplingBilinear2d", module("UpsamplingBilinear2d", (), IMAGE, scale_factor=2)),
    ("UpsamplingNearest2d", module("UpsamplingNearest2d", (), IMAGE, scale_factor=2)),
    ("PixelShuffle", module("PixelShuffle", (2,), IMAGE)),
    ("PixelUnshuffle", module("PixelUnshuffle", (2,), IMAGE)),
    ("ChannelShuffle", module("ChannelShuffle", (4,), IMAGE)),
    ("Fold", module("Fold", (28, 3), (8, 36, 676))),
    ("Unfold", module("Unfold", (3,), IMAGE)),
    ("Flatten", module("Flatten", (), IMAGE)),
    ("Unflatten", module("Unflatten", (1, (16, 32)), ROW)),
    ("Identity", module("Identity", (), ROW)),
    ("Dropout", module("Dropout", (), ROW)),
    ("AlphaDropout", module("AlphaDropout", (), ROW)),
    ("FeatureAlphaDropout", module("FeatureAlphaDropout", (), IMAGE)),
    ("Linear", module("Linear", (512, 256), ROW)),
    ("Bilinear", module("Bilinear", (32, 32, 16), (128, 32), (128, 32))),
    ("RNN", module("RNN", (128, 128), WORDS)),
    ("LSTM", module("LSTM", (128, 128), WORDS)),
    ("GRU", module("GRU", (128, 128), WORDS)),
    ("RNNCell", module("RNNCell", (128, 128), (16, 128))),
    ("LSTMCell", module("LSTMCell", (128, 128), (16, 128))),
    ("GRUCell", module("GRUCell", (128, 128), (16, 128))),
    ("TransformerEncoderLayer", module("TransformerEncoderLayer", (128, 4, 256), WORDS)),
    ("TransformerDecoderLayer", module("TransformerDecoderLayer", (128, 4, 256), WORDS, WORDS)),
    ("Transformer", module("Transformer", (64, 4, 2, 2, 128), (20, 8, 64), (20, 8, 64))),
    ("CosineSimilarity", module("CosineSimilarity", (), ROW, ROW)),
    ("PairwiseDistance", module("PairwiseDistance", (), ROW, ROW)),
]

TARGET = {"target": lambda st: (st.rand(*ROW),)}
SIGNS = {"target": lambda st: (st.ones(256),)}
LOSSES: list[tuple[str, Build]] = [
    *((n, loss(n, ROW, **TARGET)) for n in ("L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss")),
    *((n, loss(n, ROW, **TARGET)) for n in ("BCELoss", "BCEWithLogitsLoss", "PoissonNLLLoss")),
    *((n, loss(n, ROW, **TARGET)) for n in ("SoftMarginLoss", "HingeEmbeddingLoss")),
    ("KLDivLoss", loss("KLDivLoss", ROW, reduction="batchmean", **TARGET)),
    ("MultiLabelSoftMarginLoss", loss("MultiLabelSoftMarginLoss", ROW, **TARGET)),
    ("GaussianNLLLoss", loss("GaussianNLLLoss", ROW, ROW, ROW)),
    *(
        (n, loss(n, ROW, target=classes(512, 256)))
        for n in ("CrossEntropyLoss", "NLLLoss", "MultiMarginLoss")
    ),
    ("CosineEmbeddingLoss", loss("CosineEmbeddingLoss", ROW, ROW, **SIGNS)),
    ("MarginRankingLoss", loss("MarginRankingLoss", (256,), (256,), **SIGNS)),
    (
        "MultiLabelMarginLoss",
        loss(
            "MultiLabelMarginLoss",
            ROW,
            target=lambda st: (st.where(st.arange(512) < 8, st.arange(512), -1).repeat(256, 1),),
        ),
    ),
    ("TripletMarginLoss", loss("TripletMarginLoss", ROW, ROW, ROW)),
    ("TripletMarginWithDistanceLoss", loss("TripletMarginWithDistanceLoss", ROW, ROW, ROW)),
    (
        "CTCLoss",
        loss(
            "CTCLoss",
            (50, 16, 20),
            target=lambda st: (
                st.ones(16, 10, dtype=st.int64),
                st.full((16,), 50),
                st.full((16,), 10),
            ),
        ),
    ),
]


def embedding(name: str) -> Build:
    """1,000 look-ups in a table of 10,000 x 64."""

    def build(st: Any) -> Any:
        layer = getattr(st.nn, name)(10_000, 64)
        indices = (st.arange(1000) * 37 % 10_000).reshape(100, 10)

        def run() -> None:
            layer(indices).sum().backward()
            layer.weight.grad = None

        return run

    return build


def unpool(d: int) -> Build:
    def build(st: Any) -> Any:
        pool = getattr(st.nn, f"MaxPool{d}d")(2, return_indices=True)
        layer = getattr(st.nn, f"MaxUnpool{d}d")(2)
        values, indices = pool(st.rand(*BY_DIMENSION[d]))
        values.requires_grad_(True)

        def run() -> None:
            layer(values, indices).sum().backward()
            values.grad = None

        return run

    return build


def adaptive_softmax(st: Any) -> Any:
    layer = st.nn.AdaptiveLogSoftmaxWithLoss(128, 2000, [200, 800])
    x, y = st.rand(256, 128), st.arange(256) * 7 % 2000

    def run() -> None:
        layer(x, y).loss.backward()
        layer.zero_grad()

    return run


def linear_cross_entropy(st: Any) -> Any:
    """A linear layer to 2,000 classes and its cross entropy, of 256 rows."""
    layer = st.nn.LinearCrossEntropyLoss(128, 2000)
    x, y = st.rand(256, 128), st.arange(256) * 7 % 2000

    def run() -> None:
        layer(x, y).backward()
        layer.zero_grad()

    return run


def stack(kind: str) -> Build:
    """Two layers of a Transformer's encoder or decoder."""

    def build(st: Any) -> Any:
        nn = st.nn
        layer = getattr(nn, f"Transformer{kind}Layer")(128, 4, 256)
        layers = getattr(nn, f"Transformer{kind}")(layer, 2)
        inputs = [st.rand(*WORDS) for _ in range(2 if kind == "Decoder" else 1)]

        def run() -> None:
            layers(*inputs).sum().backward()
            layers.zero_grad()

        return run

    return build


OTHERS = [
    ("Embedding", embedding("Embedding")),
    ("EmbeddingBag", embedding("EmbeddingBag")),
    *((f"MaxUnpool{d}d", unpool(d)) for d in (1, 2, 3)),
    ("AdaptiveLogSoftmaxWithLoss", adaptive_softmax),
    ("LinearCrossEntropyLoss", linear_cross_entropy),
    ("TransformerEncoder", stack("Encoder")),
    ("TransformerDecoder", stack("Decoder")),
]

CASES = [
    Case(f"modules/{name}", compare(build), slow=True, wide=True)
    for name, build in MODULES + LOSSES + OTHERS
]
