"""Several ranks train as one process does: in float64 to 1e-12 over 50 steps, in every usual
situation.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.dataloaders import DataLoader, Dataset, TensorDataset
from shmtensor.dataloaders.loader.seeding import seed_everything
from shmtensor.nn import functional as F
from shmtensor.trainer import Callback, Trainer
from shmtensor.trainer.ranks import Ranks
from shmtensor.trainer.run import SAME, Pass

EPOCHS, STEPS = 5, 10
Data = list[tuple[Any, Any]]


def classes(n: int = 8) -> Data:
    """Batches of n samples with one of 3 classes."""
    rng = np.random.default_rng(5)
    return [
        (st.tensor(rng.standard_normal((n, 6))), st.tensor(rng.integers(0, 3, n)))
        for _ in range(STEPS)
    ]


def net() -> Any:
    st.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3)).double()


def adam(model: Any) -> Any:
    return optim.Adam(model.parameters(), lr=0.01, weight_decay=0.1)


def momentum(model: Any) -> Any:
    return optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)


def fit(
    nprocs: int,
    loss: Any,
    data: Any,
    make_net: Callable[[], Any] = net,
    make_optimizer: Callable[[Any], Any] = adam,
    prepare: Callable[[Trainer], dict[str, Any]] | None = None,
    **options: Any,
) -> Trainer:
    model = make_net()
    trainer = Trainer(
        model, make_optimizer(model), loss, nprocs=nprocs, progress=False, timeout=60, **options
    )
    arguments = {} if prepare is None else prepare(trainer)
    trainer.fit(data, EPOCHS, **arguments)
    return trainer


def check_same(*arguments: Any, ranks: tuple[int, ...] = (3,), **options: Any) -> Trainer:
    """Trains with one process and with several ranks, and compares; returns the last."""
    one = fit(1, *arguments, **options)
    for nprocs in ranks:
        several = fit(nprocs, *arguments, **options)
        for (name, x), y in zip(
            one.model.state_dict().items(), several.model.state_dict().values(), strict=True
        ):
            np.testing.assert_allclose(
                y.numpy(), x.numpy(), rtol=1e-12, atol=1e-12, err_msg=f"{name}, {nprocs} ranks"
            )
        np.testing.assert_allclose(several.history["loss"], one.history["loss"], rtol=1e-11)
        assert one.step == several.step == EPOCHS * STEPS
    return several


# ---------------------------------------------------------------- what a loss is divided by
def with_ignored() -> Data:
    """The first half of each batch is ignored, of some more; of the last batch all."""
    data = classes(9)
    for i, (_, y) in enumerate(data):
        y[: 5 if i % 2 else 2] = -100
    data[-1][1][:] = -100
    return data


@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), F.cross_entropy])
def test_ignored_targets(loss: Any) -> None:
    check_same(loss, with_ignored(), ranks=(2, 3))


def test_another_ignored_index_and_class_weights() -> None:
    data = [(x, st.where(y < 0, 7, y)) for x, y in with_ignored()]
    weight = st.tensor([0.2, 1.0, 3.0], dtype=st.float64)
    check_same(nn.CrossEntropyLoss(weight=weight, ignore_index=7), data)


def test_sums() -> None:
    check_same(nn.CrossEntropyLoss(reduction="sum"), classes(7))


class Tokens(nn.Module):
    """(N, 5) tokens -> (N, 4 classes, 5)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(6, 8), nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.out(self.embed(x)).transpose(1, 2)


def test_means_over_tokens() -> None:
    rng = np.random.default_rng(2)
    data = []
    for _ in range(STEPS):
        x, y = rng.integers(0, 6, (7, 5)), rng.integers(0, 4, (7, 5))
        for i, n in enumerate(rng.integers(1, 6, 7)):
            y[i, n:] = -100  # padding
        data.append((st.tensor(x), st.tensor(y)))

    def tokens() -> Any:
        st.manual_seed(3)
        return Tokens().double()

    check_same(nn.CrossEntropyLoss(), data, tokens)


def test_a_loss_that_says_its_weight() -> None:
    def loss(outputs: Any, targets: Any) -> tuple[Any, Any]:
        mask = (targets > 0).double()
        each = F.cross_entropy(outputs, targets, reduction="none")
        return (each * mask).sum() / mask.sum().clamp(min=1.0), mask.sum()

    check_same(loss, classes(5))


def test_probabilities_as_targets() -> None:
    data = [(x, F.one_hot(y, 3).double() * 0.8 + 0.1) for x, y in classes()]
    check_same(nn.CrossEntropyLoss(), data)


class Weighted(nn.Module):
    """A loss with a parameter, and a buffer that it changes."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(st.ones(3).double())
        self.register_buffer("calls", st.zeros(1))

    def forward(self, outputs: Any, targets: Any) -> Any:
        self.calls += 1
        return F.cross_entropy(outputs * self.scale, targets)


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_a_loss_with_parameters_and_buffers(start_method: str) -> None:
    scales = []
    for nprocs in (1, 2):
        model, loss = net(), Weighted()
        adam = optim.Adam([*model.parameters(), *loss.parameters()], lr=0.01)
        trainer = Trainer(
            model, adam, loss, nprocs=nprocs, progress=False, start_method=start_method
        )
        trainer.fit(classes(), 1)
        assert float(loss.calls) == STEPS  # those of rank 0
        scales.append(loss.scale.detach().numpy())
    np.testing.assert_allclose(scales[1], scales[0], rtol=1e-12)


def test_a_loss_per_sample_is_refused() -> None:
    with pytest.raises(TypeError, match=r"a tensor of one element.*got \(8,\)"):
        fit(1, nn.CrossEntropyLoss(reduction="none"), classes())


# ---------------------------------------------------------------- the program's own step
def with_figures(model: Any, batch: Any) -> dict[str, Any]:
    x, y = batch
    return {
        "loss": F.cross_entropy(model(x), y), "mean": x.mean(), "one": True,
        "numpy": np.float64(2.0), "bool": np.bool_(True), "array": np.array([3.0]), "text": "no",
    }  # fmt: skip


def test_figures_count_the_samples_of_this_step_alone() -> None:
    data = classes()
    data[-1] = tuple(x[:3] for x in data[-1])  # some ranks have no samples
    mean = sum(float(x.sum()) for x, _ in data) / (6 * 75)
    for nprocs in (1, 2, 3):
        (figures, *_) = fit(nprocs, None, data, training_step=with_figures).history.epochs
        expected = {"mean": mean, "one": 1, "numpy": 2, "bool": 1, "array": 3}
        assert figures.metrics == pytest.approx(expected, rel=1e-12)


def test_figures_that_differ_between_ranks_are_refused() -> None:
    def step(model: Any, batch: Any) -> dict[str, Any]:
        x, y = batch
        loss = F.cross_entropy(model(x), y)
        return {"loss": loss, "some": 1.0, "all": 1.0} if x[0, 0] > 0 else {"loss": loss, "all": 1}

    data = classes()
    data[0][0][:, 0] = st.tensor([-1.0] * 4 + [1.0] * 4)
    assert fit(1, None, data, training_step=step).history["all"][0] == 1
    with pytest.raises(ValueError, match=r"other figures on another rank than \['all'\]"):
        fit(2, None, data, training_step=step)


@pytest.mark.parametrize("second", [momentum, lambda model: SignSGD(model.parameters())])
def test_a_step_that_is_left_out_for_one_of_two_optimizers(second: Any) -> None:
    def every_second(model: Any, batch: Any, i: int) -> Any:
        x, y = batch
        if i and int(x[0, 0].item()) == 0:
            return None
        return F.cross_entropy(model(x[:, 1:]), y)

    data = [(st.cat([st.full((7, 1), i % 2).double(), x], 1), y[:7])
            for i, (x, y) in enumerate(classes(7))]  # fmt: skip
    trainer = check_same(
        None, data, make_optimizer=lambda model: [adam(model[0]), second(model[2])],
        training_step=every_second,
    )  # fmt: skip
    means = trainer.history["loss_1"]
    assert means[-1] == pytest.approx(trainer.history["loss"][-1], rel=0.2)  # not half of it


# ---------------------------------------------------------------- what the program changes
def test_options_changed_after_steps_and_epochs() -> None:
    def prepare(trainer: Trainer) -> dict[str, Any]:
        group = trainer.optimizer.param_groups[0]

        def on_step(step: int) -> None:
            group["lr"] = 0.05 / step
            group["momentum"] = 0.5 if step % 2 else 0.9

        def on_epoch(record: Any) -> None:
            group["weight_decay"] = 0.01 * record.epoch

        return {"on_step": on_step, "on_epoch": on_epoch}

    check_same(nn.CrossEntropyLoss(), classes(), make_optimizer=momentum, prepare=prepare)


def test_a_group_added_after_an_epoch() -> None:
    def first_layer(model: Any) -> Any:
        model[2].requires_grad_(False)
        return optim.Adam(model[0].parameters(), lr=0.01)

    def prepare(trainer: Trainer) -> dict[str, Any]:
        def on_epoch(record: Any) -> None:
            if record.epoch == 2:
                trainer.model[2].requires_grad_(True)
                params = list(trainer.model[2].parameters())
                trainer.optimizer.add_param_group({"params": params, "lr": 0.1})

        return {"on_epoch": on_epoch}

    check_same(nn.CrossEntropyLoss(), classes(), make_optimizer=first_layer, prepare=prepare)


@pytest.mark.parametrize("when", ["on_step", "on_epoch"])
def test_frozen_parameters(when: str) -> None:
    def prepare(trainer: Trainer) -> dict[str, Any]:
        calls = []

        def change(_: Any) -> None:
            calls.append(1)
            if len(calls) in (2, 4):
                trainer.model[0].requires_grad_(len(calls) == 4)

        return {when: change}

    check_same(nn.CrossEntropyLoss(), classes(), make_optimizer=momentum, prepare=prepare)


HOOKS = ["on_epoch_begin", "on_step", "on_eval_begin", "on_eval_end", "on_epoch_end"]


@pytest.mark.parametrize("when", HOOKS)
@pytest.mark.parametrize("second", [momentum, lambda model: SignSGD(model.parameters())])
def test_parameters_frozen_by_a_callback(when: str, second: Any) -> None:
    def change(self: Any, trainer: Trainer) -> None:
        for layer in (0, 2):
            trainer.model[layer].requires_grad_((trainer.epoch + layer) % 3 > 0)

    def step(model: Any, batch: Any, i: int = 0) -> Any:
        return F.cross_entropy(model(batch[0]), batch[1])

    def prepare(trainer: Trainer) -> dict[str, Any]:
        trainer.callbacks.append(type("Freezing", (Callback,), {when: change})())
        return {"eval": classes(), "eval_every": 7}

    check_same(
        None, classes(), make_optimizer=lambda model: [adam(model[0]), second(model[2])],
        prepare=prepare, training_step=step, eval_step=step,
    )  # fmt: skip


@pytest.mark.parametrize("make_optimizer", [momentum, lambda model: SignSGD(model.parameters())])
def test_a_step_that_freezes_the_other_optimizers_parameters(make_optimizer: Any) -> None:
    def step(model: Any, batch: Any, i: int) -> Any:
        model[0].requires_grad_(i == 0)
        model[2].requires_grad_(i == 1)
        return F.cross_entropy(model(batch[0]), batch[1])

    def frozen() -> Any:
        model = net()
        model[0].requires_grad_(False)  # as after such a step
        return model

    check_same(
        None, classes(), frozen, lambda model: [make_optimizer(model[0]), adam(model[2])],
        training_step=step,
    )  # fmt: skip


def test_a_parameter_replaced_during_evaluations() -> None:
    class Doubled(Callback):
        def on_eval_begin(self, trainer: Trainer) -> None:
            self.bias = trainer.model[2].bias.data
            trainer.model[2].bias.data = self.bias * 2

        def on_eval_end(self, trainer: Trainer) -> None:
            trainer.model[2].bias.data = self.bias

    def prepare(trainer: Trainer) -> dict[str, Any]:
        trainer.callbacks.append(Doubled())
        return {"eval": classes(), "eval_every": 30}

    several = check_same(nn.CrossEntropyLoss(), classes(), prepare=prepare, ranks=(2,))
    one = fit(1, nn.CrossEntropyLoss(), classes(), prepare=prepare)
    np.testing.assert_allclose(several.history["eval_loss"], one.history["eval_loss"], rtol=1e-11)


def test_parameters_frozen_from_the_beginning() -> None:
    def half(model: Any) -> Any:
        model[0].requires_grad_(False)
        return momentum(model)

    check_same(nn.CrossEntropyLoss(), classes(), make_optimizer=half)


def test_a_parameter_replaced_after_an_epoch() -> None:
    def prepare(trainer: Trainer) -> dict[str, Any]:
        def on_epoch(record: Any) -> None:
            if record.epoch == 2:
                bias = trainer.model[2].bias
                bias.data = st.tensor([0.5, -0.5, 0.25], dtype=st.float64)

        return {"on_epoch": on_epoch}

    check_same(nn.CrossEntropyLoss(), classes(), prepare=prepare)


def test_parameters_without_an_optimizer_are_named() -> None:
    def some(model: Any) -> Any:
        return optim.Adam(model[0].parameters())

    with pytest.raises(ValueError, match=r"lacks 2 of .*: 2\.weight, 2\.bias: add them"):
        fit(2, nn.CrossEntropyLoss(), classes(), make_optimizer=some)
    fit(2, nn.CrossEntropyLoss(), classes(), make_optimizer=some, check_parameters=False)


class TwoHeads(nn.Module):
    """The second head is used if the batch's first number is positive."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 3), nn.Linear(6, 3)
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        out = self.first(x)
        return out + self.second(x) if float(x[0, 0]) > 0 else out


@pytest.mark.parametrize("make_optimizer", [adam, momentum])
def test_parameters_unused_in_some_steps(make_optimizer: Any) -> None:
    data = classes()
    for i, (x, _) in enumerate(data):
        x[:, 0] = x[:, 0].abs() * (1 if i % 3 else -1)

    def heads() -> Any:
        st.manual_seed(4)
        return TwoHeads().double()

    check_same(nn.CrossEntropyLoss(), data, heads, make_optimizer)


# ---------------------------------------------------------------- hooks and other optimizers
def test_hooks_of_the_optimizer_see_the_reduced_gradients() -> None:
    norms: list[list[float]] = []

    def prepare(trainer: Trainer) -> dict[str, Any]:
        norms.append([])

        def clip(*_: Any) -> None:
            norms[-1].append(float(nn.utils.clip_grad_norm_(trainer.model.parameters(), 0.3)))

        trainer.optimizer.register_step_pre_hook(clip)
        return {}

    check_same(nn.CrossEntropyLoss(), classes(), prepare=prepare)
    np.testing.assert_allclose(norms[1], norms[0], rtol=1e-10)


class SignSGD(optim.Optimizer):
    """An optimizer of a user's own."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.01})

    def step(self, closure: Any = None) -> None:
        with st.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        p.add_(p.grad.sign() * -group["lr"])


def test_any_optimizer() -> None:
    check_same(
        nn.CrossEntropyLoss(), classes(), make_optimizer=lambda model: SignSGD(model.parameters())
    )


def test_a_scaler() -> None:
    scalers = []

    def prepare(trainer: Trainer) -> dict[str, Any]:
        trainer.scaler = st.amp.GradScaler("cpu", 256.0, growth_interval=7)
        scalers.append(trainer.scaler)
        return {}

    check_same(nn.CrossEntropyLoss(), classes(), prepare=prepare)
    assert len({scaler.get_scale() for scaler in scalers}) == 1


def test_hooks_and_attributes_of_modules_are_those_of_rank_0() -> None:
    model = TwoHeads().double()
    seen: list[int] = []
    model.register_forward_hook(lambda module, args, out: seen.append(len(args[0])))
    trainer = Trainer(model, adam(model), nn.CrossEntropyLoss(), nprocs=2, progress=False)
    trainer.fit(classes(), 2)
    assert seen == [4] * 2 * STEPS
    assert model.calls == 2 * STEPS


# ---------------------------------------------------------------- limits of the gradients
@pytest.mark.parametrize("make_optimizer", [adam, momentum, lambda m: SignSGD(m.parameters())])
def test_clipped_gradients(make_optimizer: Any) -> None:
    check_same(
        nn.CrossEntropyLoss(), classes(7), make_optimizer=make_optimizer, clip_grad_norm=0.3,
        clip_grad_value=0.05,
    )  # fmt: skip


def test_a_norm_that_is_nan_makes_all_weights_nan() -> None:
    data = [(x, y) for x, y in classes()[:1]]
    for nprocs in (1, 3):
        model = net()
        model[0].bias.register_hook(lambda g: g * float("nan"))
        trainer = Trainer(
            model, momentum(model), nn.CrossEntropyLoss(), nprocs=nprocs, progress=False,
            clip_grad_norm=0.3,
        )  # fmt: skip
        trainer.fit(data, 1)
        assert all(bool(p.isnan().all()) for p in model.parameters())


@pytest.mark.parametrize("dtype", [st.float16, st.bfloat16])
def test_norms_of_gradients_of_16_bits(dtype: Any) -> None:
    def steep(outputs: Any, targets: Any) -> Any:
        return F.cross_entropy(outputs.float(), targets) * 3000  # the norm's square overflows

    data = [(x.to(dtype), y) for x, y in classes()]
    one, two = (
        fit(nprocs, steep, data, lambda: net().to(dtype), momentum, clip_grad_norm=0.1)
        for nprocs in (1, 2)
    )
    for x, y in zip(one.model.parameters(), two.model.parameters(), strict=True):
        np.testing.assert_allclose(y.float().detach(), x.float().detach(), atol=0.02)


# ---------------------------------------------------------------- batches
def numbers(n: int = 80) -> Any:
    rng = np.random.default_rng(7)
    return TensorDataset(st.tensor(rng.standard_normal((n, 6))), st.tensor(rng.integers(0, 3, n)))


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_ranks_load_the_samples_of_one_process(workers: int) -> None:
    data = numbers()
    loaders = [DataLoader(data, 8, shuffle=True, num_workers=workers) for _ in range(3)]
    one = fit(1, nn.CrossEntropyLoss(), loaders[0])
    for nprocs, loader in ((2, loaders[1]), (3, loaders[2])):
        several = fit(nprocs, nn.CrossEntropyLoss(), loader)
        for x, y in zip(one.model.parameters(), several.model.parameters(), strict=True):
            np.testing.assert_allclose(y.detach().numpy(), x.detach().numpy(), rtol=1e-12)
        assert several.statistics().tensor_bytes_copied == 0
    for loader in loaders:
        loader.close()


class Scaled(Dataset[Any]):
    """Samples that the program changes between epochs."""

    def __init__(self, nbytes: int) -> None:
        self.data, self.factor = numbers(), 1.0
        self.ballast = np.zeros(nbytes, np.uint8)  # private: larger than what is sent

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        x, y = self.data[index]
        return x * self.factor, y


@pytest.mark.parametrize("nbytes", [0, 8 << 20])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_set_that_changes_between_epochs(nbytes: int, workers: int) -> None:
    fits = []
    for nprocs in (1, 2):
        data = Scaled(nbytes)

        def on_epoch(record: Any, data: Scaled = data) -> None:
            data.factor *= 1.5

        with DataLoader(data, 8, num_workers=workers) as loader:
            model = net()
            trainer = Trainer(
                model, adam(model), nn.CrossEntropyLoss(), nprocs=nprocs, progress=False
            )
            trainer.fit(loader, 3, on_epoch=on_epoch)
        fits.append(trainer)
    np.testing.assert_allclose(fits[1].history["loss"], fits[0].history["loss"], rtol=1e-11)


def test_a_list_that_changes_between_epochs() -> None:
    def prepare(trainer: Trainer) -> dict[str, Any]:
        data[:] = classes()

        def on_epoch(record: Any) -> None:
            data.append(data.pop(0))
            data[0] = (data[0][0] * 2, data[0][1])

        return {"on_epoch": on_epoch}

    data: Data = []
    check_same(nn.CrossEntropyLoss(), data, prepare=prepare)


def test_a_list_is_sent_again_if_it_has_other_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    broadcast = Ranks.broadcast

    def noting(self: Any, obj: Any = None) -> Any:
        if isinstance(obj, Pass):
            sent.append("list" if isinstance(obj.order, list) else obj.order)
        return broadcast(self, obj)

    monkeypatch.setattr(Ranks, "broadcast", noting)

    def prepare(trainer: Trainer) -> dict[str, Any]:
        def on_epoch(record: Any) -> None:
            x = data[0][0]
            if record.epoch == 1:
                x.mul_(0.5)  # in place: the ranks see it
            elif record.epoch == 2:
                x.data = x * 2
            elif record.epoch == 3:
                data[:2] = data[1::-1]

        data[:] = classes()
        return {"on_epoch": on_epoch}

    data: Data = []
    check_same(nn.CrossEntropyLoss(), data, prepare=prepare, ranks=(2,))
    assert sent[-EPOCHS:] == ["list", SAME, "list", "list", SAME]


def test_batches_of_a_collate_fn_are_handed_over() -> None:
    def collate(samples: Any) -> Any:
        return st.stack([x for x, _ in samples]) * 2, st.stack([y for _, y in samples])

    check_same(nn.CrossEntropyLoss(), DataLoader(numbers(), 8, collate_fn=collate))


def test_a_generator_of_batches() -> None:
    class Stream:
        def __iter__(self) -> Any:
            yield from classes()

    check_same(nn.CrossEntropyLoss(), Stream())


@pytest.mark.parametrize(("total", "sizes"), [(3, [3, 0]), (5, [2, 3]), (1, [1, 0]), (2, [2, 0])])
def test_no_rank_gets_a_single_sample(total: int, sizes: list[int]) -> None:
    from shmtensor.trainer.batches import split_range

    ranges = [split_range(total, rank, 2) for rank in range(2)]
    assert [end - begin for begin, end in ranges] == sizes


# ---------------------------------------------------------------- the caller's state
@pytest.mark.parametrize("nprocs", [1, 2])
def test_fit_leaves_the_callers_state(nprocs: int) -> None:
    model = net()
    model.eval()
    threads, drawn = st.get_num_threads(), []
    for trains in (False, True):
        seed_everything(9)
        if trains:
            trainer = Trainer(
                model, adam(model), nn.CrossEntropyLoss(), nprocs=nprocs, progress=False
            )
            with st.no_grad():
                trainer.fit(classes(), 1)
                trainer.evaluate(classes())
                assert not st.is_grad_enabled()
        drawn.append([*st.rand(4).tolist(), np.random.rand(), random.random()])
    assert drawn[0] == drawn[1]
    assert st.get_num_threads() == threads
    assert not model.training
