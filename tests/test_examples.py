"""Every example runs as a user types it, with --quick, and leaves its picture."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
OWN_TESTS = {"digits", "tokens"}  # test_demo.py, test_tokens.py
PARTS = {
    "language",
    "photographs",
    "pictures",
    "sentences",
    "training",
}  # other examples import them
WITH_LOOP = sorted(path.stem for path in EXAMPLES.glob("trainer_*.py"))
NAMES = sorted({path.stem for path in EXAMPLES.glob("*.py")} - OWN_TESTS - PARTS - set(WITH_LOOP))


def contrast(path: Path) -> int:
    """The largest difference of gray values in the middle of a picture; 0 for empty axes."""
    image = pytest.importorskip("PIL.Image")
    with image.open(path) as file:
        width, height = file.size
        middle = file.convert("L").crop((width // 4, height // 4, 3 * width // 4, 3 * height // 4))
    low, high = middle.getextrema()
    return int(high - low)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_example_runs_and_draws(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), "--quick"]
    process = subprocess.run(
        [*command, "--out", "picture.png"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert process.returncode == 0, f"{process.stdout}\n{process.stderr}"
    assert process.stdout.strip().endswith("picture.png")
    assert contrast(tmp_path / "picture.png") > 100


RUN_THREE_WAYS = """
import os, runpy, sys
path = sys.argv[1]
sys.path.insert(0, os.path.dirname(path))
common = ["--quick", "--device", "cpu", "--out", "picture.png", *sys.argv[2:]]
for options in (["--loop"], ["--nprocs", "1"], ["--nprocs", "2"]):
    sys.argv = [path, *common, *options]
    runpy.run_path(path, run_name="__main__")
    print("end")
"""


@cache
def figures(name: str) -> list[list[float]]:
    """What an example prints by the loop, by the Trainer in one process, and in two."""
    path = EXAMPLES / f"{name}.py"
    command = [sys.executable, "-W", "error", "-c", RUN_THREE_WAYS, str(path)]
    if name == "trainer_gan":  # two networks that train against each other amplify rounding
        command += ["--epochs", "1"]
    with TemporaryDirectory() as folder:
        process = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert process.returncode == 0, f"{process.stdout}\n{process.stderr}"
        assert contrast(Path(folder, "picture.png")) > 100
    texts = process.stdout.split("end\n")[:-1]
    return [[float(each) for each in re.findall(r"\b\d+\.\d+\b", text)] for text in texts]


@pytest.mark.parametrize("nprocs", [1, 2])
@pytest.mark.parametrize("name", WITH_LOOP)
def test_trainer_gives_the_figures_of_the_loop(name: str, nprocs: int) -> None:
    by_loop, *by_trainer = figures(name)
    assert len(by_loop) >= 2
    assert by_trainer[nprocs - 1] == pytest.approx(by_loop, rel=2e-4 if nprocs == 2 else 0, abs=0)


def test_examples_are_short() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert not {name: n for name, n in lengths.items() if n > 120}


def test_every_network_is_compared_with_pytorch() -> None:
    from models.cases import CASES

    # The samples of distributions are those of each library's own generator.
    assert {case.example for case in CASES} == set(NAMES) - {"hogwild", "bayesian_regression"}
