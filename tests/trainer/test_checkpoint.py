"""A checkpoint's path always holds a complete one."""

from __future__ import annotations

from pathlib import Path

import pytest

import shmtensor as st
from shmtensor import serialization
from shmtensor.trainer import checkpoint


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.ckpt"
    checkpoint.write(path, {"x": st.ones(3), "n": 1})

    def broken(state: object, target: Path) -> None:
        target.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(serialization, "save", broken)
    with pytest.raises(OSError, match="disk full"):
        checkpoint.write(path, {"x": st.zeros(3), "n": 2})
    assert checkpoint.read(path)["n"] == 1
    assert list(tmp_path.iterdir()) == [path]


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    serialization.save({"w": st.ones(2)}, path)
    with pytest.raises(ValueError, match="not a checkpoint of this format"):
        checkpoint.read(path)
