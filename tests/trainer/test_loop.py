"""What a run can be told: batches of any kind, the program's own step, several optimizers,
accumulation, clipping, limits, metrics; each on one rank and on several.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.dataloaders import DataLoader, TensorDataset
from shmtensor.nn import functional as F
from shmtensor.trainer import EMA, Callback, ModelCheckpoint, Schedule, Trainer

from .test_trainer import make_data, make_model

RANKS = (1, 2, 3)


def trainer_of(nprocs: int, model: Any = None, optimizer: Any = None, **options: Any) -> Trainer:
    model = make_model() if model is None else model
    optimizer = optimizer or optim.Adam(model.parameters(), lr=0.01)
    options.setdefault("loss", nn.CrossEntropyLoss())
    return Trainer(model, optimizer, nprocs=nprocs, progress=False, timeout=60, **options)


def assert_close(model: Any, expected: Any) -> None:
    for (name, x), y in zip(
        model.state_dict().items(), expected.state_dict().values(), strict=True
    ):
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-12, atol=1e-12, err_msg=name)


def assert_equal(model: Any, expected: Any) -> None:
    for (name, x), y in zip(
        model.state_dict().items(), expected.state_dict().values(), strict=True
    ):
        np.testing.assert_array_equal(x.numpy(), y.numpy(), err_msg=name)


# ---------------------------------------------------------------- batches
class Named(nn.Module):
    """Inputs by name, and a loss of its own if it is given labels."""

    def __init__(self) -> None:
        super().__init__()
        self.net = make_model()

    def forward(self, x: Any, scale: Any = 1.0, labels: Any = None) -> Any:
        logits = self.net(x) * scale
        if labels is None:
            return logits
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


@pytest.mark.parametrize("nprocs", RANKS)
def test_batches_of_any_kind_train_alike(nprocs: int) -> None:
    reference = Named()
    trainer_of(1, reference).fit([(x, y) for x, y in make_data()], 2)
    scales = [st.ones(len(x), 1, dtype=st.float64) for x, _ in make_data()]
    pairs = list(zip(make_data(), scales, strict=True))
    kinds: list[tuple[Any, Any]] = [
        ([(x, scale, y) for (x, y), scale in pairs], nn.CrossEntropyLoss()),
        ([[x, y] for x, y in make_data()], F.cross_entropy),
        ([{"x": x, "scale": s, "labels": y} for (x, y), s in pairs], nn.CrossEntropyLoss()),
        ([{"x": x, "scale": s, "labels": y} for (x, y), s in pairs], None),
        ([(x.numpy(), y.numpy()) for x, y in make_data()], nn.CrossEntropyLoss()),
    ]
    for data, loss in kinds:
        model = Named()
        trainer_of(nprocs, model, loss=loss).fit(data, 2)
        assert_close(model, reference)


@pytest.mark.torch
@pytest.mark.parametrize("nprocs", [1, 2])
def test_batches_of_pytorch(nprocs: int) -> None:
    import torch

    reference, model = make_model(), make_model()
    trainer_of(1, reference).fit(make_data(), 2)
    data = [(torch.tensor(x.numpy()), torch.tensor(y.numpy())) for x, y in make_data()]
    trainer_of(nprocs, model).fit(data, 2)
    assert_close(model, reference)


def test_other_batches_need_a_training_step() -> None:
    with pytest.raises(TypeError, match="the batch has no tensor"):
        trainer_of(1).fit(["words"], 1)


# ---------------------------------------------------------------- the program's own step
@pytest.mark.parametrize("nprocs", RANKS)
def test_training_step(nprocs: int) -> None:
    def step(model: Any, batch: Any) -> Any:
        x, y = batch
        counted = y > 0  # a mean over some of the samples
        losses = F.cross_entropy(model(x), y, reduction="none") * counted
        n = int(counted.sum())
        return {"loss": losses.sum() / max(n, 1), "n": n, "mean_x": x.mean(), "const": 2}

    reference = make_model()
    adam = optim.Adam(reference.parameters(), lr=0.01)
    for _ in range(2):
        for batch in make_data():
            adam.zero_grad()
            step(reference, batch)["loss"].backward()
            adam.step()
    trainer = trainer_of(nprocs, loss=None, training_step=step)
    trainer.fit(make_data(), 2, eval=make_data(20))
    assert_close(trainer.model, reference)
    assert trainer.history["const"] == [2.0, 2.0]
    mean = np.concatenate([x.numpy() for x, _ in make_data()]).mean()
    np.testing.assert_allclose(trainer.history["mean_x"], [mean] * 2, rtol=1e-12)
    assert trainer.history["eval_const"] == [2.0, 2.0]


class Pair(nn.Module):
    """A generator and a critic."""

    def __init__(self) -> None:
        super().__init__()
        st.manual_seed(4)
        self.generator, self.critic = nn.Linear(3, 6).double(), nn.Linear(6, 1).double()


def pair_step(model: Pair, batch: Any, i: int) -> Any:
    x, _ = batch
    noise = x[:, :3]
    if i == 0:
        fake = model.generator(noise).detach()
        return (model.critic(fake) - model.critic(x)).mean() + (model.critic(x) ** 2).mean()
    if float(x.sum()) > 1e9:
        return None
    return -model.critic(model.generator(noise)).mean()


def pair_optimizers(model: Pair) -> list[Any]:
    return [
        optim.SGD(model.critic.parameters(), lr=0.1, momentum=0.5),
        optim.Adam(model.generator.parameters(), lr=0.02),
    ]


@pytest.mark.parametrize("nprocs", RANKS)
def test_a_gan_has_two_optimizers(nprocs: int) -> None:
    reference = Pair()
    optimizers = pair_optimizers(reference)
    for _ in range(3):
        for batch in make_data():
            for i, optimizer in enumerate(optimizers):
                optimizer.zero_grad()
                pair_step(reference, batch, i).backward()
                optimizer.step()
    model = Pair()
    trainer = trainer_of(nprocs, model, pair_optimizers(model), loss=None, training_step=pair_step)
    trainer.fit(make_data(), 3)
    assert_close(model, reference)
    assert trainer.step == 3 * len(make_data())
    assert len(trainer.history["loss_1"]) == 3
    assert trainer.history.epochs[0].samples == 50


def test_several_optimizers_need_a_step() -> None:
    model = Pair()
    with pytest.raises(ValueError, match="2 optimizers need a training_step"):
        trainer_of(1, model, pair_optimizers(model))
    trainer = trainer_of(1, model, pair_optimizers(model), training_step=pair_step)
    with pytest.raises(ValueError, match="pass an eval_step"):
        trainer.fit(make_data(), 1, eval=make_data())


# ---------------------------------------------------------------- gradients
@pytest.mark.parametrize("nprocs", RANKS)
@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), nn.CrossEntropyLoss(reduction="sum")])
def test_accumulated_batches_are_one_batch(nprocs: int, loss: Any) -> None:
    """Of a mean over targets that count, too; the last step has fewer batches."""
    small = make_data(50, 8)  # 7 batches
    for _, y in small:
        y[:3] = -100
    whole = [
        tuple(st.cat([batch[k] for batch in small[i : i + 3]]) for k in (0, 1))
        for i in range(0, len(small), 3)
    ]
    reference, model = make_model(), make_model()
    trainer_of(1, reference, loss=loss).fit(whole, 3)
    trainer = trainer_of(nprocs, model, loss=loss, accumulate=3)
    trainer.fit(small, 3)
    assert_close(model, reference)
    assert trainer.step == 9


@pytest.mark.parametrize("nprocs", RANKS)
@pytest.mark.parametrize("has_hook", [False, True])
def test_clipping(nprocs: int, has_hook: bool) -> None:
    reference, model = make_model(), make_model()
    adam = optim.SGD(reference.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        for x, y in make_data():
            adam.zero_grad()
            F.cross_entropy(reference(x), y).backward()
            nn.utils.clip_grad_norm_(reference.parameters(), 0.2)
            nn.utils.clip_grad_value_(reference.parameters(), 0.03)
            adam.step()
    sgd = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if has_hook:  # rank 0 updates all weights
        sgd.register_step_pre_hook(lambda *arguments: None)
    trainer_of(nprocs, model, sgd, clip_grad_norm=0.2, clip_grad_value=0.03).fit(make_data(), 3)
    assert_close(model, reference)


@pytest.mark.parametrize("nprocs", RANKS)
def test_a_loss_that_is_not_finite(nprocs: int) -> None:
    data = make_data()
    data[2][0][-1, 0] = float("nan")  # the last rank's
    before = make_model()
    trainer_of(1, before).fit(data[:2], 1)
    trainer = trainer_of(nprocs)
    text = f"the loss is nan at step 3 on rank {nprocs - 1}: the weights are those before it"
    with pytest.raises(FloatingPointError, match=text):
        trainer.fit(data, 1)
    assert trainer.step == 2
    assert_close(trainer.model, before)

    trainer = trainer_of(nprocs, on_nonfinite="skip")
    with pytest.warns(RuntimeWarning, match="at step 3 .* is left out"):
        trainer.fit(data, 1)
    skipped = make_model()
    trainer_of(1, skipped).fit([*data[:2], *data[3:]], 1)
    assert_close(trainer.model, skipped)

    trainer = trainer_of(nprocs, on_nonfinite="warn")
    with pytest.warns(RuntimeWarning, match=r"at step 3 on rank \d$"):
        trainer.fit(data[:3], 1)
    assert np.isnan(next(iter(trainer.model.parameters())).detach().numpy()).any()


# ---------------------------------------------------------------- length of a run
@pytest.mark.parametrize("nprocs", [1, 2])
def test_evaluations_within_an_epoch(nprocs: int) -> None:
    seen: list[tuple[int, float]] = []

    class Watch(Callback):
        def on_eval_end(self, trainer: Any) -> None:
            seen.append((trainer.step, trainer.figures["eval_loss"]))

    trainer = trainer_of(nprocs, callbacks=[Watch()])
    trainer.fit(make_data(), 2, eval=make_data(20), eval_every=3)  # 4 steps an epoch
    assert [step for step, _ in seen] == [3, 4, 6, 8]
    undisturbed = trainer_of(nprocs)
    undisturbed.fit(make_data(), 2, eval=make_data(20))
    assert_equal(trainer.model, undisturbed.model)
    assert (
        trainer.history["eval_loss"] == undisturbed.history["eval_loss"] == [seen[1][1], seen[3][1]]
    )
    assert trainer.history["loss"] == undisturbed.history["loss"]


@pytest.mark.parametrize("nprocs", [1, 2])
def test_a_run_that_ends_in_an_epoch_goes_on_there(nprocs: int) -> None:
    whole, parts = trainer_of(nprocs), trainer_of(nprocs)
    whole.fit(make_data(), 3)
    parts.fit(make_data(), max_steps=2)
    assert (parts.step, parts.epoch, parts.position, len(parts.history)) == (2, 0, 2, 1)
    parts.fit(make_data(), max_steps=4)
    assert (parts.step, parts.epoch, parts.position, len(parts.history)) == (4, 1, 0, 1)
    parts.fit(make_data(), 3, max_steps=7)
    parts.fit(make_data(), 3)
    assert_equal(parts.model, whole.model)
    assert parts.history["loss"] == whole.history["loss"]
    assert parts.history["samples"] == whole.history["samples"]


def test_a_callback_ends_a_run() -> None:
    class Stop(Callback):
        def on_step(self, trainer: Any) -> None:
            trainer.should_stop = trainer.step == 5

    trainer = trainer_of(2, callbacks=[Stop()])
    trainer.fit(make_data(), 10)
    assert (trainer.step, trainer.epoch) == (5, 1)


def test_limits() -> None:
    trainer = trainer_of(2, metrics={"count": lambda outputs, targets: len(outputs)})
    began = time.monotonic()
    trainer.fit(make_data(), 2, eval=make_data(), limit_train_batches=3, limit_eval_batches=1)
    assert trainer.step == 6
    assert trainer.history["samples"] == [48, 48]
    assert trainer.history["eval_count"] == [16, 16]
    trainer.fit(make_data(), max_time=0.05)
    assert trainer.step >= 7
    assert time.monotonic() - began < 30
    with pytest.raises(ValueError, match="pass epochs, max_steps or max_time"):
        trainer.fit(make_data())


# ---------------------------------------------------------------- whole data
@pytest.mark.parametrize("nprocs", RANKS)
@pytest.mark.parametrize("is_loader", [False, True])
def test_metrics_see_all_outputs_in_order(nprocs: int, is_loader: bool) -> None:
    data: Any = make_data(33, 8)  # the last batch has one sample
    seen: list[Any] = []

    def metric(outputs: Any, targets: Any) -> float:
        seen[:] = [outputs, targets]
        return float((outputs.argmax(1) == targets).double().mean())

    held_out = data
    if is_loader:
        x, y = (st.cat([batch[k] for batch in data]) for k in (0, 1))
        held_out = DataLoader(TensorDataset(x, y), batch_size=8)
    trainer = trainer_of(nprocs, metrics=[metric])
    trainer.fit(make_data(), 1, eval=held_out)
    np.testing.assert_array_equal(seen[1].numpy(), np.concatenate([y.numpy() for _, y in data]))
    np.testing.assert_allclose(seen[0].numpy(), trainer.predict(data).numpy(), rtol=1e-12)
    assert trainer.history["eval_metric"] == trainer.history["eval_accuracy"]
    assert trainer.evaluate(held_out)["metric"] == trainer.history["eval_metric"][0]


def test_predict() -> None:
    trainer = trainer_of(1)
    data = make_data()
    expected = np.concatenate([trainer.model(x).detach().numpy() for x, _ in data])
    for batches in (
        data,
        [x for x, _ in data],
        [(x,) for x, _ in data],
        [x.numpy() for x, _ in data],
    ):
        np.testing.assert_array_equal(trainer.predict(batches).numpy(), expected)
    assert trainer.model.training
    named = Named()
    outputs = trainer_of(1, named).predict([{"x": x, "labels": y} for x, y in data])
    np.testing.assert_array_equal(outputs.numpy(), expected)
    with pytest.raises(ValueError, match="no batch"):
        trainer.predict([])


# ---------------------------------------------------------------- resuming
class Stream:
    """Batches in another order in each epoch, which rank 0 hands over."""

    def __iter__(self) -> Any:
        data = make_data()
        for i in st.randperm(len(data)).tolist():
            yield data[i]


def loader() -> Any:
    x, y = (st.cat([batch[k] for batch in make_data()]) for k in (0, 1))
    return DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)


@pytest.mark.parametrize("nprocs", [1, 2])
@pytest.mark.parametrize("make", [make_data, Stream, loader])
def test_a_run_resumed_in_an_epoch_has_the_same_bits(
    nprocs: int, make: Any, tmp_path: Path
) -> None:
    def make_one(folder: Path) -> Trainer:
        model = make_model(dropout=0.2)
        adam = optim.Adam(model.parameters(), lr=0.01)
        warm_up = Schedule(optim.lr_scheduler.ExponentialLR(adam, 0.9), interval="step")
        saving = ModelCheckpoint(folder, every_n_epochs=None, every_n_steps=1)
        callbacks = [EMA(decay=0.9), warm_up, saving]
        return trainer_of(nprocs, model, adam, callbacks=callbacks)

    whole = make_one(tmp_path / "whole")
    whole.fit(make(), 2, eval=make_data(20))
    for step in (1, 3, 5):
        path = next((tmp_path / "whole").glob(f"*step={step}.ckpt"))
        resumed = make_one(tmp_path / f"from {step}")
        resumed.load(path)
        assert resumed.step == step
        resumed.fit(make(), 2, eval=make_data(20))
        assert_equal(resumed.model, whole.model)
        assert_equal(resumed.callbacks[0].averaged, whole.callbacks[0].averaged)
        for name in ("loss", "eval_loss", "lr"):
            assert resumed.history[name] == whole.history[name], name


def test_a_checkpoint_is_loaded_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    saved = trainer_of(1)
    saved.fit(make_data(), 1, checkpoint=path)
    narrow = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Dropout(0.0), nn.Linear(5, 3)).double()
    other = make_model()
    groups = optim.Adam([{"params": [p]} for p in make_model().parameters()])
    cases: list[tuple[Trainer, str]] = [
        (trainer_of(1, narrow), r"of another shape: 0.weight \(5, 6\), not \(33, 6\)"),
        (trainer_of(1, Pair(), optim.SGD(Pair().parameters()), check_parameters=False), "missing"),
        (trainer_of(1, other, optim.SGD(other.parameters(), lr=1)), "SGD, .* Adam"),
        (trainer_of(1, optimizer=groups, check_parameters=False), r"\[1, 1, 1, 1\].*\[4\]"),
    ]
    for trainer, text in cases:
        before = {k: x.clone() for k, x in trainer.model.state_dict().items()}
        with pytest.raises(ValueError, match=text):
            trainer.load(path)
        assert trainer.step == trainer.epoch == 0
        for name, x in trainer.model.state_dict().items():
            np.testing.assert_array_equal(x.numpy(), before[name].numpy())


# ---------------------------------------------------------------- statistics
def test_statistics_say_what_bounds_a_step() -> None:
    trainer = trainer_of(2)
    assert str(trainer.statistics()) == "no step yet"
    trainer.fit(make_data(), 2)
    statistics = trainer.statistics()
    assert (statistics.steps, statistics.samples, statistics.nprocs) == (8, 100, 2)
    assert 0 < statistics.seconds_waited < statistics.seconds
    assert "samples/s on 2 ranks" in str(statistics)

    class Slow:
        def __iter__(self) -> Any:
            for batch in make_data():
                time.sleep(0.05)
                yield batch

    slow = trainer_of(1)
    slow.fit(Slow(), 1)
    assert "batches bound it" in str(slow.statistics())
