"""What objects say of themselves, as text and as HTML in a notebook."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

import shmtensor as st
from shmtensor import amp, memory, nn, optim
from shmtensor.dataloaders import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
)
from shmtensor.html_table import html_table
from shmtensor.trainer import History, Trainer

ROWS = TensorDataset(st.ones(10, 3), st.zeros(10, dtype=st.int64))
TEXT = "TensorDataset(10 samples of (3,) float32, () int64)"


class Own(Dataset[int]):
    def __len__(self) -> int:
        return 4


class Stream(IterableDataset[int]):
    pass


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (ROWS, TEXT),
        (Own(), "Own(4 samples)"),
        (Stream(), "Stream()"),
        (Subset(ROWS, [1, 2]), f"Subset(2 of {TEXT})"),
        (ConcatDataset([Own(), Own()]), "ConcatDataset(Own(4 samples), Own(4 samples))"),
        (SequentialSampler(ROWS), "SequentialSampler(10 indices)"),
        (RandomSampler(ROWS), "RandomSampler(10 indices, replacement=False)"),
        (
            WeightedRandomSampler([1.0, 2.0], 5),
            "WeightedRandomSampler(5 indices, num_samples=5, replacement=True)",
        ),
        (
            BatchSampler(SequentialSampler(ROWS), 4, drop_last=True),
            "BatchSampler(2 batches, sampler=SequentialSampler(10 indices), batch_size=4, "
            "drop_last=True)",
        ),
        (st.Generator().manual_seed(7), "Generator(seed=7, 0 blocks drawn, device=cpu)"),
        (amp.GradScaler("cpu", enabled=False), "GradScaler(enabled=False)"),
        (amp.GradScaler("cpu", init_scale=8.0), "GradScaler(scale=8.0, growth_factor=2.0)"),
    ],
)
def test_it_says_what_it_holds(value: object, text: str) -> None:
    assert repr(value) == text


def test_schedules_and_queues() -> None:
    sgd = optim.SGD([st.zeros(1, requires_grad=True)], lr=0.5)
    schedule = optim.lr_scheduler.StepLR(sgd, 3)
    assert repr(schedule) == "StepLR(step_size=3, gamma=0.1, last_epoch=0, lr=[0.5])"
    with st.Queue(maxsize=3) as queue:
        queue.put(1)
        assert repr(queue) == "Queue(maxsize=3, 1 waiting)"
        queue.get()


def cells(html: str) -> list[list[str | None]]:
    root = ElementTree.fromstring(f"<div>{html}</div>")
    return [[cell.text for cell in row] for row in root.iter("tr")]


@pytest.fixture(scope="module")
def trained() -> Any:
    model = nn.Linear(3, 2)
    trainer = Trainer(
        model, optim.SGD(model.parameters(), lr=0.1), nn.CrossEntropyLoss(), nprocs=1,
        progress=False,
    )  # fmt: skip
    with DataLoader(ROWS, batch_size=5) as loader:
        trainer.fit(loader, epochs=2)
        yield trainer, loader.statistics()


def test_a_trainer_shows_its_parts(trained: Any) -> None:
    trainer, _ = trained
    lines = repr(trainer).splitlines()
    assert lines[0] == "Trainer("
    assert lines[1:] == [
        "  model: Linear, 8 parameters", "  optimizer: SGD", "  loss: CrossEntropyLoss",
        "  nprocs: 1", "  callbacks: none", "  trained: 2 epochs, 4 steps", ")",
    ]  # fmt: skip
    assert cells(trainer._repr_html_())[1] == ["model", "Linear, 8 parameters"]


def test_a_history_is_a_table(trained: Any) -> None:
    history = trained[0].history
    header, first, second = [line.split() for line in str(history).splitlines()]
    assert header[:3] == ["epoch", "loss", "accuracy"]
    assert (first[0], second[0]) == ("1", "2")
    assert "eval_loss" not in header
    assert cells(history._repr_html_()) == [header, first, second]
    assert str(History()) == "no epoch yet"


def test_statistics_are_tables(trained: Any) -> None:
    _, statistics = trained
    table = cells(statistics._repr_html_())
    assert table[0][:3] == ["id", "pid", "batches"]
    assert statistics.bottleneck in statistics._repr_html_()
    assert ["huge_pages", memory.statistics().huge_pages] in cells(
        memory.statistics()._repr_html_()
    )


def test_data_sets_samplers_loaders_and_generators_are_tables() -> None:
    arrays = [["tensors[0]", "(10, 3) float32"], ["tensors[1]", "(10,) int64"]]
    assert cells(ROWS._repr_html_()) == [["TensorDataset", None], ["samples", "10"], *arrays]
    assert cells(Stream()._repr_html_()) == [["Stream", None]]
    subset = cells(Subset(ROWS, list(range(9)))._repr_html_())
    assert subset[1:] == [["samples", "9"], ["dataset", TEXT], ["indices", "list of 9"]]
    order = BatchSampler(SequentialSampler(ROWS), 4, drop_last=True)
    assert cells(order._repr_html_())[:2] == [["BatchSampler", None], ["length", "2"]]
    assert ["drop_last", "True"] in cells(order._repr_html_())
    with DataLoader(ROWS, batch_size=5) as loader:
        table = cells(loader._repr_html_())
    assert ["dataset", TEXT] in table
    assert ["batch_size", "5"] in table
    generator = st.Generator().manual_seed(7)
    rows = [["seed", "7"], ["blocks drawn", "0"], ["device", "cpu"]]
    assert cells(generator._repr_html_())[1:] == rows


def test_texts_in_tables_are_escaped() -> None:
    assert cells(html_table(["<b>"], [["a & b"]], "x < y")) == [["<b>"], ["a & b"]]
