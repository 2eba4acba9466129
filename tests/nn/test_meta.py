"""Modules on the device "meta": construction, forward, and what comes after it."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as st
import shmtensor.nn.functional as F
from shmtensor import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.out = nn.Linear(8 * 4 * 4, 10)
        self.register_buffer("mask", st.ones(10, 10).tril())

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.out(F.adaptive_avg_pool2d(x, 4).flatten(1)) @ self.mask


def meta_net() -> Net:
    with st.device("meta"):
        return Net()


def devices(module: nn.Module) -> set[str]:
    return {x.device.type for x in (*module.parameters(), *module.buffers())}


def test_a_with_block_makes_all_of_a_module() -> None:
    module = meta_net()
    assert devices(module) == {"meta"}
    counts = [sum(p.numel() for p in m.parameters()) for m in (module, Net())]
    assert counts[0] == counts[1]
    assert {k: v.shape for k, v in module.state_dict().items()} == {
        k: v.shape for k, v in Net().state_dict().items()
    }
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in module.parameters())
    assert "device='meta', size=(10,), requires_grad=True)" in repr(module.out.bias)


def test_a_huge_model_costs_nothing() -> None:
    before = st.memory.statistics().committed_bytes
    with st.device("meta"):
        layer = nn.TransformerEncoderLayer(65536, 64, 4 * 65536)
        y = layer(st.empty(128, 16, 65536))
    assert y.shape == (128, 16, 65536)
    assert sum(p.numel() for p in layer.parameters()) > 5 * 10**10
    # Stand-ins may be the first small arrays of the process: a slab is committed for each size.
    assert st.memory.statistics().committed_bytes < before + 2**22


# The arguments of layers that need other ones than numbers.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "AdaptiveLogSoftmaxWithLoss": (64, 20, [5, 10]),
    "GroupNorm": (2, 4),
    "LayerNorm": (4,),
    "MultiheadAttention": (8, 2),
    "RNNBase": ("LSTM", 4, 4),
    "Transformer": (8, 2, 1, 1, 16, 0.1, F.relu, None, None, 1e-5, True),
    "TransformerEncoderLayer": (8, 2),
    "TransformerDecoderLayer": (8, 2),
}


def layers_with_a_device() -> list[str]:
    layers = {
        name: cls
        for name, cls in vars(nn).items()
        if isinstance(cls, type) and issubclass(cls, nn.Module) and not name.startswith("Lazy")
    }
    return [name for name, cls in layers.items() if "device" in inspect.signature(cls).parameters]


def test_layers_with_a_device_are_found() -> None:
    assert len(layers_with_a_device()) > 30


@pytest.mark.parametrize("name", layers_with_a_device())
def test_layers_take_the_device(name: str) -> None:
    cls = getattr(nn, name)
    if name in ARGUMENTS:
        arguments = ARGUMENTS[name]
    else:
        required = [
            p
            for p in inspect.signature(cls).parameters.values()
            if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY)
        ]
        arguments = (4,) * len(required)
    module = cls(*arguments, device="meta")
    expected = cls(*arguments)
    assert devices(module) <= {"meta"}
    shapes = {k: (v.shape, v.dtype) for k, v in expected.state_dict().items()}
    assert {k: (v.shape, v.dtype) for k, v in module.state_dict().items()} == shapes


FORWARDS: list[tuple[Callable[[], Any], tuple[tuple[int, ...], ...]]] = [
    (lambda: Net(), ((2, 3, 32, 32),)),
    (lambda: Net().eval(), ((2, 3, 32, 32),)),
    (lambda: nn.Sequential(nn.Linear(7, 5), nn.GELU(), nn.Dropout(), nn.Linear(5, 3)), ((4, 7),)),
    (lambda: nn.LSTM(7, 5, 2, batch_first=True, bidirectional=True), ((4, 6, 7),)),
    (lambda: nn.LSTM(7, 5, proj_size=3), ((4, 6, 7),)),
    (lambda: nn.GRU(7, 5, 2), ((4, 6, 7),)),
    (lambda: nn.RNN(7, 5), ((4, 6, 7),)),
    (lambda: nn.LSTMCell(7, 5), ((4, 7),)),
    (lambda: nn.GRUCell(7, 5), ((4, 7),)),
    (lambda: nn.MultiheadAttention(8, 2), ((4, 6, 8),) * 3),
    (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2),
        ((4, 6, 8),),
    ),
    (lambda: nn.Transformer(8, 2, 1, 1, 16, batch_first=True), ((4, 6, 8), (4, 3, 8))),
    (lambda: nn.ConvTranspose2d(4, 6, 4, 2, 1), ((2, 4, 9, 7),)),
    (lambda: nn.Conv3d(4, 6, 3), ((2, 4, 9, 7, 5),)),
    (lambda: nn.GroupNorm(2, 4), ((2, 4, 9, 7),)),
    (lambda: nn.InstanceNorm2d(4, affine=True), ((2, 4, 9, 7),)),
    (lambda: nn.LayerNorm([9, 7]), ((2, 4, 9, 7),)),
    (lambda: nn.RMSNorm(7), ((2, 9, 7),)),
    (lambda: nn.Upsample(scale_factor=2, mode="bicubic"), ((2, 4, 9, 7),)),
    (lambda: nn.PixelShuffle(2), ((2, 4, 9, 7),)),
    (lambda: nn.ReflectionPad2d(3), ((2, 4, 9, 7),)),
    (lambda: nn.Bilinear(7, 5, 3), ((4, 7), (4, 5))),
    (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(7, 5)), ((4, 7),)),
    (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(7, 5)), ((4, 7),)),
]


def tensors_in(result: Any) -> list[Any]:
    if isinstance(result, (list, tuple)):
        return [x for r in result for x in tensors_in(r)]
    return [] if result is None else [result]


@pytest.mark.parametrize(("make", "shapes"), FORWARDS, ids=range(len(FORWARDS)))
def test_forward_and_backward_have_the_shapes_of_the_cpu(
    make: Callable[[], Any], shapes: tuple[tuple[int, ...], ...]
) -> None:
    def run() -> Any:
        module = make()
        inputs = [st.rand(shape, requires_grad=True) for shape in shapes]
        results = tensors_in(module(*inputs))
        sum(r.sum() for r in results).backward()
        leaves = [x for x in (*inputs, *module.parameters()) if x.grad is not None]
        gradients = [(x.grad.shape, x.grad.dtype) for x in leaves]
        assert len({x.device for x in (*results, *leaves)}) == 1
        return [(r.shape, r.dtype) for r in results], gradients

    expected = run()
    with st.device("meta"):
        assert run() == expected


def test_losses() -> None:
    with st.device("meta"):
        x, labels = st.rand(6, 5), st.randint(5, (6,))
        losses = [
            F.cross_entropy(x, labels, weight=st.rand(5), label_smoothing=0.1),
            F.nll_loss(x.log_softmax(1), labels),
            F.mse_loss(x, x),
            F.smooth_l1_loss(x, x),
            F.binary_cross_entropy(x, x),
            F.binary_cross_entropy_with_logits(x, x),
            F.kl_div(x, x, reduction="batchmean"),
            F.ctc_loss(
                st.rand(20, 6, 5).log_softmax(2), st.randint(1, 5, (6, 9)), (20,) * 6, (9,) * 6
            ),
            F.triplet_margin_loss(x, x, x),
            F.cosine_embedding_loss(x, x, st.ones(6)),
        ]
    assert all(loss.is_meta and loss.shape == () for loss in losses)
    bags = nn.EmbeddingBag(10, 3, device="meta")(st.empty(4, 5, dtype=st.int64, device="meta"))
    assert bags.shape == (4, 3)


def test_memory_comes_with_to_empty() -> None:
    module = meta_net()
    weight = module.out.weight
    assert module.to_empty(device="cpu") is module
    assert devices(module) == {"cpu"}
    assert module.out.weight is weight
    for part in module.modules():
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()
    module.mask.copy_(st.eye(10))
    assert module(st.rand(2, 3, 8, 8)).isfinite().all()


def test_moving_data_out_is_refused() -> None:
    message = r"Cannot copy out of meta tensor; no data! Please use Module.to_empty\(\)"
    for call in (lambda m: m.to("cpu"), lambda m: m.to(device="cpu", dtype=st.float64)):
        with pytest.raises(NotImplementedError, match=message):
            call(meta_net())
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        meta_net().cpu()
    assert meta_net().half().to("meta").out.weight.dtype == st.float16


def test_to_meta_gives_the_memory_back() -> None:
    module = Net()
    module.out(st.rand(2, 128)).sum().backward()
    module.to("meta")
    assert devices(module) == {"meta"}
    assert module.out.weight.grad is not None
    assert module.out.weight.grad.is_meta


def test_assign_brings_data() -> None:
    module, trained = meta_net(), Net()
    module.load_state_dict(trained.state_dict(), assign=True)
    assert devices(module) == {"cpu"}
    assert isinstance(module.out.weight, nn.Parameter)
    assert module.out.weight.requires_grad
    x = st.rand(2, 3, 8, 8)
    assert st.equal(module.eval()(x), trained.eval()(x))


def test_copying_to_meta_parameters_warns() -> None:
    module = meta_net()
    with pytest.warns(UserWarning, match=r": copying to a meta .*assign=True"):
        module.load_state_dict(Net().state_dict())
    assert devices(module) == {"meta"}
    with pytest.raises(RuntimeError, match="Cannot copy out of meta tensor"):
        Net().load_state_dict(module.state_dict())


def test_copies_and_files_of_a_module() -> None:
    module = meta_net()
    file = io.BytesIO()
    st.save(module.state_dict(), file)
    file.seek(0)
    assert all(v.is_meta for v in st.load(file).values())
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert devices(other) == {"meta"}
        assert isinstance(other.out.weight, nn.Parameter)


def test_skip_init() -> None:
    module: Any = nn.utils.skip_init(nn.Linear, 3, 4, device="meta")
    assert module.weight.is_meta
    assert module.weight.shape == (4, 3)


OPTIMIZERS = (
    "SGD Adam AdamW Adadelta Adamax NAdam RAdam RMSprop Rprop ASGD Adafactor LBFGS".split()  # noqa: SIM905
)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_made_before_the_memory_work_after_it(name: str) -> None:
    module = nn.Linear(3, 4, device="meta")
    optimizer = getattr(st.optim, name)(module.parameters(), lr=0.1)
    module.to_empty(device="cpu")
    module.reset_parameters()
    before = module.weight.clone()

    def loss() -> Any:
        optimizer.zero_grad()
        result = module(st.ones(2, 3)).square().sum()
        result.backward()
        return result

    optimizer.step(loss)
    assert not st.equal(module.weight, before)


def test_clipping_gradients() -> None:
    module = nn.Linear(3, 4, device="meta")
    module(st.empty(2, 3, device="meta")).sum().backward()
    assert nn.utils.clip_grad_norm_(module.parameters(), 1.0).is_meta


def test_steps_without_data_only_count() -> None:
    module = nn.Linear(3, 4, device="meta")
    optimizer = st.optim.Adam(module.parameters())
    module(st.empty(2, 3, device="meta")).sum().backward()
    optimizer.step()
    assert optimizer.state[module.weight]["step"] == 1
    assert optimizer.state[module.weight]["exp_avg"].is_meta
