"""SummaryWriter passes arrays to the library; an error explains the library's absence."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.utils.tensorboard import SummaryWriter


class Recorder:
    """Replaces the library's writer and records its calls."""

    logdir = "somewhere"

    def __init__(self, *args: Any) -> None:
        self.calls: list[Any] = [args]

    def add_histogram(self, *args: Any, **kwargs: Any) -> None:
        """Records the call."""
        self.calls.append((args, kwargs))

    def add_graph(self, model: Any) -> None:
        raise AssertionError

    def close(self) -> None:
        self.calls.append("closed")


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    library: Any = ModuleType("tensorboardX")
    library.SummaryWriter = Recorder
    monkeypatch.setitem(sys.modules, "tensorboardX", library)


@pytest.mark.usefixtures("recorded")
def test_tensors_become_arrays_of_the_same_memory() -> None:
    x = st.randn(5, requires_grad=True)
    low = st.tensor([1.0, 2.5]).bfloat16()
    with SummaryWriter("folder", "comment", 3, 4, 5, "end") as writer:
        writer.add_histogram("x", x, bins=[st.tensor([1.0])], more={"a": (x, 1)})
        writer.add_histogram("low", low, 7)
        assert writer.get_logdir() == writer.log_dir == "somewhere"
        assert writer.add_histogram.__name__ == "add_histogram"
    creation, first, second, end = writer._writer.calls
    assert creation == ("folder", "comment", 3, 4, 5, "end")
    (_, array), kwargs = first
    assert type(array) is np.ndarray
    assert np.shares_memory(array, x.detach().numpy())
    assert type(kwargs["bins"][0]) is np.ndarray
    assert kwargs["more"]["a"][0] is not x
    assert kwargs["more"]["a"][1] == 1
    assert second[0][1].dtype == np.float32
    assert second[0][1].tolist() == [1, 2.5]
    assert end == "closed"


@pytest.mark.usefixtures("recorded")
def test_missing_methods() -> None:
    writer = SummaryWriter()
    with pytest.raises(NotImplementedError, match="no traced graph"):
        writer.add_graph(None)
    with pytest.raises(AttributeError, match="no method 'add_nothing'"):
        writer.add_nothing("x")


def test_absence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match=r"pip install \"shmtensor\[tensorboard\]\""):
        SummaryWriter("folder")


WRITE = """
import json, struct, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
import shmtensor as st
from shmtensor.utils.tensorboard import SummaryWriter
import matplotlib.pyplot as plt

folder = sys.argv[1]
st.manual_seed(0)
with SummaryWriter(folder) as writer:
    loss = st.tensor(0.5, requires_grad=True)
    writer.add_scalar("loss", loss, 1)
    writer.add_scalar("loss", loss.detach().bfloat16() * 3, global_step=2)
    writer.add_scalars("both", {"a": st.tensor(1.0), "b": 2.0}, 1)
    writer.add_histogram("weights", st.arange(8.0), 1)
    writer.add_image("image", st.rand(3, 4, 5), 1)
    writer.add_images("images", st.rand(2, 3, 4, 5), 1)
    writer.add_text("text", "words", 1)
    figure = plt.figure()
    writer.add_figure("figure", figure, 1)
    writer.add_pr_curve("curve", st.tensor([1, 0, 1]), st.tensor([0.9, 0.4, 0.6]), 1)
    writer.add_hparams({"lr": 0.1}, {"accuracy": st.tensor(0.75)}, name="run")
    writer.add_embedding(st.rand(3, 4), metadata=["a", "b", "c"], global_step=1, tag="points")
    writer.flush()

from tensorboardX.proto.event_pb2 import Event
found = {}
for path in sorted(Path(folder).rglob("events*")):
    data, at = path.read_bytes(), 0
    while at < len(data):
        (n,) = struct.unpack_from("<Q", data, at)
        event = Event.FromString(data[at + 12 : at + 12 + n])
        at += 16 + n
        for value in event.summary.value:
            kind = value.WhichOneof("value")
            shown = [kind, event.step]
            if kind == "simple_value":
                shown.append(value.simple_value)
            elif kind == "histo":
                shown += [value.histo.num, value.histo.sum]
            elif kind == "image":
                shown += [value.image.height, value.image.width]
            found.setdefault(value.tag, []).append(shown)
found["points"] = sorted(p.name for p in Path(folder).rglob("*.tsv"))
print(json.dumps(found))
"""


@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("tensorboardX", "matplotlib", "PIL")),
    reason="needs tensorboardX, matplotlib and pillow",
)
def test_tensorboard_reads_the_files(tmp_path: Path) -> None:
    """In another process: the library has threads and pipes."""
    process = subprocess.run(
        [sys.executable, "-c", WRITE, str(tmp_path)],
        env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    events = json.loads(process.stdout.splitlines()[-1])
    assert events["loss"] == [["simple_value", 1, 0.5], ["simple_value", 2, 1.5]]
    assert events["weights"][0] == ["histo", 1, 8, 28]
    assert events["image"] == [["image", 1, 4, 5]]
    assert events["images"][0][0] == "image"
    assert events["figure"][0][0] == "image"
    assert events["accuracy"][0] == ["simple_value", 0, 0.75]
    assert events["both"] == [["simple_value", 1, 1.0], ["simple_value", 1, 2.0]]
    assert {"curve", "text/text_summary"} <= events.keys()
    assert events["points"] == ["metadata.tsv", "tensors.tsv"]
