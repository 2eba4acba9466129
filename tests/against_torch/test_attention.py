"""Attention layers give PyTorch's numbers, gradients, keys, texts and exceptions."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import shmtensor as st

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:enable_nested_tensor|.*mismatched|.*prototype"),
]

N, L, S, E, H = 2, 4, 5, 8, 2
RNG = np.random.default_rng(7)


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def twins(make: Callable[[Any], Any], mode: str) -> tuple[Any, Any]:
    """PyTorch's layer and ours with the same parameters, none of them at its initial 0 or 1."""
    torch.manual_seed(0)
    theirs, ours = make(torch), make(st)
    with torch.no_grad():
        for p in theirs.parameters():
            p.copy_(torch.randn(p.shape) * 0.4)
    state = {name: st.tensor(x.numpy().copy()) for name, x in theirs.state_dict().items()}
    ours.load_state_dict(state)
    for layer in (theirs, ours):
        layer.train(mode == "train")
    return theirs, ours


def converted(lib: Any, x: Any, leaves: list[Any] | None = None) -> Any:
    if not isinstance(x, np.ndarray):
        return x
    tensor = lib.tensor(x.copy())
    if leaves is not None and x.dtype == np.float32:
        leaves.append(tensor.requires_grad_())
    return tensor


def results(lib: Any, layer: Any, mode: str, inputs: Any, kwargs: Any) -> list[Any]:
    """Outputs, then gradients of inputs and parameters unless mode is "no_grad"."""
    leaves: list[Any] = []
    kinds: dict[int, Any] = {}
    for x in inputs:  # an array given twice is one tensor
        kinds.setdefault(id(x), converted(lib, x, None if mode == "no_grad" else leaves))
    arguments = [kinds[id(x)] for x in inputs]
    with lib.set_grad_enabled(mode != "no_grad"):
        out = layer(*arguments, **{name: converted(lib, x) for name, x in kwargs.items()})
    outs = [x for x in (out if isinstance(out, tuple) else (out,)) if x is not None]
    if mode != "no_grad":
        for p in layer.parameters():
            p.grad = None
        sum((x * x).sum() for x in outs).backward()
    grads = [x.grad for x in (*leaves, *layer.parameters())] if mode != "no_grad" else []
    return [x if x is None else x.detach().numpy() for x in (*outs, *grads)]


def check(x: Any, y: Any, i: int = 0) -> None:
    """Ours is PyTorch's, and finite where PyTorch's is NaN: a query that sees no key has weights of
    0 here in every mode, there in some.
    """
    known = ~np.isnan(y)
    assert x.shape == y.shape, i
    assert np.isfinite(x).all(), i
    assert np.allclose(x[known], y[known], rtol=1e-3, atol=1e-4), i


def compare(make: Callable[[Any], Any], mode: str, inputs: Any, kwargs: Any) -> None:
    theirs, ours = twins(make, mode)
    expected = results(torch, theirs, mode, inputs, kwargs)
    result = results(st, ours, mode, inputs, kwargs)
    assert len(result) == len(expected)
    for i, (x, y) in enumerate(zip(result, expected)):
        if y is None or x is None:
            assert all(z is None or not z.any() for z in (x, y)), i
        else:
            check(x, y, i)


def infinite(mask: np.ndarray) -> np.ndarray:
    return np.where(mask, -np.inf, 0).astype("float32")


@pytest.fixture(autouse=True)
def inference_kernel(request: pytest.FixtureRequest) -> Iterator[None]:
    """PyTorch's inference kernel does not follow a causal hint (docs/known-limits.md)."""
    torch.backends.mha.set_fastpath_enabled("hint of" not in request.node.name)
    yield
    torch.backends.mha.set_fastpath_enabled(True)


QUERY, KEY, VALUE = numbers(L, N, E), numbers(S, N, E), numbers(S, N, E)
BLOCK = np.zeros((L, L), bool)
BLOCK[0, 1:] = BLOCK[2, 0] = BLOCK[3] = True
BLOCK[3, 1] = False
BLIND = BLOCK.copy()
BLIND[1] = True
PADDING = np.array([[False] * 3 + [True], [False] * 4])
NOTHING = np.array([[True] * 4, [False] * 3 + [True]])
CAUSAL = np.triu(np.ones((L, L), bool), 1)
MASKS: dict[str, dict[str, Any]] = {
    "none": {},
    "bool": {"attn_mask": BLOCK},
    "blind": {"attn_mask": BLIND},
    "float": {"attn_mask": numbers(L, L)},
    "float blind": {"attn_mask": infinite(BLIND)},
    "3-D": {"attn_mask": numbers(N * H, L, L)},
    "3-D bool": {"attn_mask": np.stack([BLOCK, CAUSAL] * N)},
    "padding": {"key_padding_mask": PADDING},
    "nothing": {"key_padding_mask": NOTHING},
    "float padding": {"key_padding_mask": numbers(N, L)},
    "both": {"attn_mask": BLOCK, "key_padding_mask": PADDING},
    "both floats": {"attn_mask": numbers(L, L), "key_padding_mask": infinite(PADDING)},
    "both kinds": {"attn_mask": BLOCK, "key_padding_mask": infinite(PADDING)},
    "causal": {"attn_mask": CAUSAL, "is_causal": True},
    "causal float": {"attn_mask": infinite(CAUSAL), "is_causal": True},
    "hint of a wrong mask": {"attn_mask": BLOCK, "is_causal": True},
}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "batch_first": {"batch_first": True},
    "odd": {"batch_first": True, "num_heads": 1},
    "no bias": {"bias": False, "batch_first": True},
    "bias_kv": {"add_bias_kv": True, "add_zero_attn": True},
    "zero": {"add_zero_attn": True, "batch_first": True},
}
MODES = ("train", "eval", "no_grad")
FEW = ("none", "both", "float blind", "3-D", "causal")


def pairs(masks: Any, options: Any, few: tuple[str, ...] = FEW) -> pytest.MarkDecorator:
    """Every mask with batch_first, as PyTorch's inference kernel needs; a few without it."""
    return pytest.mark.parametrize(
        ("masks", "options"),
        [(m, o) for m in masks for o in options if o == "batch_first" or m in few],
    )


def attention(lib: Any, **options: Any) -> Any:
    options = {"embed_dim": E, "num_heads": H, **options}
    return lib.nn.MultiheadAttention(**options)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pairs(MASKS, OPTIONS)
def test_self_attention(masks: str, options: str, mode: str, need_weights: bool) -> None:
    heads = OPTIONS[options].get("num_heads", H)
    kwargs = dict(MASKS[masks])
    mask = kwargs.get("attn_mask")
    if mask is not None and mask.ndim == 3:
        kwargs["attn_mask"] = mask[: N * heads]
    if "bias_kv" in options or options == "zero":  # a causal hint and further keys: an error
        kwargs.pop("is_causal", None)
    x = QUERY.swapaxes(0, 1) if OPTIONS[options].get("batch_first") else QUERY
    kwargs["need_weights"] = need_weights
    compare(lambda lib: attention(lib, **OPTIONS[options]), mode, [x] * 3, kwargs)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("sizes", [{}, {"kdim": 6, "vdim": 3}])
@pytest.mark.parametrize("batch_first", [True, False])
def test_other_keys_and_values(
    mode: str, average: bool, sizes: dict[str, int], batch_first: bool
) -> None:
    key, value = KEY[..., : sizes.get("kdim", E)], VALUE[..., : sizes.get("vdim", E)]
    inputs = [x.swapaxes(0, 1) if batch_first else x for x in (QUERY, key, value)]
    kwargs = {"average_attn_weights": average, "attn_mask": numbers(L, S)}
    compare(lambda lib: attention(lib, batch_first=batch_first, **sizes), mode, inputs, kwargs)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("masks", ["none", "bool", "float", "causal"])
def test_one_sequence(masks: str, mode: str) -> None:
    compare(lambda lib: attention(lib, batch_first=True), mode, [QUERY[:, 0]] * 3, MASKS[masks])
    padding = {"key_padding_mask": PADDING[0]}
    compare(lambda lib: attention(lib), mode, [QUERY[:, 0]] * 3, padding)


LAYERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "batch_first": {"batch_first": True},
    "norm_first": {"batch_first": True, "norm_first": True, "activation": "gelu"},
    "no bias": {"bias": False, "activation": "relu", "batch_first": True},
    "eps": {"layer_norm_eps": 0.1},
}


def layer(lib: Any, kind: str, **options: Any) -> Any:
    return getattr(lib.nn, kind)(E, H, 6, dropout=0.0, **options)


def renamed(masks: dict[str, Any], mask: str, padding: str, causal: str) -> dict[str, Any]:
    names = {"attn_mask": mask, "key_padding_mask": padding, "is_causal": causal}
    return {names[name]: x for name, x in masks.items()}


# with these PyTorch's fused kernel treats every nonzero number as -infinity
FINITE = {"float", "3-D", "float padding", "both floats"}


@pytest.mark.parametrize("mode", MODES)
@pairs(MASKS, LAYERS)
def test_encoder_layer(masks: str, options: str, mode: str) -> None:
    batch_first = LAYERS[options].get("batch_first", False)
    if mode == "no_grad" and batch_first and masks in FINITE and options != "no bias":
        pytest.skip("PyTorch does not add these numbers")
    x = QUERY.swapaxes(0, 1) if batch_first else QUERY
    kwargs = renamed(MASKS[masks], "src_mask", "src_key_padding_mask", "is_causal")
    compare(lambda lib: layer(lib, "TransformerEncoderLayer", **LAYERS[options]), mode, [x], kwargs)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("masks", ["float", "float padding", "both floats"])
def test_finite_numbers_are_added_in_each_mode(masks: str, mode: str) -> None:
    kwargs = renamed(MASKS[masks], "src_mask", "src_key_padding_mask", "is_causal")
    theirs, ours = twins(lambda lib: layer(lib, "TransformerEncoderLayer", batch_first=True), mode)
    x = QUERY.swapaxes(0, 1)
    (expected,) = results(torch, theirs, "train", [x], kwargs)[:1]
    (result,) = results(st, ours, mode, [x], kwargs)[:1]
    assert np.allclose(result, expected, atol=1e-4)


@pytest.mark.parametrize("mode", MODES)
@pairs(MASKS, LAYERS)
def test_decoder_layer(masks: str, options: str, mode: str) -> None:
    inputs = [QUERY, KEY]
    if LAYERS[options].get("batch_first"):
        inputs = [x.swapaxes(0, 1) for x in inputs]
    kwargs = renamed(MASKS[masks], "tgt_mask", "tgt_key_padding_mask", "tgt_is_causal")
    if "causal" not in masks:
        kwargs["memory_mask"] = numbers(L, S)
        kwargs["memory_key_padding_mask"] = infinite(np.arange(N * S).reshape(N, S) % S == 2)
    compare(
        lambda lib: layer(lib, "TransformerDecoderLayer", **LAYERS[options]), mode, inputs, kwargs
    )


ENCODED: dict[str, dict[str, Any]] = {
    "none": {},
    "at the end": {"src_key_padding_mask": PADDING},
    "as numbers": {"src_key_padding_mask": infinite(PADDING)},
    "all short": {"src_key_padding_mask": np.array([[False, False, True, True]] * 2)},
    "nothing left": {"src_key_padding_mask": NOTHING},
    "in the middle": {"src_key_padding_mask": PADDING[:, ::-1].copy()},
    "mask": {"mask": BLOCK},
    "causal": {"mask": infinite(CAUSAL)},
    "both": {"mask": BLOCK, "src_key_padding_mask": PADDING},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("nested", [{}, {"enable_nested_tensor": False}, {"mask_check": False}])
@pairs(ENCODED, ["batch_first", "norm_first", "plain"], ("none", "at the end", "both"))
def test_encoder(masks: str, options: str, nested: dict[str, bool], mode: str) -> None:
    def make(lib: Any) -> Any:
        one = layer(lib, "TransformerEncoderLayer", **LAYERS[options])
        return lib.nn.TransformerEncoder(one, 2, lib.nn.LayerNorm(E), **nested)

    x = QUERY.swapaxes(0, 1) if LAYERS[options].get("batch_first") else QUERY
    compare(make, mode, [x], ENCODED[masks])


def test_the_switch_of_padded_positions() -> None:
    """Without PyTorch's inference kernels an encoder computes padded positions, too."""

    def make(lib: Any) -> Any:
        return lib.nn.TransformerEncoder(layer(lib, "TransformerEncoderLayer", batch_first=True), 2)

    inputs = [QUERY.swapaxes(0, 1)]
    padding = {"src_key_padding_mask": PADDING}
    ours = twins(make, "eval")[1]
    assert not results(st, ours, "no_grad", inputs, padding)[0][0, 3].any()
    for lib in (torch, st):
        lib.backends.mha.set_fastpath_enabled(False)
    try:
        assert not st.backends.mha.get_fastpath_enabled()
        assert results(st, ours, "no_grad", inputs, padding)[0][0, 3].all()
        compare(make, "no_grad", inputs, padding)
    finally:
        for lib in (torch, st):
            lib.backends.mha.set_fastpath_enabled(True)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "options", [{}, {"batch_first": True}, {"norm_first": True, "bias": False}]
)
@pytest.mark.parametrize("masked", [True, False])
def test_transformer(masked: bool, options: dict[str, bool], mode: str) -> None:
    def make(lib: Any) -> Any:
        return lib.nn.Transformer(E, H, 2, 2, 6, dropout=0.0, **options)

    inputs = [QUERY, KEY]
    if options.get("batch_first"):
        inputs = [x.swapaxes(0, 1) for x in inputs]
    masks = {"tgt_mask": np.triu(np.ones((S, S), bool), 1), "src_key_padding_mask": PADDING,
             "memory_key_padding_mask": PADDING, "memory_mask": numbers(S, L)}  # fmt: skip
    compare(make, mode, inputs, masks if masked else {})


MADE: dict[str, Callable[[Any], Any]] = {
    "attention": lambda lib: attention(lib, add_bias_kv=True),
    "sizes": lambda lib: attention(lib, kdim=3, vdim=5, bias=False),
    "encoder layer": lambda lib: layer(
        lib, "TransformerEncoderLayer", activation=lib.nn.GELU(), batch_first=True
    ),
    "decoder layer": lambda lib: layer(lib, "TransformerDecoderLayer", bias=False),
    "transformer": lambda lib: lib.nn.Transformer(E, H, 2, 1, 6),
}


@pytest.mark.parametrize("name", MADE)
def test_keys_and_text(name: str) -> None:
    theirs, ours = MADE[name](torch), MADE[name](st)
    assert repr(ours) == repr(theirs)
    expected, actual = theirs.state_dict(), ours.state_dict()
    assert list(actual) == list(expected)
    assert [tuple(x.shape) for x in actual.values()] == [tuple(x.shape) for x in expected.values()]
    assert actual._metadata == expected._metadata
    for p, q in zip(ours.parameters(), theirs.parameters()):
        assert bool((p == 0).all()) == bool((q == 0).all())
        assert bool((p == 1).all()) == bool((q == 1).all())
        assert (
            p.numel() < 40 or abs(p.numpy(force=True).std() / q.numpy(force=True).std() - 1) < 0.35
        )


def test_a_file_of_pytorch_is_loaded() -> None:
    theirs, ours = MADE["transformer"](torch), MADE["transformer"](st)
    file = io.BytesIO()
    torch.save(theirs.state_dict(), file)
    file.seek(0)
    ours.load_state_dict(st.load(file))
    for p, q in zip(ours.parameters(), theirs.parameters()):
        assert np.array_equal(p.detach().numpy(), q.detach().numpy())
    assert copy.deepcopy(ours).state_dict().keys() == theirs.state_dict().keys()


BOOL = np.zeros((L, L), bool)
X = QUERY
CALLS: dict[str, Callable[[Any], Any]] = {
    "heads": lambda lib: attention(lib, embed_dim=7),
    "no size": lambda lib: attention(lib, embed_dim=0),
    "negative": lambda lib: attention(lib, num_heads=-2),
    "activation": lambda lib: layer(lib, "TransformerEncoderLayer", activation="tanh"),
    "size": lambda lib: call(lib, attention(lib), X[..., :6]),
    "mask's shape": lambda lib: call(lib, attention(lib), X, attn_mask=BOOL[:3]),
    "3-D mask": lambda lib: call(lib, attention(lib), X, attn_mask=np.stack([BOOL] * 3)),
    "1-D mask": lambda lib: call(lib, attention(lib), X, attn_mask=BOOL[0]),
    "padding's shape": lambda lib: call(lib, attention(lib), X, key_padding_mask=BOOL[:2, :3]),
    "padding's rank": lambda lib: call(lib, attention(lib), X, key_padding_mask=BOOL[0]),
    "integers": lambda lib: call(lib, attention(lib), X, attn_mask=BOOL.astype("int64")),
    "4-D": lambda lib: call(lib, attention(lib), X[None]),
    "hint": lambda lib: call(lib, attention(lib), X, is_causal=True),
    "double": lambda lib: call(lib, attention(lib), X.astype("float64")),
    "double mask": lambda lib: call(lib, attention(lib), X, attn_mask=BOOL.astype("float64")),
    "double mask, no weights": lambda lib: call(
        lib, attention(lib), X, attn_mask=BOOL.astype("float64"), need_weights=False
    ),
    "fast mask": lambda lib: call(lib, fast(lib), X, attn_mask=BOOL[:3]),
    "fast 3-D mask": lambda lib: call(lib, fast(lib), X, attn_mask=np.stack([BOOL] * 3)),
    "fast integers": lambda lib: call(lib, fast(lib), X, attn_mask=BOOL.astype("int64")),
    "fast double": lambda lib: call(lib, fast(lib), X.astype("float64")),
    "batch": lambda lib: lib.nn.Transformer(E, H, 1, 1, 6)(lib.zeros(L, 2, E), lib.zeros(L, 3, E)),
    "features": lambda lib: lib.nn.Transformer(E, H, 1, 1, 6)(
        lib.zeros(L, 2, E), lib.zeros(L, 2, E + 2)
    ),
    "layer's mask": lambda lib: layer(lib, "TransformerEncoderLayer")(
        lib.zeros(L, 2, E), src_mask=lib.zeros(L, L, dtype=lib.int64)
    ),
}


def fast(lib: Any) -> Any:
    return attention(lib, batch_first=True).eval()


def call(lib: Any, layer: Any, x: np.ndarray, **kwargs: Any) -> Any:
    tensor = lib.tensor(x.swapaxes(0, 1) if layer.batch_first else x)
    with lib.set_grad_enabled(layer.training):
        return layer(tensor, tensor, tensor, **{n: converted(lib, y) for n, y in kwargs.items()})


@pytest.mark.parametrize("name", CALLS)
def test_wrong_use_raises_pytorchs_class(name: str) -> None:
    classes = []
    for lib in (torch, st):
        with pytest.raises(Exception) as caught:
            CALLS[name](lib)
        classes.append(caught.type.__name__)
    assert classes[0] == classes[1]


def test_a_fully_masked_query_gives_the_same_with_and_without_a_hook() -> None:
    """PyTorch's inference kernel, which a hook turns off, gives NaN."""
    kwargs = {"src_mask": BLIND}
    theirs, ours = twins(
        lambda lib: layer(lib, "TransformerEncoderLayer", batch_first=True), "eval"
    )
    x = [QUERY.swapaxes(0, 1)]
    without = results(st, ours, "no_grad", x, kwargs)[0]
    calls: list[str] = []
    outs = []
    for lib, one in ((torch, theirs), (st, ours)):
        one.linear1.register_forward_hook(lambda *_: calls.append("called"))
        outs += results(lib, one, "no_grad", x, kwargs)
    assert len(calls) == 2
    assert np.allclose(without, outs[1], atol=1e-6)
    check(outs[1], outs[0])


@pytest.mark.parametrize("need_weights", [True, False])
def test_evaluation_is_training_without_dropout(need_weights: bool) -> None:
    """Also the errors, for which PyTorch's inference kernel has another class."""
    outs, errors = [], []
    for mode in MODES:
        ours = twins(lambda lib: attention(lib, batch_first=True), mode)[1]
        kwargs = {"attn_mask": BLIND, "need_weights": need_weights}
        outs.append(results(st, ours, mode, [QUERY.swapaxes(0, 1)] * 3, kwargs)[0])
        for x, padding in ((QUERY[..., :6], None), (QUERY, BLOCK[:2, :2])):
            with pytest.raises(AssertionError) as caught:
                call(st, ours, x, key_padding_mask=padding)
            errors.append(str(caught.value))
    assert np.isfinite(outs[0]).all()
    assert (outs[0] == outs[1]).all()
    assert (outs[0] == outs[2]).all()
    assert errors == errors[:2] * 3


def test_warnings_are_pytorchs() -> None:
    """The same calls warn, in both libraries."""
    counts = []
    for lib in (torch, st):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            one = layer(lib, "TransformerEncoderLayer")
            encoder = lib.nn.TransformerEncoder(one, 1)
            x = lib.zeros(L, N, E)
            encoder(x, mask=lib.zeros(L, L), src_key_padding_mask=lib.zeros(N, L) != 0)
        counts.append([str(w.message).split()[0] for w in caught])
    assert counts[0] == counts[1]
