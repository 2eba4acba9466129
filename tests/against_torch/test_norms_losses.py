"""Normalisation layers, losses, activations and containers beside PyTorch's: the same weights, the
same inputs."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.torch

import shmtensor as st  # noqa: E402
from shmtensor import nn  # noqa: E402

Case = tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]

NORMS: list[Case] = [
    ("BatchNorm1d", (3,), {}, (4, 3)),
    ("BatchNorm1d", (3,), {"momentum": None}, (4, 3, 5)),
    ("BatchNorm1d", (3,), {"bias": False}, (4, 3)),
    ("BatchNorm2d", (3,), {"affine": False, "momentum": 0.3}, (2, 3, 4, 4)),
    ("BatchNorm2d", (3,), {"track_running_stats": False, "eps": 1e-2}, (2, 3, 4, 4)),
    ("BatchNorm3d", (3,), {}, (2, 3, 2, 2, 2)),
    ("InstanceNorm1d", (3,), {}, (2, 3, 5)),
    ("InstanceNorm1d", (3,), {"affine": True}, (3, 5)),
    ("InstanceNorm2d", (3,), {"affine": True, "track_running_stats": True}, (2, 3, 4, 4)),
    ("InstanceNorm3d", (3,), {"affine": True, "bias": False}, (2, 3, 2, 2, 2)),
    ("GroupNorm", (2, 4), {}, (3, 4, 5)),
    ("GroupNorm", (4, 4), {"affine": False}, (3, 4, 2, 2)),
    ("GroupNorm", (1, 4), {"bias": False}, (3, 4)),
    ("LayerNorm", ((4, 5),), {}, (3, 4, 5)),
    ("RMSNorm", (5,), {}, (3, 4, 5)),
    ("LocalResponseNorm", (3,), {"alpha": 0.5, "k": 2.0}, (2, 5, 4)),
    ("LocalResponseNorm", (2,), {"beta": 0.5}, (2, 5, 4, 4)),
]


def pair(name: str, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """PyTorch's module and ours with its state, which has the same keys in the same order."""
    model = getattr(torch.nn, name)(*args, **kwargs)
    ours = getattr(nn, name)(*args, **kwargs)
    with torch.no_grad():
        for p in model.parameters():
            p.uniform_(0.5, 1.5)
    state = model.state_dict()
    assert list(ours.state_dict()) == list(state)
    assert ours.state_dict()._metadata == state._metadata
    ours.load_state_dict({name: st.tensor(value.numpy().copy()) for name, value in state.items()})
    return model, ours


def same(ours: Any, theirs: Any, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=rtol, atol=atol)


@pytest.mark.parametrize(("name", "args", "kwargs", "shape"), NORMS)
def test_norms_agree_in_training_and_evaluation(
    name: str, args: Any, kwargs: Any, shape: Any
) -> None:
    model, ours = pair(name, *args, **kwargs)
    assert repr(ours) == repr(model)
    rng = np.random.default_rng(0)
    for training in (True, True, False):
        model.train(training)
        ours.train(training)
        values = rng.standard_normal(shape).astype(np.float32) * 2 + 1
        g = rng.standard_normal(shape).astype(np.float32)
        x, y = torch.tensor(values, requires_grad=True), st.tensor(values, requires_grad=True)
        theirs, out = model(x), ours(y)
        same(out, theirs)
        theirs.backward(torch.tensor(g))
        out.backward(st.tensor(g))
        same(y.grad, x.grad, atol=1e-4)
    for p, q in zip(ours.parameters(), model.parameters(), strict=True):
        same(p.grad, q.grad, atol=1e-4)
    for b, c in zip(ours.buffers(), model.buffers(), strict=True):
        same(b, c)
        assert b.dtype.name == str(c.dtype).removeprefix("torch.")


@pytest.mark.parametrize("size", [3, 4, 5])
def test_cross_map_lrn_has_pytorchs_values(size: int) -> None:
    model, ours = pair("CrossMapLRN2d", size, alpha=0.5, k=2.0)
    assert repr(ours) == repr(model)
    x = np.random.default_rng(0).standard_normal((2, 7, 2, 3)).astype(np.float32)
    same(ours(st.tensor(x)), model(torch.tensor(x)))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("LazyBatchNorm1d", (4, 3)),
        ("LazyBatchNorm2d", (2, 3, 4, 4)),
        ("LazyBatchNorm3d", (2, 3, 2, 2, 2)),
        ("LazyInstanceNorm1d", (2, 3, 5)),
        ("LazyInstanceNorm2d", (2, 3, 4, 4)),
        ("LazyInstanceNorm3d", (2, 3, 2, 2, 2)),
    ],
)
def test_lazy_norms_become_the_same_layers(name: str, shape: tuple[int, ...]) -> None:
    model, ours = getattr(torch.nn, name)(), getattr(nn, name)()
    assert repr(ours) == repr(model)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    same(ours(st.tensor(x)), model(torch.tensor(x)))
    assert repr(ours) == repr(model)
    assert type(ours) is getattr(nn, name.removeprefix("Lazy"))
    for key, value in model.state_dict().items():
        same(ours.state_dict()[key], value)


def test_norms_load_what_older_versions_saved() -> None:
    for library, module in ((torch, torch.nn.BatchNorm1d(3)), (st, nn.BatchNorm1d(3))):
        old = {name: library.ones(3) for name in list(module.state_dict())[:-1]}
        assert str(module.load_state_dict(old)) == "<All keys matched successfully>"
        older = module.state_dict()
        del older["num_batches_tracked"]
        with pytest.raises(RuntimeError, match=r'Missing.*"num_batches_tracked"'):
            module.load_state_dict(older)  # the metadata have version 2
        del older._metadata
        module.load_state_dict(older)
    statistics = {"running_mean": np.zeros(3), "running_var": np.ones(3)}
    for library, layer in ((torch, torch.nn.InstanceNorm1d(3)), (st, nn.InstanceNorm1d(3))):
        with pytest.raises(RuntimeError, match=r'stats buffer\(s\) "running_mean" and'):
            layer.load_state_dict({k: library.tensor(v) for k, v in statistics.items()})


def classes(shape: Any, n: int) -> Any:
    return np.random.default_rng(1).integers(0, n, shape)


def signs(*shape: int) -> Any:
    return np.random.default_rng(2).choice([-1.0, 1.0], shape).astype(np.float32)


def reals(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).random(shape).astype(np.float32)


LOSSES: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[Any, ...]]] = [
    ("CTCLoss", (), {}, (reals(6, 2, 4), classes((2, 3), 3) + 1, np.array([6, 5]), [3, 2])),
    ("CTCLoss", (), {"zero_infinity": True}, (reals(2, 1, 4), classes((1, 3), 3) + 1, [2], [3])),
    ("MultiMarginLoss", (), {"p": 2, "margin": 0.7}, (reals(3, 4), classes(3, 4))),
    ("MultiMarginLoss", (), {}, (reals(4), classes((), 4))),
    ("MultiLabelMarginLoss", (), {}, (reals(2, 4), np.array([[3, 0, -1, 1], [1, 2, 3, 0]]))),
    ("MultiLabelSoftMarginLoss", (), {}, (reals(3, 4), reals(3, 4))),
    ("NLLLoss2d", (), {}, (reals(2, 3, 4, 4), classes((2, 4, 4), 3))),
    ("TripletMarginWithDistanceLoss", (), {"swap": True}, (reals(3, 4), -reals(3, 4), signs(3, 4))),
    ("LinearCrossEntropyLoss", (4, 5), {}, (reals(3, 4), classes(3, 5))),
    ("LinearCrossEntropyLoss", (4, 5), {"bias": True}, (reals(4), classes((), 5))),
    (
        "LinearCrossEntropyLoss",
        (4, 5),
        {"out_features": (2, 3), "bias": True, "label_smoothing": 0.1, "ignore_index": 2},
        (reals(3, 4), classes((3, 2, 3), 5)),
    ),
    ("LinearCrossEntropyLoss", (4, 5), {"out_features": (2,)}, (reals(3, 4), reals(3, 5, 2))),
    ("KLDivLoss", (), {"log_target": True}, (reals(2, 3), reals(2, 3))),
    ("GaussianNLLLoss", (), {"full": True}, (reals(2, 3), signs(2, 3), reals(2, 3))),
    ("CosineEmbeddingLoss", (), {"margin": 0.2}, (reals(3, 4), signs(3, 4), signs(3))),
    ("CosineSimilarity", (), {"dim": 2}, (reals(2, 3, 4), signs(2, 3, 4))),
    ("PairwiseDistance", (), {"p": 3.0, "keepdim": True}, (reals(3, 4), signs(3, 4))),
    ("Softmax2d", (), {}, (reals(2, 3, 2, 2),)),
    ("Threshold", (0.3, 7.0), {}, (reals(3, 4),)),
]


@pytest.mark.filterwarnings(
    "ignore:`NLLLoss2d` has been deprecated", "ignore:reduction. 'mean' divides"
)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(("name", "args", "kwargs", "inputs"), LOSSES)
def test_losses_and_their_gradients_agree(
    name: str, args: Any, kwargs: Any, inputs: Any, reduction: str
) -> None:
    if name.endswith(("Loss", "2d")) and name != "Softmax2d":
        kwargs = {**kwargs, "reduction": reduction}
    model, ours = pair(name, *args, **kwargs)
    assert repr(ours) == repr(model)
    grads, outs = [], []
    for library, module in ((torch, model), (st, ours)):
        tensors = [library.tensor(x) for x in inputs]
        tensors[0].requires_grad_(True)
        first = tensors[0].log_softmax(-1) if name == "CTCLoss" else tensors[0]
        outs.append(module(first, *tensors[1:]))
        outs[-1].sum().backward()
        grads.append([tensors[0].grad, *(p.grad for p in module.parameters())])
    same(outs[1], outs[0])
    for theirs, our_grad in zip(*grads, strict=True):
        same(our_grad, theirs)


def test_adaptive_softmax_agrees() -> None:
    model, ours = pair("AdaptiveLogSoftmaxWithLoss", 8, 20, [4, 10], 2.0, True)
    assert repr(ours) == repr(model)
    x, target = reals(6, 8), np.array([0, 3, 4, 9, 10, 19])
    a, b = torch.tensor(x, requires_grad=True), st.tensor(x, requires_grad=True)
    theirs, our_output = model(a, torch.tensor(target)), ours(b, st.tensor(target))
    same(our_output.output, theirs.output)
    same(our_output.loss, theirs.loss)
    theirs.loss.backward()
    our_output.loss.backward()
    same(b.grad, a.grad)
    for p, q in zip(ours.parameters(), model.parameters(), strict=True):
        same(p.grad, q.grad)
    same(ours.log_prob(b), model.log_prob(a))
    same(ours.predict(b), model.predict(a))
    same(ours(b[0], st.tensor(3)).output, model(a[0], torch.tensor(3)).output)


BAD: list[tuple[str, tuple[Any, ...]]] = [
    ("cross_entropy", (reals(2, 3), np.array([0, 3]))),
    ("cross_entropy", (reals(2, 3), np.array([0, 1], np.int32))),
    ("cross_entropy", (reals(2, 3), np.array([0, 1]), reals(4))),
    ("nll_loss", (reals(2, 3), np.array([0, -1]))),
    ("nll_loss", (reals(2, 3), np.array([0, 1, 2]))),
    ("nll_loss", (reals(2, 3), np.array([[0, 1, 2]]))),
    ("nll_loss", (reals(2, 3), np.array([0.0, 1.0]))),
    ("nll_loss", (reals(), np.array(0))),
    ("nll_loss", (reals(2, 3), np.array([0, 1]), reals(4))),
    ("mse_loss", (reals(2, 3), reals(2, 4))),
    ("binary_cross_entropy", (reals(2), reals(2) + 2)),
    ("binary_cross_entropy", (reals(2), reals(3))),
    ("margin_ranking_loss", (reals(2), reals(2), reals(2, 2))),
    ("cosine_embedding_loss", (reals(3, 4), reals(3, 4), reals(3, 1))),
    ("cosine_embedding_loss", (reals(3, 4), reals(3, 4), reals())),
    ("cosine_embedding_loss", (reals(4), reals(4), reals(1))),
    ("triplet_margin_loss", (reals(2, 3), reals(2, 3), reals(3))),
    ("multi_margin_loss", (reals(2, 3), np.array([0, 3]))),
    ("cosine_similarity", (np.ones((2, 3), np.int8), np.ones((2, 3), np.int8))),
    ("group_norm", (reals(1, 2), 2)),
    ("group_norm", (reals(2, 4), 3)),
    ("batch_norm", (reals(1, 3), None, None, None, None, True)),
    ("batch_norm", (reals(2, 3), reals(4), reals(4))),
    ("instance_norm", (reals(2, 3, 1),)),
    ("celu", (reals(2), 0.0)),
]


@pytest.mark.parametrize(("name", "args"), BAD)
@pytest.mark.filterwarnings("ignore:Using a target size:UserWarning")
@pytest.mark.filterwarnings("ignore:mse_loss:UserWarning")
def test_bad_input_raises_pytorchs_classes(name: str, args: Any) -> None:
    raised = []
    for library in (torch, st):
        tensors = [library.tensor(x) if isinstance(x, np.ndarray) else x for x in args]
        try:
            getattr(library.nn.functional, name)(*tensors)
        except Exception as error:
            raised.append(type(error))
    assert len(raised) == 2
    assert raised[1] is raised[0]


def test_losses_of_nothing_are_nan() -> None:
    for shape in ((5, 0), (0, 3), (2, 0, 4)):
        for library in (torch, st):
            loss = library.nn.functional.cross_entropy(library.zeros(shape), library.zeros(shape))
            assert np.isnan(float(loss))


def test_negative_slopes_in_place_have_no_backward() -> None:
    for library in (torch, st):
        F = library.nn.functional
        for function, args in (
            (F.elu_, (-2.0,)), (F.celu_, (-2.0,)), (F.leaky_relu_, (-2.0,)),
            (F.rrelu_, (-2.0, -1.0)),
        ):  # fmt: skip
            out = function(library.ones(2, requires_grad=True) * 1, *args)
            with pytest.raises(RuntimeError, match="slope"):
                out.sum().backward()


CONTAINERS = """
r = nn.Sequential(nn.ReLU(), nn.Tanh()) * 2
r = 2 * nn.Sequential(nn.ReLU())
r = nn.Sequential(nn.ReLU()) * 0
r = nn.Sequential(nn.ReLU()) * 1.5
s = nn.Sequential(nn.ReLU()); s *= 3; r = s
s = nn.Sequential(nn.ReLU(), nn.Tanh()); del s[0]; r = s
r = nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()])
r = nn.ModuleList([nn.Sequential(nn.Linear(1, 1)), nn.Sequential(nn.Linear(1, 1))])
nn.ModuleList([])(1)
nn.ModuleDict().update(3)
nn.ModuleDict().update([3])
r = list(nn.ParameterDict({"b": p, "a": p}))
r = list(nn.ParameterDict([("b", p), ("a", p)]))
r = list(reversed(nn.ParameterDict({"b": p, "a": p})))
d = nn.ParameterDict({"b": p}); d.update({"d": p, "c": p}); r = list(d), d.popitem()[0], len(d)
d = nn.ParameterDict({"b": p}); r = list(d | nn.ParameterDict({"a": p})), list(d.copy())
d = nn.ParameterDict({"b": p}); r = d.setdefault("b") is p, list(d.fromkeys("xy", 1))
nn.ParameterDict({"b": p})(1)
nn.ParameterDict({"b": p})["z"]
nn.ParameterDict({1: p})
nn.ParameterList([p])(1)
m.a = 5; m.a = b
m.a = p; m.a = b
m.a = p; m.a = nn.ReLU()
m.a = nn.ReLU(); m.a = b
m.a = nn.Buffer(t.ones(1), persistent=False); m.a = t.zeros(1); r = list(m.state_dict())
m.a = b; m.c = b; m.a = nn.Buffer(t.ones(1)); r = list(m.state_dict())
m.add_module("training", nn.ReLU())
nn.Module(3)
l.to("cpu", copy=True)
l.to("cpu", True)
l.to(t.int32)
l.to(foo=1)
l.to(t.float64, True); r = l.weight.dtype == t.float64
l.to("cpu", t.float64, True); r = l.weight.dtype == t.float64
l.to(tensor=t.zeros(1, dtype=t.float64)); r = l.weight.dtype == t.float64
l.to(memory_format=t.channels_last); r = l
r = l.to_empty(device="cpu").weight.shape == l.weight.shape, l.weight.requires_grad
l.set_submodule("0", 3)
h = l.register_forward_hook(print, always_call=True); r = h.hooks_dict_ref() is l._forward_hooks
""".strip().splitlines()


@pytest.mark.parametrize("code", CONTAINERS)
def test_modules_and_containers_do_as_pytorchs(code: str) -> None:
    results = []
    for t in (torch, st):
        p, b = t.nn.Parameter(t.zeros(2)), t.nn.Buffer(t.zeros(2))
        names = {"t": t, "nn": t.nn, "p": p, "b": b, "m": t.nn.Module(), "l": t.nn.Linear(2, 2)}
        try:
            exec(code, names)
        except Exception as error:
            results.append(type(error).__name__)
        else:
            results.append(str(names["r"]))
    assert results[1] == results[0]


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_embeddings_with_the_weight_first(mode: int) -> None:
    w, indices, offsets = reals(6, 3), np.array([1, 2, 0, 5, 5, 3]), np.array([0, 2, 2, 6])
    a, b = ([lib.tensor(x) for x in (w, indices, offsets)] for lib in (torch, st))
    same(st.embedding(b[0], b[1]), torch.embedding(a[0], a[1]))
    for padding_idx in (None, 5):
        args = (False, mode, False, None, True, padding_idx)
        theirs, ours = torch.embedding_bag(*a, *args), st.embedding_bag(*b, *args)
        for x, y in zip(ours if mode else ours[:1], theirs, strict=False):
            same(x, y)


def test_copies_and_pickles_of_norms_keep_the_statistics() -> None:
    layer = nn.BatchNorm1d(3)
    layer(st.randn(5, 3))
    copied = pickle.loads(pickle.dumps(layer))
    assert list(copied.state_dict()) == list(torch.nn.BatchNorm1d(3).state_dict())
    np.testing.assert_array_equal(copied.running_var.numpy(), layer.running_var.numpy())
