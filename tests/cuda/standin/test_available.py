"""Whether the stand-in can be used here; if not, the other tests here are not collected."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.cuda.standin import run
from tests.cuda.standin.build import ROOT, Unavailable
from tests.cuda.standin.fixtures import Misuses
from tests.cuda.standin.install import COMMAND, missing


def test_the_standin_is_built(misuses: Misuses) -> None:
    assert missing() is None


def test_packages_that_cannot_be_had_are_one_line_and_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build() -> None:
        raise Unavailable("pip install cupy failed: no such package")

    monkeypatch.setattr(run, "build", build)
    assert run.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("SKIPPED: ")
    assert "no such package" in lines[0]


def test_cupy_imported_too_early_is_an_error() -> None:
    program = """
import sys, types
sys.modules["cupy"] = types.ModuleType("cupy")
from tests.cuda.standin.install import install
install()
"""
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT
    )
    assert "cupy has been imported already" in process.stderr
    assert COMMAND == "make cuda-standin"


def test_every_test_on_the_device_is_run() -> None:
    taking = re.compile(r"^def test_\w+\([^)]*\b(cp|misuses): ", re.MULTILINE)
    tests = {
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if taking.search(path.read_text())
    }
    assert tests
    assert not [path for path in tests if not path.startswith(run.PATHS)]
