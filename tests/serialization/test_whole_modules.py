"""Whole modules load with weights_only=True if the user's and nn's classes are trusted: no class of
the inside is asked for, and one that nobody named is refused."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn.parameter import is_lazy
from shmtensor.serialization import safe_globals

# Arguments of the layers that do not take (), (2,), (2, 3), (2, 3, 2) or (2, 3, 1).
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "AdaptiveLogSoftmaxWithLoss": (8, 10, [4]), "Embedding": (5, 3), "EmbeddingBag": (5, 3),
    "Fold": ((4, 4), 2), "GroupNorm": (2, 4), "LazyLinear": (4,), "ModuleDict": ({"a": nn.ReLU()},),
    "ModuleList": ([nn.ReLU(), nn.Linear(2, 2)],), "MultiheadAttention": (4, 2),
    "ParameterDict": ({"a": nn.Parameter(st.ones(2))},),
    "ParameterList": ([nn.Parameter(st.ones(2))],), "Sequential": (nn.Linear(2, 2), nn.ReLU()),
    "Threshold": (0.1, 2.0), "TransformerDecoderLayer": (8, 2),
    "TransformerDecoder": (nn.TransformerDecoderLayer(8, 2), 1), "Unflatten": (1, (2, 2)),
    "TransformerEncoder": (nn.TransformerEncoderLayer(8, 2), 1, None, False),
    "TransformerEncoderLayer": (8, 2), "Upsample": (None, 2), "UpsamplingBilinear2d": (None, 2),
    "UpsamplingNearest2d": (None, 2), "Bilinear": (2, 3, 4),
}  # fmt: skip
ABSTRACT = {"Module", "RNNBase", "RNNCellBase"}
LAYERS = sorted(
    name
    for name in dir(nn)
    if inspect.isclass(layer := getattr(nn, name))
    and issubclass(layer, nn.Module)
    and name not in ABSTRACT
)


class Model(nn.Module):
    """What programs put into a module beside a layer."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.device, self.dtype, self.size = st.device("cpu"), st.float32, st.ones(2, 3).shape
        self.format, self.options = st.channels_last, {"a": (1, 2.5), "b": {3}}
        self.register_buffer("hidden", st.ones(2), persistent=False)


def hook(*args: Any, **kwargs: Any) -> None:
    """A hook of the user."""


def make(name: str) -> nn.Module:
    layer = getattr(nn, name)
    if name in ARGUMENTS:
        return layer(*ARGUMENTS[name])
    if name == "Transformer":
        return layer(8, 2, 1, 1, 8, batch_first=True)
    if name.startswith("FractionalMaxPool"):
        return layer(2, output_size=2)
    for arguments in ((), (2,), (2, 3), (2, 3, 2), (2, 3, 1)):
        try:
            return layer(*arguments)
        except (TypeError, ValueError):
            pass
    raise AssertionError(name)


def saved(model: nn.Module) -> bytes:
    file = io.BytesIO()
    st.save(model, file)
    return file.getvalue()


def loaded(data: bytes, trusted: list[Any]) -> Any:
    with safe_globals(trusted):
        return st.load(io.BytesIO(data), weights_only=True)


@pytest.mark.parametrize("has_hooks", [False, True], ids=["", "hooks"])
@pytest.mark.parametrize("name", LAYERS)
def test_a_saved_layer_asks_for_its_own_classes_alone(name: str, has_hooks: bool) -> None:
    layer = make(name)
    model = Model(layer)
    if has_hooks:
        layer.register_forward_hook(hook)
        layer.register_forward_pre_hook(hook, with_kwargs=True)
        layer.register_full_backward_hook(hook)
        layer.register_state_dict_post_hook(hook)
        layer.register_state_dict_pre_hook(hook)
        model.register_load_state_dict_pre_hook(hook)
        model.register_load_state_dict_post_hook(hook)
    data = saved(model)
    classes = {type(m) for m in model.modules()}
    named = [c for c in classes if c is Model or hasattr(nn, c.__name__)]
    trusted = [*named, *([hook] if has_hooks else [])]
    back = loaded(data, trusted)
    assert [type(m) for m in back.modules()] == [type(m) for m in model.modules()]
    mine, theirs = dict(model.named_parameters()), dict(back.named_parameters())
    assert mine.keys() == theirs.keys()
    for key, p in mine.items():
        assert type(theirs[key]) is type(p)
        assert is_lazy(p) or np.array_equal(p.detach().numpy(), theirs[key].detach().numpy())
    assert (back.device, back.size, back.options) == (model.device, model.size, model.options)
    assert back.format is st.channels_last
    assert back.dtype == st.float32
    if has_hooks:
        for needed in (hook, type(layer)):
            with pytest.raises(pickle.UnpicklingError, match=needed.__name__):
                loaded(data, [item for item in trusted if item is not needed])


def test_every_layer_is_tried() -> None:
    assert len(LAYERS) > 150


def test_the_activation_of_a_transformer_layer_comes_back() -> None:
    for activation in ("relu", "gelu"):
        for kind in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer):
            layer = kind(8, 2, activation=activation)
            back = loaded(saved(layer), [type(m) for m in layer.modules()])
            assert back.activation is getattr(nn.functional, activation)
            assert copy.deepcopy(layer).activation is back.activation
    layer = nn.TransformerEncoderLayer(8, 2, activation=nn.ReLU())
    assert type(loaded(saved(layer), [type(m) for m in layer.modules()]).activation) is nn.ReLU
    layer = nn.TransformerEncoderLayer(8, 2, activation=nn.functional.silu)
    with pytest.raises(pickle.UnpicklingError, match="silu"):  # the user's choice is named
        loaded(saved(layer), [type(m) for m in layer.modules()])


def test_a_lazy_layer_comes_back_lazy() -> None:
    data = saved(nn.LazyLinear(3))
    layer = loaded(data, [nn.LazyLinear])
    assert layer(st.ones(2, 5)).shape == (2, 3)
    assert type(layer) is nn.Linear
    assert not layer._forward_pre_hooks
    layer = loaded(data, [nn.LazyLinear])
    layer.load_state_dict({"weight": st.ones(3, 2), "bias": st.zeros(3)})
    assert layer(st.ones(1, 2)).tolist() == [[2, 2, 2]]


def test_a_copy_of_a_lazy_layer_has_hooks_of_its_own() -> None:
    layer = nn.LazyLinear(3)
    other = copy.deepcopy(layer)
    assert other(st.ones(2, 5)).shape == (2, 3)
    assert type(layer) is nn.LazyLinear
    assert layer(st.ones(2, 4)).shape == (2, 3)


def test_hooks_of_a_loaded_module_stay_when_others_are_added() -> None:
    layer = nn.Linear(2, 2)
    handles = [layer.register_forward_hook(hook) for _ in range(3)]
    back = loaded(saved(layer), [nn.Linear, hook])
    later = max(h.id for h in handles) + 1
    back._forward_hooks = type(back._forward_hooks)({later: hook})  # as if another process made it
    for _ in range(3):
        back.register_forward_hook(hook)
    assert len(back._forward_hooks) == 4


def test_public_hooks_of_a_state_keep_their_meaning() -> None:
    received: list[Any] = []
    layer = nn.Linear(2, 2)
    layer.register_load_state_dict_pre_hook(lambda module, *args: received.append(module))
    layer.register_state_dict_post_hook(lambda *args: None)
    layer.load_state_dict(layer.state_dict())
    twin = copy.deepcopy(layer)
    twin.load_state_dict(layer.state_dict())
    assert received == [layer, twin]
    layer.register_state_dict_post_hook(lambda *args: {})
    with pytest.raises(RuntimeError, match="must return None"):
        layer.state_dict()


def test_a_forged_device_or_parameter_is_refused() -> None:
    class Forged:
        def __init__(self, function: Any, *args: Any) -> None:
            self.call = function, args

        def __reduce__(self) -> Any:
            return self.call

    for function, *args in (
        (st.device, 3, None),
        (st.device, ["cpu"], None),
        (nn.UninitializedParameter, True, "cpu"),
        (nn.UninitializedParameter, True, st.device("cpu"), "no dtype"),
    ):
        file = io.BytesIO()
        st.save(Forged(function, *args), file)
        with pytest.raises(pickle.UnpicklingError):
            loaded(file.getvalue(), [])


def test_a_whole_optimizer() -> None:
    optimizer = st.optim.Adam(nn.Linear(2, 2).parameters(), lr=0.25)
    file = io.BytesIO()
    st.save(optimizer, file)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loaded(file.getvalue(), [st.optim.Adam]).param_groups[0]["lr"] == 0.25
