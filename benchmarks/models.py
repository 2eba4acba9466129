"""Training steps of the examples' networks, from the source of examples/, in both libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

from .harness.case import Build, Case, compare
from .load_example import load


def step(example: str, sizes: dict[str, Any], *batch: Any) -> Build:
    """One update per call, from the same batch: arrays, or lists of them."""

    def build(st: Any) -> Any:
        module = load(example, st.__name__)
        model = module.make_model(**sizes)
        optimizer = module.make_optimizer(model)
        tensors = [
            [st.tensor(part) for part in x] if isinstance(x, list) else st.tensor(x) for x in batch
        ]
        return lambda: module.train_step(model, optimizer, *tensors)

    return build


rng = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return rng.random(shape, np.float32)


def integers(below: int, *shape: int) -> np.ndarray:
    return rng.integers(0, below, shape)


def sentences(n: int) -> list[np.ndarray]:
    return [integers(32, int(length)) for length in rng.integers(4, 9, n)]


WORDS = integers(3000, 32, 33)
EDGES = np.unique(np.concatenate([integers(1797, 2, 12000), [np.arange(1797)] * 2], 1), axis=1)
GRAPH = (floats(1797, 64), EDGES, integers(10, 1797), integers(1797, 100))
PAIRS = (floats(64, 1, 8, 8), floats(64, 1, 8, 8), np.ones(64, np.float32))
EPISODE = (floats(200, 4), integers(2, 200), floats(200))

MODELS: list[tuple[str, str, dict[str, Any], tuple[Any, ...]]] = [
    ("CNN, 64 digits", "digits_cnn", {}, (floats(64, 1, 8, 8), integers(10, 64))),
    ("ResNet-18, 4 x 224^2", "resnet18", {}, (floats(4, 3, 224, 224), integers(1000, 4))),
    ("LSTM of words, 32 x 32", "word_language_model", {"kind": "lstm"}, (WORDS,)),
    ("GRU of words, 32 x 32", "word_language_model", {"kind": "gru"}, (WORDS,)),
    ("Transformer of words, 32 x 32", "word_language_model", {"kind": "transformer"}, (WORDS,)),
    ("GPT, 16 x 128", "gpt", {}, (integers(128, 16, 129),)),
    (
        "vision transformer, 64 digits",
        "vision_transformer",
        {},
        (floats(64, 1, 8, 8), integers(10, 64)),
    ),
    ("VAE, 64 digits", "vae", {}, (floats(64, 64),)),
    ("DCGAN, 64 digits", "dcgan", {}, (floats(64, 1, 16, 16),)),
    ("super-resolution, 8 x 96^2", "super_resolution", {}, (floats(8, 3, 96, 96),)),
    ("style transfer, 64^2", "style_transfer", {}, (floats(1, 3, 64, 64), floats(1, 3, 64, 64))),
    ("LSTM of a series, 32 x 100", "time_series", {}, (floats(32, 101),)),
    ("Siamese network, 64 pairs", "siamese", {}, PAIRS),
    ("sentence pairs, 32", "sentence_pairs", {}, (sentences(32), sentences(32), integers(3, 32))),
    ("graph convolution, 1,797 nodes", "graph_networks", {"kind": "convolution"}, GRAPH),
    ("graph attention, 1,797 nodes", "graph_networks", {"kind": "attention"}, GRAPH),
    ("actor and critic, 200 steps", "cart_pole", {"method": "actor_critic"}, EPISODE),
]

# Cases of the short run.
QUICK = ("CNN, 64 digits", "GPT, 16 x 128", "LSTM of words, 32 x 32")

AT_MOST = {
    "CNN, 64 digits": 0.6,
    "LSTM of words, 32 x 32": 0.7,
    "Transformer of words, 32 x 32": 0.7,
}

CASES = [
    Case(
        f"models/{name}",
        compare(step(example, sizes, *batch)),
        AT_MOST.get(name),
        slow=True,
        wide=name not in QUICK,
    )
    for name, example, sizes, batch in MODELS
]
