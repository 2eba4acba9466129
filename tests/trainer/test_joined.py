"""Under the launcher every rank calls fit; the result equals that of one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from shmtensor import distributed
from shmtensor.trainer import Epoch

from .test_trainer import make_data, make_trainer, weights

SCRIPT = """
import sys
import numpy as np
import shmtensor as st
from shmtensor import distributed as dist, nn, optim
from shmtensor.trainer import Trainer
from shmtensor.trainer.checkpoint import Snapshot

def take(*_):
    raise AssertionError("a snapshot is taken, and nothing restores it: a death ends the run")

Snapshot.take = take
rng = np.random.default_rng(5)
x, y = rng.standard_normal((50, 6)), rng.integers(0, 3, 50)
data = [(st.tensor(x[i : i + 16]), st.tensor(y[i : i + 16])) for i in range(0, 50, 16)]
dist.init_process_group()
st.manual_seed(1 + dist.get_rank())  # rank 0's weights count
model = nn.Sequential(nn.Linear(6, 33), nn.ReLU(), nn.Dropout(0.0), nn.Linear(33, 3)).double()
adam = optim.Adam(model.parameters(), lr=0.01)
trainer = Trainer(model, adam, nn.CrossEntropyLoss(), progress=False)
if dist.get_rank():
    data = []  # rank 0's loader counts

def change(record):  # on rank 0; for a replaced parameter the ranks are set up anew
    if record.epoch == 1:
        model[0].requires_grad_(False)
    if record.epoch == 2:
        model[3].bias.data = model[3].bias.data * 2

history = trainer.fit(data, epochs=3, checkpoint=sys.argv[1] + "/run.ckpt", on_epoch=change)
weights = [p.detach().numpy() for p in model.parameters()]
np.savez(f"{sys.argv[1]}/{dist.get_rank()}.npz", *weights)
assert len(history) == 3 and trainer.step == 12
dist.destroy_process_group()
"""


def test_launched_ranks_train_like_one_process(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [
        sys.executable,
        "-m",
        "shmtensor.run",
        "--nproc-per-node",
        "2",
        str(tmp_path / "train.py"),
        str(tmp_path),
    ]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert completed.returncode == 0, completed.stderr
    reference = make_trainer(1)
    first, last = reference.model[0], reference.model[3]

    def change(record: Epoch) -> None:
        if record.epoch == 1:
            first.requires_grad_(False)
        if record.epoch == 2:
            last.bias.data = last.bias.data * 2

    reference.fit(make_data(), 3, on_epoch=change)
    for rank in range(2):
        arrays = np.load(tmp_path / f"{rank}.npz")
        for name, want in zip(arrays.files, weights(reference), strict=True):
            np.testing.assert_allclose(arrays[name], want, rtol=1e-9, atol=1e-12)
    assert (tmp_path / "run.ckpt").exists()


@pytest.mark.parametrize("nprocs", [1, 2])
def test_a_task_of_several_may_train_by_itself(
    nprocs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WORLD_SIZE says that it is no rank; else fit would wait for the other tasks."""
    expected = make_trainer(nprocs)
    expected.fit(make_data(), 1)
    for name, value in {"JOB_ID": 7, "STEP_ID": 0, "PROCID": 3, "NTASKS": 8, "NODEID": 0}.items():
        monkeypatch.setenv(f"SLURM_{name}", str(value))
    monkeypatch.setenv("WORLD_SIZE", "1")
    trainer = make_trainer(nprocs)
    trainer.fit(make_data(), 1)
    assert not distributed.is_initialized()
    assert trainer.history["loss"] == expected.history["loss"]
