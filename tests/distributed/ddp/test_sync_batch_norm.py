"""SyncBatchNorm: the ranks' batches together are one batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import nn
from shmtensor.distributed import SyncBatchNorm
from shmtensor.nn import functional as F

from ..run_ranks import run, values

CUTS = [0, 3, 4, 9]  # batches of different sizes


def data() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((9, 4, 5)) * 2 + 1, rng.standard_normal((9, 4, 5))


def on_a_part() -> list[Any]:
    rank = dist.get_rank()
    x, g = (each[CUTS[rank] : CUTS[rank + 1]] for each in data())
    layer = SyncBatchNorm(4, dtype=st.float64)
    layer.weight.data.mul_(2)
    input = st.tensor(x, requires_grad=True)
    out = layer(input)
    out.backward(st.tensor(g))
    dist.all_reduce(layer.weight.grad)
    statistics = [layer.running_mean, layer.running_var]
    return [
        np.array(each.detach().numpy())
        for each in (out, input.grad, layer.weight.grad, *statistics)
    ] + [int(layer.num_batches_tracked)]


def test_ranks_normalise_as_one_batch() -> None:
    x, g = data()
    mean, var = st.zeros(4, dtype=st.float64), st.ones(4, dtype=st.float64)
    weight = st.full((4,), 2.0, dtype=st.float64, requires_grad=True)
    input = st.tensor(x, requires_grad=True)
    out = F.batch_norm(input, mean, var, weight, st.zeros(4, dtype=st.float64), True)
    out.backward(st.tensor(g))
    for rank, result in enumerate(values(run(on_a_part, 3))):
        part = slice(CUTS[rank], CUTS[rank + 1])
        np.testing.assert_allclose(result[0], out.detach().numpy()[part], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(result[1], input.grad.numpy()[part], rtol=1e-8, atol=1e-11)
        np.testing.assert_allclose(result[2], weight.grad.numpy(), rtol=1e-9)
        np.testing.assert_allclose(result[3], mean.numpy(), rtol=1e-9)
        np.testing.assert_allclose(result[4], var.numpy(), rtol=1e-9)
        assert result[5] == 1


def test_conversion_keeps_parameters_and_one_process_needs_no_group() -> None:
    layers = [nn.BatchNorm1d(3, eps=1e-3, momentum=None), nn.BatchNorm2d(3, affine=False)]
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(layers[0]), layers[1])
    model.append(nn.BatchNorm3d(2, bias=False, track_running_stats=False))
    state = model.state_dict()
    converted: Any = SyncBatchNorm.convert_sync_batchnorm(model)
    assert [type(m) for m in converted.modules()].count(SyncBatchNorm) == 3
    assert list(converted.state_dict()) == list(state)
    layer = converted[1][0]
    assert layer.weight is layers[0].weight
    assert layer.running_mean is layers[0].running_mean
    assert repr(layer) == repr(layers[0]).replace("BatchNorm1d", "SyncBatchNorm")
    first = converted[:2]
    out = first(st.randn(6, 2))
    np.testing.assert_allclose(out.detach().numpy().mean(0), 0, atol=1e-4)
    first.eval()
    assert first(st.randn(1, 2)).shape == (1, 3)
    with pytest.raises(ValueError, match="at least 2D"):
        layer(st.zeros(3))
