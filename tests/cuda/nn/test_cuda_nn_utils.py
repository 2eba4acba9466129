"""nn.utils on CUDA parameters: the CPU's values."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn import utils
from shmtensor.nn.utils import parametrizations, prune


def close(x: Any, y: Any, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(
        x.detach().cpu().numpy(), y.detach().cpu().numpy(), tolerance, tolerance
    )


def pair() -> tuple[Any, Any]:
    """A layer on the CPU with gradients, and its copy on CUDA."""
    st.manual_seed(0)
    near = nn.Linear(4, 3)
    far = copy.deepcopy(near).cuda()
    for layer in (near, far):
        layer((st.arange(8.0).reshape(2, 4)).to(layer.weight.device)).square().sum().backward()
    return near, far


@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf")])
def test_gradients_are_clipped_to_a_norm(cp: Any, norm_type: float) -> None:
    near, far = pair()
    norms = [utils.clip_grad_norm_(m.parameters(), 0.7, norm_type) for m in (near, far)]
    assert norms[1].is_cuda
    close(norms[1], norms[0])
    for p, q in zip(far.parameters(), near.parameters(), strict=True):
        close(p.grad, q.grad)
    before = far.weight.grad.clone()
    utils.clip_grad_norm_(far.parameters(), 1e6)
    close(far.weight.grad, before, 0)


def test_a_norm_that_is_not_finite_is_refused(cp: Any) -> None:
    _, far = pair()
    far.weight.grad.fill_(float("nan"))
    with pytest.raises(RuntimeError, match="not finite"):
        utils.clip_grad_norm_(far.parameters(), 1.0, error_if_nonfinite=True)


def test_gradients_on_two_gpus_are_clipped(two_devices: Any, cp: Any) -> None:
    params = [st.ones(2).to(f"cuda:{i}").requires_grad_() for i in range(2)]
    for p in params:
        p.grad = st.full((2,), 3.0).to(p.device)
    assert abs(utils.clip_grad_norm_(params, 1.0).item() - 6.0) < 1e-4
    for p in params:
        close(p.grad, st.full((2,), 0.5))


def test_gradients_are_clipped_to_a_value(cp: Any) -> None:
    near, far = pair()
    for m in (near, far):
        utils.clip_grad_value_(m.parameters(), 0.5)
    close(far.weight.grad, near.weight.grad)


def test_parameters_as_a_vector(cp: Any) -> None:
    near, far = pair()
    vector = utils.parameters_to_vector(far.parameters())
    assert vector.is_cuda
    close(vector, utils.parameters_to_vector(near.parameters()))
    utils.vector_to_parameters(vector.detach() * 2, far.parameters())
    assert far.weight.is_cuda
    close(far.weight, near.weight * 2)


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize(
    "name",
    [
        "weight_norm", "spectral_norm", "parametrizations.weight_norm",
        "parametrizations.spectral_norm", "parametrizations.orthogonal",
    ],
)  # fmt: skip
def test_reparametrizations_are_the_cpu_s(cp: Any, name: str) -> None:
    st.manual_seed(0)
    space: Any = parametrizations if "." in name else utils
    near, far = (getattr(space, name.rpartition(".")[2])(nn.Linear(4, 3)) for _ in range(2))
    far.load_state_dict(near.state_dict())
    far.cuda()
    x = st.arange(8.0).reshape(2, 4) / 8
    for layer in (near, far):
        layer(x.to(next(layer.parameters()).device)).square().sum().backward()
    close(far.weight, near.weight, 1e-4)
    for p, q in zip(far.parameters(), near.parameters(), strict=True):
        assert p.is_cuda
        close(p.grad, q.grad, 1e-3)
    for b, c in zip(far.buffers(), near.buffers(), strict=True):
        close(b, c, 1e-4)


@pytest.mark.parametrize(
    "method",
    [
        lambda m: prune.l1_unstructured(m, "weight", 0.4),
        lambda m: prune.ln_structured(m, "weight", 1, n=2, dim=0),
        lambda m: prune.identity(m, "weight"),
        lambda m: prune.custom_from_mask(m, "weight", (m.weight > 0).to(m.weight.dtype)),
    ],
)
def test_pruning_is_the_cpu_s(cp: Any, method: Any) -> None:
    near, far = pair()
    for m in (near, far):
        method(m)
    assert far.weight_mask.is_cuda
    close(far.weight_mask, near.weight_mask)
    close(far.weight, near.weight)
    prune.remove(far, "weight")
    assert far.weight.is_cuda


def test_random_pruning(cp: Any) -> None:
    _, far = pair()
    prune.random_unstructured(far, "weight", 5)
    assert int((far.weight_mask.cpu() == 0).sum()) == 5
    _, far = pair()
    prune.random_structured(far, "weight", 1, dim=0)
    assert int((far.weight_mask.cpu() == 0).sum()) == 4


def test_sequences_are_packed_and_padded(cp: Any) -> None:
    x = st.arange(24.0).reshape(4, 3, 2)
    lengths = st.tensor([2, 4, 1])
    results = []
    for device in ("cpu", "cuda"):
        packed = utils.rnn.pack_padded_sequence(x.to(device), lengths, enforce_sorted=False)
        assert not packed.batch_sizes.is_cuda
        padded, sizes = utils.rnn.pad_packed_sequence(packed)
        assert not sizes.is_cuda
        assert sizes.tolist() == [2, 4, 1]
        items = utils.rnn.unpad_sequence(padded, lengths)
        again = utils.rnn.pad_sequence(items, padding_side="left", padding_value=-1.0)
        results.append((packed.data, padded, again))
    for near, far in zip(*results, strict=True):
        assert far.is_cuda
        close(far, near, 0)


def test_convolution_and_norm_are_fused(cp: Any) -> None:
    near = nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3).eval()
    near[1].running_mean.fill_(0.5)
    far = [copy.deepcopy(m).cuda() for m in near]
    expected, fused = utils.fusion.fuse_conv_bn_eval(near[0].eval(), near[1]), None
    fused = utils.fusion.fuse_conv_bn_eval(far[0].eval(), far[1])
    assert fused.weight.is_cuda
    close(fused.weight, expected.weight)
    close(fused.bias, expected.bias)


def test_functional_call(cp: Any) -> None:
    near, far = pair()
    x = st.ones(2, 4)
    values = {n: p.detach() * 2 for n, p in near.named_parameters()}
    expected = st.func.functional_call(near, values, (x,))
    out = st.func.functional_call(far, {n: v.cuda() for n, v in values.items()}, (x.cuda(),))
    close(out, expected)
