"""Programs of the kinds that people start from run unchanged, and give the right result."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.as_torch.run_program import PROGRAMS, run, write_mnist


# torch.compile says once that it leaves the model as it is: "default".
@pytest.mark.parametrize(
    ("name", "output", "warnings"),
    [
        ("cnn", "accuracy 1.00 lr 0.49", "error"),
        ("rnn", "learned", "error"),
        ("hogwild", "trained by 2", "error"),
        ("reinforce", "best arm 1", "error"),
        ("gpt", "[0, 1, 2, 3, 4, 5, 6, 7, 8]", "default"),
        ("spawn_loader", "loaded", "error"),
    ],
)
def test_a_program_gives_the_right_result(
    name: str, output: str, warnings: str, tmp_path: Path
) -> None:
    write_mnist(tmp_path / "data")
    assert run(PROGRAMS / f"{name}.py", folder=tmp_path, warnings=warnings) == f"{output}\n"


@pytest.mark.parametrize(
    ("name", "output", "picture", "size"),
    [
        ("vae", "loss fell", "sample.png", (122, 122)),
        ("gan", "fake (8, 3, 16, 16)", "fake.png", (8 * 18 + 2, 20)),
    ],
)
def test_a_program_draws_its_samples(
    name: str, output: str, picture: str, size: tuple[int, int], tmp_path: Path
) -> None:
    write_mnist(tmp_path / "data")
    assert run(PROGRAMS / f"{name}.py", folder=tmp_path) == f"{output}\n"
    data = (tmp_path / picture).read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == size


@pytest.mark.parametrize(
    "launcher",
    [
        ("torch.distributed.run", "--standalone"),
        ("torch.distributed.launch", "--use-env"),
        ("shmtensor.run", "--standalone"),
    ],
    ids=lambda launcher: launcher[0],
)
def test_data_parallel_ranks_agree(launcher: tuple[str, str], tmp_path: Path) -> None:
    options = ("-m", *launcher, "--nproc-per-node=2")
    assert "2 ranks agree" in run(*options, PROGRAMS / "ddp.py", folder=tmp_path)
    assert (tmp_path / "snapshot.pt").exists()


def test_a_run_is_continued_from_its_checkpoint(tmp_path: Path) -> None:
    run(PROGRAMS / "resume.py", "first", folder=tmp_path)
    assert run(PROGRAMS / "resume.py", "second", folder=tmp_path) == "the same\n"
