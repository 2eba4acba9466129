"""Examples with --device cuda print what they print on the CPU, as a user runs them."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

pytest.importorskip("tqdm", reason="the examples' progress bar")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RUNS = {
    "cart_pole": ["--quick", "--method", "actor_critic"],
    "sentence_pairs": ["--steps", "2"],
    "time_series": ["--steps", "1"],
}


@contextmanager
def no_panels(path: str, rows: int = 1, columns: int = 1, size: float = 3.0) -> Iterator[Any]:
    """In place of the examples' figures: matplotlib may be missing."""
    yield [MagicMock() for _ in range(rows * columns)]


def run(name: str, device: str, monkeypatch: Any, capsys: Any) -> list[float]:
    """The numbers that an example prints."""
    import pictures

    monkeypatch.setattr(pictures, "panels", no_panels)
    path = str(EXAMPLES / f"{name}.py")
    monkeypatch.setattr(sys, "argv", [path, *RUNS[name], "--device", device])
    runpy.run_path(path, run_name="__main__")
    out = capsys.readouterr().out
    assert out, "nothing was printed"
    return [float(x) for x in re.findall(r"\d+\.\d+|\b\d+\b", out)]


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_an_example_on_a_gpu(cp: Any, name: str, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    on_cpu = run(name, "cpu", monkeypatch, capsys)
    np.testing.assert_allclose(run(name, "cuda", monkeypatch, capsys), on_cpu, 1e-2)
