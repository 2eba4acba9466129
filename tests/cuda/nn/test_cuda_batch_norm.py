"""Batch norm in training on a GPU: running statistics, gradients, and calls that are rare."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional as F
from tests.cuda.nn.comparison import compare, near


def numbers(*shape: int, seed: int = 0, dtype: str = "float32") -> Any:
    return (np.random.default_rng(seed).standard_normal(shape) * 3 + 1).astype(dtype)


@pytest.mark.parametrize(
    "shape", [(5, 3), (100, 40), (4, 3, 5), (40, 3, 4, 5), (2, 3, 30, 20), (2, 3, 2, 3, 4)], ids=str
)
@pytest.mark.parametrize("momentum", [0.1, 1.0, None, 0.0])
def test_a_layer_in_training_and_evaluation(
    cp: Any, shape: tuple[int, ...], momentum: float | None
) -> None:
    kind = "1d" if len(shape) < 4 else f"{len(shape) - 2}d"

    def run(device: str) -> list[Any]:
        layer = getattr(st.nn, f"BatchNorm{kind}")(shape[1], momentum=momentum).to(device)
        for i, p in enumerate(layer.parameters()):
            p.data.copy_(st.tensor(numbers(shape[1], seed=i + 5)))
        results = []
        for i in range(3):
            x = st.tensor(numbers(*shape, seed=i)).to(device).requires_grad_()
            out = layer(x)
            (out * out * out).sum().backward()
            results += [out, x.grad, layer.running_mean.clone(), layer.running_var.clone()]
        results += [layer.num_batches_tracked, layer.weight.grad, layer.bias.grad]
        return [*results, layer.eval()(x)]

    compare(run, 1e-3)


@pytest.mark.parametrize(
    ("dtype", "running"), [("float64", "float64"), ("float16", "float16"), ("float16", "float32")]
)
def test_dtypes_of_running_statistics(cp: Any, dtype: str, running: str) -> None:
    x = numbers(20, 3, 4, 4, dtype=dtype)
    means, variances = numbers(3, seed=1, dtype=running), abs(numbers(3, seed=2, dtype=running))

    def run(device: str) -> list[Any]:
        kept = [st.tensor(v).to(device) for v in (means, variances)]
        out = F.batch_norm(st.tensor(x).to(device), *kept, training=True, momentum=0.3)
        return [out, *kept]

    compare(run, 1e-12 if dtype == "float64" else 4e-3)


def test_running_statistics_in_memory_with_gaps_and_views(cp: Any) -> None:
    x = numbers(6, 3, 4, 4)

    def run(device: str) -> list[Any]:
        wide = st.tensor(abs(numbers(12, seed=1))).to(device)
        image = st.tensor(x).to(device)
        for means, variances in (
            (wide[:6:2], wide[6::2]),
            (wide[:3], wide[3:6]),
            (wide[6:9], wide[9:]),
        ):
            F.batch_norm(image, means, variances, training=True, momentum=0.25)
        F.batch_norm(image, wide[:3], None, training=True, momentum=0.25)
        F.batch_norm(image, None, wide[4:7], training=True, momentum=0.25)
        return [wide]

    compare(run)


@pytest.mark.parametrize("layout", ["transposed", "channels_last", "strided", "expanded"])
def test_inputs_that_are_not_contiguous(cp: Any, layout: str) -> None:
    def run(device: str) -> list[Any]:
        x = st.tensor(numbers(6, 3, 4, 8)).to(device)
        if layout == "channels_last":
            x = x.contiguous(memory_format=st.channels_last)
        x = {"transposed": x.transpose(2, 3), "strided": x[:, :, :, ::2]}.get(layout, x)
        x = x[:1].expand(6, 3, 4, 8) if layout == "expanded" else x
        means, variances = st.zeros(3).to(device), st.ones(3).to(device)
        out = F.batch_norm(x, means, variances, training=True)
        return [out, means, variances]

    compare(run)


def test_each_update_counts_one_write(cp: Any) -> None:
    versions = []
    for device in ("cuda", "cpu"):
        base = st.ones(6).to(device)
        means, variances = base[:3], st.ones(3).to(device)
        x = st.tensor(numbers(6, 3)).to(device)
        F.batch_norm(x, means, variances, training=True)
        F.batch_norm(x, means, variances, training=True)
        F.batch_norm(x, means, variances)
        versions.append([means._version, variances._version, base._version])
    assert versions[0] == versions[1]
    assert versions[0][0] == 2


def test_a_saved_running_mean_that_was_updated_is_an_error(cp: Any) -> None:
    x = st.tensor(numbers(6, 3)).cuda()
    means, variances = st.ones(3).cuda(), st.ones(3).cuda()
    w = st.ones(3).cuda().requires_grad_()
    product = (w * means).sum()
    F.batch_norm(x, means, variances, training=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_inference_tensors_are_not_updated(cp: Any) -> None:
    x = st.tensor(numbers(6, 3)).cuda()
    with st.inference_mode():
        means, variances = st.zeros(3).cuda(), st.ones(3).cuda()
        F.batch_norm(x, means, variances, training=True)
    with pytest.raises(RuntimeError, match="inference"):
        F.batch_norm(x, means, variances, training=True)
    near(means, st.tensor(x.cpu().numpy().mean(0) * np.float32(0.1)))


def test_running_statistics_are_no_part_of_the_graph(cp: Any) -> None:
    means = st.zeros(3).cuda().requires_grad_()
    variances = st.ones(3).cuda().requires_grad_()
    x = st.tensor(numbers(6, 3)).cuda()
    out = F.batch_norm(x, means, variances, training=True)
    assert not out.requires_grad
    assert means.is_leaf
    assert means.cpu().detach().numpy().any()


def test_one_value_per_channel_raises_and_changes_nothing(cp: Any) -> None:
    means, variances = st.zeros(3).cuda(), st.ones(3).cuda()
    for shape in ((1, 3), (1, 3, 1, 1)):
        with pytest.raises(ValueError, match="more than 1 value per channel"):
            F.batch_norm(st.ones(shape).cuda(), means, variances, training=True)
    empty = F.batch_norm(st.ones(0, 3, 2).cuda(), means, variances, training=True)
    assert tuple(empty.shape) == (0, 3, 2)
    assert means._version == variances._version == 0


def test_double_backward(cp: Any) -> None:
    def run(device: str) -> list[Any]:
        x = st.tensor(numbers(4, 3, 5, dtype="float64")).to(device).requires_grad_()
        weight = st.tensor(numbers(3, seed=1, dtype="float64")).to(device).requires_grad_()
        means, variances = (f(3, dtype=st.float64).to(device) for f in (st.zeros, st.ones))
        out = F.batch_norm(x, means, variances, weight, training=True)
        (g,) = st.autograd.grad((out**3).sum(), x, create_graph=True)
        return [g, *st.autograd.grad((g * g).sum(), [x, weight]), means, variances]

    compare(run, 1e-8)


def test_backward_twice_and_after_a_checkpoint(cp: Any) -> None:
    def run(device: str) -> list[Any]:
        layer = st.nn.BatchNorm1d(3).to(device)
        x = st.tensor(numbers(4, 3)).to(device).requires_grad_()
        loss = (layer(x) ** 3).sum()
        loss.backward(retain_graph=True)
        loss.backward()
        cubes = st.utils.checkpoint.checkpoint(lambda x: layer(x) ** 3, x, use_reentrant=False)
        cubes.sum().backward()
        return [x.grad, layer.weight.grad, layer.running_mean, layer.running_var]

    compare(run, 1e-4)


def test_transforms(cp: Any) -> None:
    def run(device: str) -> list[Any]:
        x = st.tensor(numbers(2, 4, 3)).to(device)
        weights = st.tensor(numbers(2, 3, seed=1)).to(device)
        means, variances = st.zeros(3).to(device), st.ones(3).to(device)

        def loss(x: Any, weight: Any) -> Any:
            return (F.batch_norm(x, None, None, weight, training=True) ** 3).sum()

        def updating(x: Any) -> Any:
            return (F.batch_norm(x, means, variances, training=True) ** 3).sum()

        per_example = st.func.vmap(st.func.grad(loss))(x, weights)
        return [per_example, st.func.grad(updating)(x[0]), means, variances]

    compare(run, 1e-3)


def test_updates_on_a_stream_of_its_own(cp: Any) -> None:
    x = st.tensor(numbers(8, 3, 4, 4))
    far, means, variances = x.cuda(), st.zeros(3).cuda(), st.ones(3).cuda()
    stream = st.cuda.Stream()
    stream.wait_stream(st.cuda.current_stream())
    with st.cuda.stream(stream):
        for _ in range(3):
            out = F.batch_norm(far, means, variances, training=True)
    st.cuda.current_stream().wait_stream(stream)
    expected_means, expected_variances = st.zeros(3), st.ones(3)
    for _ in range(3):
        expected = F.batch_norm(x, expected_means, expected_variances, training=True)
    near(out, expected)
    near(means, expected_means)
    near(variances, expected_variances)


def test_the_second_device(two_devices: Any) -> None:
    x = st.tensor(numbers(8, 3))
    means, variances = st.zeros(3, device="cuda:1"), st.ones(3, device="cuda:1")
    out = F.batch_norm(x.to("cuda:1"), means, variances, training=True)
    near(out, F.batch_norm(x, None, None, training=True))
    assert str(out.device) == str(means.device) == "cuda:1"
    with pytest.raises(RuntimeError, match="same device"):
        F.batch_norm(x.to("cuda:0"), means, variances, training=True)
    with pytest.raises(RuntimeError, match="same device"):
        F.batch_norm(x.to("cuda:1"), means, variances, st.ones(3, device="cuda:0"), training=True)


def test_expanded_running_statistics_are_refused(cp: Any) -> None:
    means, variances = st.zeros(1).cuda().expand(3), st.ones(3).cuda()
    with pytest.raises((RuntimeError, ValueError)):
        F.batch_norm(st.tensor(numbers(6, 3)).cuda(), means, variances, training=True)
    assert means.cpu().numpy().tolist() == [0, 0, 0]


def test_running_statistics_on_the_host_are_refused(cp: Any) -> None:
    with pytest.raises(RuntimeError, match="device"):
        F.batch_norm(st.ones(4, 3).cuda(), st.zeros(3), st.ones(3), training=True)


@pytest.mark.parametrize("shape", [(6, 3), (6, 3, 4)], ids=str)
def test_instance_norm_with_running_statistics(cp: Any, shape: tuple[int, ...]) -> None:
    def run(device: str) -> list[Any]:
        means, variances = st.zeros(3).to(device), st.ones(3).to(device)
        out = F.instance_norm(st.tensor(numbers(6, 3, 4)).to(device), means, variances)
        return [out, means, variances]

    compare(run)


def test_sums_are_the_same_at_each_call(cp: Any) -> None:
    x = st.tensor(numbers(300, 3, 7)).cuda().requires_grad_()
    seen = set()
    for _ in range(3):
        means, variances = st.zeros(3).cuda(), st.ones(3).cuda()
        out = F.batch_norm(x, means, variances, training=True)
        (g,) = st.autograd.grad((out**3).sum(), x)
        seen.add(b"".join(v.detach().cpu().numpy().tobytes() for v in (out, g, means, variances)))
    assert len(seen) == 1


def test_a_call_is_two_launches(cp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from shmtensor.ops.cuda import norm

    launched: list[str] = []
    prepare = norm.prepare

    def counting(source: str, function: str, *arguments: Any) -> Any:
        run = prepare(source, function, *arguments)

        def launch(*arrays: Any) -> None:
            launched.append(function)
            run(*arrays)

        return launch

    monkeypatch.setattr(norm, "prepare", counting)
    x = st.tensor(numbers(50, 3, 11)).cuda().requires_grad_()
    out = F.batch_norm(x, st.zeros(3).cuda(), st.ones(3).cuda(), training=True)
    out.backward(st.ones_like(out))
    assert launched == [
        "moments_planes", "batch_norm_planes", "gradient_sums_planes", "batch_norm_backward_planes",
    ]  # fmt: skip
