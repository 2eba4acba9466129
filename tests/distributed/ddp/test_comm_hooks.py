"""Communication hooks against NumPy over all ranks' gradients, and against PyTorch's."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import nn
from shmtensor.distributed import GradBucket
from shmtensor.distributed.algorithms import ddp_comm_hooks as hooks
from shmtensor.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
    PostLocalSGDState,
    post_localSGD_hook,
)
from shmtensor.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import (
    PowerSGDState,
    batched_powerSGD_hook,
    powerSGD_hook,
)
from shmtensor.distributed.algorithms.ddp_comm_hooks.quantization_hooks import (
    quantization_perchannel_hook,
    quantization_pertensor_hook,
)

from ..run_ranks import run, values

SHAPES = [(12, 10), (7,)]
SIZE = 127
SIDE = 12  # of the square matrix that 127 numbers fill


def gradients(ranks: int, steps: int, dtype: str = "float32") -> Any:
    """(ranks, steps, SIZE)"""
    return np.random.default_rng(5).standard_normal((ranks, steps, SIZE)).astype(dtype)


def by_hook(hook: Any, state: Any, dtype: str, q: Any = None) -> list[Any]:
    """The hook's results for this rank's gradients, step by step."""
    state = state() if callable(state) else state
    if q is not None:
        state.q_memory_dict[0, 0] = q
    steps = gradients(dist.get_world_size(), 3, dtype)[dist.get_rank()]
    parameters = [nn.Parameter(st.zeros(*shape)) for shape in SHAPES]
    results = []
    for g in steps:
        bucket = GradBucket(0, st.tensor(g), parameters, True)
        results.append(np.array(hook(state, bucket).wait().array))
    return results


def orthonormal(x: Any) -> Any:
    return np.linalg.qr(x)[0]


def batched_by_numpy(steps: Any, q: Any, feeds_back: bool, stays: bool) -> list[Any]:
    """The algorithm over the gradients (ranks, steps, n) of all ranks at once."""
    ranks = len(steps)
    error = np.zeros((ranks, SIDE, SIDE))
    results, first = [], q
    for at in range(steps.shape[1]):
        m = np.zeros((ranks, SIDE * SIDE))
        m[:, :SIZE] = steps[:, at]
        m = m.reshape(ranks, SIDE, SIDE) + error
        p = orthonormal((m @ (q if stays else first)).mean(0))
        q = (m.transpose(0, 2, 1) @ p).mean(0)
        if feeds_back:
            error = m - p @ q.T
        results.append((p @ q.T).reshape(-1)[:SIZE])
    return results


def power(**options: Any) -> PowerSGDState:
    hyperparameters = {"matrix_approximation_rank": 2, "start_powerSGD_iter": 0, **options}
    return PowerSGDState(None, **hyperparameters)


@pytest.mark.parametrize("feeds_back", [True, False])
def test_batched_power_is_the_algorithm_on_all_ranks_gradients(feeds_back: bool) -> None:
    results = values(
        run(
            by_hook,
            3,
            batched_powerSGD_hook,
            power(use_error_feedback=feeds_back),
            "float64",
            start_method="fork",
        )
    )
    q = np.random.default_rng(0).standard_normal((SIDE, 2))
    want = batched_by_numpy(gradients(3, 3, "float64"), q, feeds_back, True)
    for result in results:
        np.testing.assert_allclose(result, want, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(result, results[0])


def test_power_begins_with_uncompressed_averages() -> None:
    """For start_powerSGD_iter steps; a step ends with its last bucket."""
    state = power(start_powerSGD_iter=2, matrix_approximation_rank=1)
    results = values(run(by_hook, 2, powerSGD_hook, state, "float64", start_method="fork"))
    means = gradients(2, 3, "float64").mean(0)
    for result in results:
        np.testing.assert_allclose(result[:2], means[:2], rtol=1e-12)
        assert np.linalg.matrix_rank(result[2][:120].reshape(12, 10)) == 1
        np.testing.assert_allclose(result[2][120:], means[2][120:], rtol=1e-12)  # the bias


def stats(dtype: str) -> Any:
    state = power()
    state.process_group = dist.group.WORLD
    by_hook(powerSGD_hook, state, dtype)
    unpickled = pickle.loads(pickle.dumps(state))
    return state.compression_stats(), unpickled.process_group, sorted(unpickled.q_memory_dict)


def test_power_says_how_much_it_saved_and_is_pickled_without_its_group() -> None:
    for dtype in ("float32", "float16"):
        statistics, group, keys = values(run(stats, 2, dtype, start_method="fork"))[1]
        n_sent = (12 + 10) * 2 + 7
        assert statistics == (SIZE / n_sent, 3 * SIZE, 3 * n_sent)
        assert group is None
        assert keys == [(0, 0)]
    assert power().compression_stats() == (0.0, 0, 0)


def by_bytes(steps: Any, length: int) -> Any:
    """The mean of the ranks' numbers, quantized to 8 bits."""
    total = np.zeros(steps.shape[1:], np.float32)
    for g in steps:
        x = np.zeros((-(-g.size // length), length), np.float32)
        x.reshape(-1)[: g.size] = g
        lo, hi = np.minimum(x.min(1), 0)[:, None], np.maximum(x.max(1), 0)[:, None]
        scale = (hi - lo) / np.float32(255)
        zero = np.round(-lo / scale)
        q = np.clip(np.round(x / scale) + zero, 0, 255)
        total += (scale * (q - zero)).reshape(-1)[: g.size]
    return total / np.float32(len(steps))


def per_32(group: Any, bucket: GradBucket) -> Any:
    return quantization_perchannel_hook(group, bucket, 32)


@pytest.mark.parametrize(
    ("hook", "length"), [(quantization_pertensor_hook, SIZE), (per_32, 32)], ids=["tensor", "32"]
)
def test_quantization_is_the_mean_of_8_bit_numbers(hook: Any, length: int) -> None:
    results = values(run(by_hook, 3, hook, None, "float32", start_method="fork"))
    steps = gradients(3, 3)
    for result in results:
        for at in range(3):
            np.testing.assert_array_equal(result[at], by_bytes(steps[:, at], length))
            np.testing.assert_allclose(result[at], steps[:, at].mean(0), atol=0.02)


def strange() -> list[Any]:
    """Zeros; numbers far below one; one that is not finite on one rank."""
    results = []
    for x in (np.zeros(5), np.full(5, 1e-9), np.array([1.0, np.inf * dist.get_rank(), 0, 0, 0])):
        bucket = GradBucket(0, st.tensor(np.nan_to_num(x, nan=0.0, posinf=np.inf)), [], True)
        results.append(np.array(quantization_pertensor_hook(None, bucket).wait().array))
    return results


def test_quantization_of_strange_numbers() -> None:
    for zeros, tiny, infinite in values(run(strange, 2, start_method="fork")):
        assert (zeros == 0).all()
        np.testing.assert_allclose(tiny, 1e-9, rtol=0.01)
        assert np.isnan(infinite).all()  # never a finite number


@pytest.mark.torch
def test_hooks_are_those_of_pytorch(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    q = rng.standard_normal((SIDE, 2)).astype("f4")
    q_each = rng.standard_normal((10, 2)).astype("f4")
    np.savez(tmp_path / "gradients.npz", g=gradients(2, 3), q=q, q_each=q_each)
    command = [sys.executable, "-m", "tests.distributed.ddp.torch_comm_hooks", str(tmp_path)]
    root = Path(__file__).resolve().parents[3]
    completed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
    want = np.load(tmp_path / "results.npz")
    for name, hook, first in (
        ("batched", batched_powerSGD_hook, q),
        ("each", powerSGD_hook, q_each),
    ):
        result = values(run(by_hook, 1, hook, power(), "float32", first, start_method="fork"))[0]
        np.testing.assert_allclose(result, want[name], rtol=1e-3, atol=1e-5)
    for name, hook in (("tensor", quantization_pertensor_hook), ("channel", per_32)):
        result = values(run(by_hook, 2, hook, None, "float32", start_method="fork"))[0]
        np.testing.assert_allclose(result[0], want[name], rtol=1e-5, atol=1e-6)


def post_local(gives_subgroup: bool, reduces: bool) -> list[Any]:
    """Gradients of three steps, local from the second on."""
    rank = dist.get_rank()
    subgroup, _ = dist.new_subgroups(2) if gives_subgroup else (None, None)
    state = PostLocalSGDState(None, subgroup, 1, post_local_gradient_allreduce=reduces)
    model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1, bias=False).double())
    model.register_comm_hook(state, post_localSGD_hook)
    results = []
    for step in range(3):
        model.zero_grad()
        model(st.full((1, 1), float(rank + 10 * step), dtype=st.float64)).sum().backward()
        results.append(float(model.module.weight.grad.item()))
    assert state.iter == 1
    return results


def test_post_local_averages_over_all_then_over_the_subgroup() -> None:
    results = values(run(post_local, 4, True, True, start_method="fork"))
    assert results == [[1.5, 10.5, 20.5]] * 2 + [[1.5, 12.5, 22.5]] * 2
    results = values(run(post_local, 2, False, False, start_method="fork"))
    assert results == [[0.5, 10, 20], [0.5, 11, 21]]
    # the default subgroup is that of the machine
    results = values(run(post_local, 2, False, True, start_method="fork"))
    assert results == [[0.5, 10.5, 20.5]] * 2


def registered(name: str) -> Any:
    rank = dist.get_rank()
    model = nn.parallel.DistributedDataParallel(nn.Linear(3, 2).double())
    hooks.register_ddp_comm_hook(hooks.DDPCommHookType[name], model, dist.group.WORLD)
    model(st.full((1, 3), rank + 1.0, dtype=st.float64)).sum().backward()
    return model.module.weight.grad.tolist()


def test_hooks_by_name() -> None:
    want = [[1.5] * 3] * 2
    assert len(hooks.DDPCommHookType) == 10
    for name in ("ALLREDUCE", "QUANTIZE_PER_CHANNEL", "BATCHED_POWER_SGD_RANK2"):
        for result in values(run(registered, 2, name, start_method="fork")):
            np.testing.assert_allclose(result, want, rtol=1e-2)
    unreduced = values(run(registered, 2, "NOOP", start_method="fork"))
    assert [each[0][0] for each in unreduced] == [1, 2]
