"""SummaryWriter: tensors become arrays, the library does the rest, its absence is explained."""

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
    """In the place of the library's writer: notes what it is called with."""

    logdir = "somewhere"

    def __init__(self, *args: Any) -> None:
        self.calls: list[Any] = [args]

    def add_histogram(self, *args: Any, **named: Any) -> None:
        """Notes."""
        self.calls.append((args, named))

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
    made, first, second, end = writer._writer.calls
    assert made == ("folder", "comment", 3, 4, 5, "end")
    (_, array), named = first
    assert type(array) is np.ndarray
    assert np.shares_memory(array, x.detach().numpy())
    assert type(named["bins"][0]) is np.ndarray
    assert named["more"]["a"][0] is not x
    assert named["more"]["a"][1] == 1
    assert second[0][1].dtype == np.float32
    assert second[0][1].tolist() == [1, 2.5]
    assert end == "closed"


@pytest.mark.usefixtures("recorded")
def test_what_there_is_not() -> None:
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
def test_what_tensorboard_reads(tmp_path: Path) -> None:
    """In a process of its own: the library has threads and pipes."""
    done = subprocess.run(
        [sys.executable, "-c", WRITE, str(tmp_path)],
        env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["loss"] == [["simple_value", 1, 0.5], ["simple_value", 2, 1.5]]
    assert found["weights"][0] == ["histo", 1, 8, 28]
    assert found["image"] == [["image", 1, 4, 5]]
    assert found["images"][0][0] == "image"
    assert found["figure"][0][0] == "image"
    assert found["accuracy"][0] == ["simple_value", 0, 0.75]
    assert found["both"] == [["simple_value", 1, 1.0], ["simple_value", 1, 2.0]]
    assert {"curve", "text/text_summary"} <= found.keys()
    assert found["points"] == ["metadata.tsv", "tensors.tsv"]
