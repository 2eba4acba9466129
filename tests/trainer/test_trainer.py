"""N ranks train like one process, with the same bits in every run, also after a resume."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.dataloaders import BucketBatchSampler, DataLoader
from shmtensor.errors import PeerLostError, ProcessRaisedException
from shmtensor.trainer import Trainer, ranks

START_METHODS = ("fork", "forkserver", "spawn")
Array = Any


def make_data(n: int = 50, size: int = 16) -> list[tuple[Any, Any]]:
    """Batches of unequal size: the last one is smaller."""
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((n, 6)), rng.integers(0, 3, n)
    return [(st.tensor(x[i : i + size]), st.tensor(y[i : i + size])) for i in range(0, n, size)]


def make_model(dropout: float = 0.0) -> Any:
    st.manual_seed(1)
    layers = [nn.Linear(6, 33), nn.ReLU(), nn.Dropout(dropout), nn.Linear(33, 3)]
    return nn.Sequential(*layers).double()


def make_trainer(nprocs: int, kind: str = "adam", dropout: float = 0.0, **options: Any) -> Trainer:
    model = make_model(dropout)
    p = model.parameters()
    optimizer = optim.Adam(p, lr=0.01) if kind == "adam" else optim.SGD(p, lr=0.1, momentum=0.9)
    return Trainer(
        model,
        optimizer,
        nn.CrossEntropyLoss(),
        nprocs=nprocs,
        progress=False,
        timeout=30,
        **options,
    )


def weights(trainer: Trainer) -> list[Array]:
    return [np.array(p.detach().numpy()) for p in trainer.model.parameters()]


@pytest.mark.parametrize("kind", ["adam", "sgd"])
@pytest.mark.parametrize("nprocs", [2, 3])
def test_ranks_train_like_one_process(nprocs: int, kind: str) -> None:
    one, several = make_trainer(1, kind), make_trainer(nprocs, kind)
    for trainer in (one, several):
        trainer.fit(make_data(), epochs=3, eval=make_data(20))
    for x, y in zip(weights(one), weights(several), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
    for name in ("loss", "accuracy", "eval_loss", "eval_accuracy"):
        np.testing.assert_allclose(one.history[name], several.history[name], rtol=1e-9)
    assert several.step == one.step == 12
    assert several.statistics().tensor_bytes_copied == 0


@pytest.mark.parametrize("start_method", START_METHODS)
def test_every_start_method_gives_the_same_bits(start_method: str) -> None:
    reference, trainer = (
        make_trainer(2, dropout=0.3),
        make_trainer(2, dropout=0.3, start_method=start_method),
    )
    reference.fit(make_data(), epochs=2)
    trainer.fit(make_data(), epochs=2)
    for x, y in zip(weights(reference), weights(trainer), strict=True):
        np.testing.assert_array_equal(x, y)
    assert reference.history["loss"] == trainer.history["loss"]


def with_scheduler() -> Trainer:
    trainer = make_trainer(2, dropout=0.2)
    trainer.scheduler = optim.lr_scheduler.StepLR(trainer.optimizer, step_size=1, gamma=0.5)
    return trainer


def test_a_resumed_run_has_the_same_bits(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    uninterrupted, first, second = with_scheduler(), with_scheduler(), with_scheduler()
    uninterrupted.fit(make_data(), epochs=4)
    first.fit(make_data(), epochs=2, checkpoint=path)
    second.load(path)
    second.fit(make_data(), epochs=4)
    assert second.epoch == 4
    assert second.history["loss"] == uninterrupted.history["loss"]
    assert second.history["lr"] == uninterrupted.history["lr"] == [0.01, 0.005, 0.0025, 0.00125]
    for x, y in zip(weights(uninterrupted), weights(second), strict=True):
        np.testing.assert_array_equal(x, y)
    assert [each.name for each in tmp_path.iterdir()] == ["run.ckpt"]


def test_fit_continues_after_a_stop() -> None:
    at_once, in_parts = make_trainer(2), make_trainer(2)
    at_once.fit(make_data(), epochs=3)
    for epochs in (1, 3, 3):
        in_parts.fit(make_data(), epochs=epochs)
    assert len(in_parts.history) == 3
    for x, y in zip(weights(at_once), weights(in_parts), strict=True):
        np.testing.assert_array_equal(x, y)


def test_evaluate_agrees_with_the_ranks() -> None:
    trainer = make_trainer(2)
    held_out = make_data(21)
    trainer.fit(make_data(), epochs=2, eval=held_out)
    figures = trainer.evaluate(held_out)
    assert figures["accuracy"] == trainer.history["eval_accuracy"][-1]
    assert figures["loss"] == pytest.approx(trainer.history["eval_loss"][-1])


def test_private_arrays_are_counted() -> None:
    trainer = make_trainer(2)
    data = [(np.ones((4, 6)), np.zeros(4, np.int64))] * 3
    trainer.fit(data, epochs=1)
    assert trainer.statistics().tensor_bytes_copied == 3 * 4 * 7 * 8


def test_a_batch_smaller_than_the_ranks() -> None:
    one, three = make_trainer(1), make_trainer(3)
    for trainer in (one, three):
        trainer.fit(make_data(2, 1), epochs=2)
    for x, y in zip(weights(one), weights(three), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


def test_regression_has_no_accuracy() -> None:
    st.manual_seed(0)
    model = nn.Linear(3, 1)
    trainer = Trainer(
        model, optim.SGD(model.parameters(), lr=0.1), nn.MSELoss(), nprocs=2, progress=False
    )
    x = st.randn(32, 3)
    history = trainer.fit([(x, x.sum(1, keepdim=True))] * 20, epochs=3)
    assert history["accuracy"] == [None] * 3
    assert history["loss"][-1] < history["loss"][0] / 10


class Normalised(nn.Module):
    """A model with a buffer that training changes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.register_buffer("seen", st.zeros(1))

    def forward(self, x: Any) -> Any:
        if self.training:
            self.seen.add_(float(x.shape[0]))
        return self.layer(x)


def test_buffers_are_those_of_rank_0() -> None:
    model = Normalised().double()
    trainer = Trainer(
        model,
        optim.SGD(model.parameters(), lr=0.1),
        nn.CrossEntropyLoss(),
        nprocs=2,
        progress=False,
    )
    trainer.fit(make_data(), epochs=1, eval=make_data())
    assert float(model.seen[0]) == 8 + 8 + 8 + 2  # the last batch has two samples: one rank's


class Fragile(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        if float(x.array[0, 0]) == 77:
            raise ValueError("cannot stand 77")
        return self.layer(x)


def test_an_exception_in_a_rank_comes_with_its_traceback() -> None:
    model = Fragile().double()
    trainer = Trainer(
        model,
        optim.SGD(model.parameters(), lr=0.1),
        nn.CrossEntropyLoss(),
        nprocs=2,
        progress=False,
    )
    data = make_data()
    data[2][0].array[8:, 0] = 77  # the first sample of rank 1
    with pytest.raises(
        ProcessRaisedException, match=r"rank 1.*(?s:.*)ValueError: cannot stand 77"
    ) as caught:
        trainer.fit(data, epochs=1)
    first, *_, last = str(caught.value).splitlines()
    assert first.endswith("weights are whole at step 2:")
    assert last.startswith("ValueError: cannot stand 77")


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, PeerLostError])
def test_a_failing_loader_leaves_consistent_weights(error: type[BaseException]) -> None:
    def broken() -> Any:
        yield from make_data()[:3]
        raise error("disk gone")

    trainer, reference = make_trainer(2), make_trainer(2)
    start = time.monotonic()
    with pytest.raises(error, match="disk gone"):
        trainer.fit(broken(), epochs=1)
    assert (
        time.monotonic() - start < ranks.GRACE
    )  # the ranks were notified, also behind full queues
    reference.fit(make_data()[:3], epochs=1)
    assert trainer.step == 3
    for x, y in zip(weights(trainer), weights(reference), strict=True):
        np.testing.assert_array_equal(x, y)
    assert_same_state(trainer, reference)


def assert_same_state(x: Trainer, y: Trainer) -> None:
    ours, theirs = x.optimizer.state_dict()["state"], y.optimizer.state_dict()["state"]
    assert ours.keys() == theirs.keys()
    for number, entry in ours.items():
        for name, value in entry.items():
            np.testing.assert_array_equal(np.asarray(value), np.asarray(theirs[number][name]))


def test_wrong_use() -> None:
    with pytest.raises(ValueError, match='nprocs is not positive, nor "auto": 0'):
        make_trainer(0)
    with pytest.raises(ValueError, match="no batch"):
        make_trainer(1).fit([], epochs=1)
    with pytest.raises(TypeError, match="a dictionary, or inputs and targets"):
        make_trainer(1).fit([st.zeros(3, 6)], epochs=1)


def test_on_epoch_and_progress(capsys: pytest.CaptureFixture[str]) -> None:
    trainer = make_trainer(2)
    trainer.progress = True
    epochs: list[int] = []
    trainer.fit(make_data(), epochs=2, on_epoch=lambda record: epochs.append(record.epoch))
    assert epochs == [1, 2]
    output = capsys.readouterr().err
    assert "epoch 2/2" in output
    assert output.count("loss") == 2


def test_statistics_add_up_over_fits() -> None:
    trainer = make_trainer(2)
    data = [(np.ones((4, 6)), np.zeros(4, np.int64))]
    for epochs in (1, 2):
        trainer.fit(data, epochs)
        assert trainer.statistics().tensor_bytes_copied == epochs * 4 * 7 * 8


def test_batch_samplers_get_the_number_of_the_epoch() -> None:
    """Else each epoch would have the same batches."""
    samples = [(st.full((6,), float(i), dtype=st.float64), i % 3) for i in range(12)]
    seen: list[list[float]] = []

    def training_step(model: Any, batch: Any) -> Any:
        seen.append(batch[0][:, 0].tolist())
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    sampler = BucketBatchSampler(list(range(12)), batch_size=3, seed=4)
    trainer = make_trainer(1, training_step=training_step)
    trainer.fit(DataLoader(samples, batch_sampler=sampler), epochs=2)
    for epoch in (1, 2):
        sampler.set_epoch(epoch)
        assert seen[4 * (epoch - 1) : 4 * epoch] == list(sampler)
    assert seen[:4] != seen[4:]


class ReturnsLoss(nn.Module):
    """A model as Hugging Face's: it gets the targets, too."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, x: Any, labels: Any) -> Any:
        logits = self.linear(x)
        return SimpleNamespace(loss=nn.functional.cross_entropy(logits, labels), logits=logits)


def test_a_model_that_returns_its_loss_has_accuracy_and_metrics() -> None:
    model = ReturnsLoss()
    data = [{"x": st.randn(8, 6), "labels": st.randint(3, (8,))} for _ in range(3)]
    sgd = optim.SGD(model.parameters(), lr=0.1)
    errors = {"errors": lambda outputs, targets: (outputs.argmax(1) != targets).float().mean()}
    trainer = Trainer(model, sgd, metrics=errors, nprocs=2, progress=False)
    history = trainer.fit(data, epochs=1, eval=data)
    assert history["accuracy"][0] is not None
    assert history["eval_errors"][0] == pytest.approx(1 - history["eval_accuracy"][0])


layer = nn.Linear(6, 3).double()  # of this module: another one where it is imported anew


def step_of_this_module(model: Any, batch: Any) -> Any:
    return nn.functional.cross_entropy(layer(batch[0]), batch[1])


def test_a_step_that_does_not_use_its_model_is_refused() -> None:
    sgd = optim.SGD(layer.parameters(), lr=0.1)
    trainer = Trainer(
        layer, sgd, training_step=step_of_this_module, nprocs=2, start_method="spawn",
        progress=False,
    )  # fmt: skip
    with pytest.raises(ProcessRaisedException, match="rank 1 does not depend on its model"):
        trainer.fit(make_data(), 1)
    assert trainer.step == 0
