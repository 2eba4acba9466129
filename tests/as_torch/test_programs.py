"""Programs of the kinds that people start from run unchanged, and give the right result."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.as_torch.run_program import PROGRAMS, run, write_mnist


def size_of_png(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_a_convolutional_network_learns_digits(tmp_path: Path) -> None:
    write_mnist(tmp_path / "data")
    assert run(PROGRAMS / "cnn.py", folder=tmp_path) == "accuracy 1.00 lr 0.49\n"


def test_a_recurrent_network_learns_sums(tmp_path: Path) -> None:
    assert run(PROGRAMS / "rnn.py", folder=tmp_path) == "learned\n"


def test_processes_train_one_model(tmp_path: Path) -> None:
    assert run(PROGRAMS / "hogwild.py", folder=tmp_path) == "trained by 2\n"


def test_an_autoencoder_draws_its_samples(tmp_path: Path) -> None:
    write_mnist(tmp_path / "data")
    assert run(PROGRAMS / "vae.py", folder=tmp_path) == "loss fell\n"
    assert size_of_png(tmp_path / "sample.png") == (122, 122)


def test_a_generator_and_a_discriminator(tmp_path: Path) -> None:
    assert run(PROGRAMS / "gan.py", folder=tmp_path) == "fake (8, 3, 16, 16)\n"
    assert size_of_png(tmp_path / "fake.png") == (8 * 18 + 2, 20)


def test_a_policy_learns_the_best_arm(tmp_path: Path) -> None:
    assert run(PROGRAMS / "reinforce.py", folder=tmp_path) == "best arm 1\n"


# torch.compile says once that it leaves the model as it is.
def test_a_gpt_learns_to_count(tmp_path: Path) -> None:
    text = run(PROGRAMS / "gpt.py", folder=tmp_path, warnings="default")
    assert text == "[0, 1, 2, 3, 4, 5, 6, 7, 8]\n"


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


def test_workers_of_each_start_method_load(tmp_path: Path) -> None:
    assert run(PROGRAMS / "spawn_loader.py", folder=tmp_path) == "loaded\n"


def test_a_run_is_continued_from_its_checkpoint(tmp_path: Path) -> None:
    run(PROGRAMS / "resume.py", "first", folder=tmp_path)
    assert run(PROGRAMS / "resume.py", "second", folder=tmp_path) == "the same\n"
