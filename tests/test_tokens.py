"""The language model example as a user runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "tokens.py"


def run(workers: int, folder: Path, *options: str) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLE), "--workers", str(workers)]
    command += options or ["--epochs", "2", "--sentences", "800"]
    process = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert process.returncode == 0, f"{process.stdout}\n{process.stderr}"
    return process.stdout


def test_the_language_model_learns_the_same_with_any_number_of_workers(tmp_path: Path) -> None:
    single, together = run(0, tmp_path), run(2, tmp_path)
    assert single == together
    perplexities = [float(text) for text in re.findall(r"perplexity ([\d.]+)", single)]
    assert len(perplexities) == 3, single
    assert perplexities[1] < 5 < perplexities[2] == 25, single


def test_the_language_model_has_the_options_of_the_other_examples(tmp_path: Path) -> None:
    printed = run(0, tmp_path, "--quick", "--out", "picture.png")
    assert printed.strip().endswith("picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000
