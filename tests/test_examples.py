"""Every example runs as a user types it, with --quick, and leaves its picture."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
NAMES = sorted({path.stem for path in EXAMPLES.glob("*.py")} - OWN_TESTS - PARTS)


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
    assert (tmp_path / "picture.png").stat().st_size > 1000


def test_examples_are_short() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert not {name: n for name, n in lengths.items() if n > 120}


def test_every_network_is_compared_with_pytorch() -> None:
    from models.cases import CASES

    assert {case.example for case in CASES} == set(NAMES) - {"hogwild"}
