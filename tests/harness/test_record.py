"""The committed results: a file per kind of machine, a line per case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MACHINE = {"processor": "AMD EPYC (avx2)", "cores": 2, "time": "2026-01-01 00:00:00"}


@pytest.fixture(autouse=True)
def _isolate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.harness import record

    monkeypatch.setattr(record, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(record, "commit", lambda: "abcdef1")


def saved(machine: dict[str, Any] = MACHINE, only: str = "", **seconds: list[float]) -> Path:
    """Cases by name, with our seconds; the rival always took 2 s."""
    from benchmarks.harness.measure import Result
    from benchmarks.harness.record import save

    results = [
        Result(name, {"shmtensor": ours, "pytorch": [2.0] * len(ours)}, 0.5, "pytorch")
        for name, ours in seconds.items()
    ]
    return save(results, machine, only)


def cases_in(path: Path) -> list[dict[str, float]]:
    from benchmarks.harness.record import load

    return [{case["name"]: case["ratio"] for case in run["cases"]} for run in load(path)]


def test_file_has_a_line_per_case_with_its_spread() -> None:
    path = saved(add=[1.0, 4.0, 2.0], mul=[1.0])
    assert path.name == "amd-epyc-avx2-2-cores.jsonl"
    head, add, mul = map(json.loads, path.read_text().splitlines())
    assert head == {"machine": MACHINE, "commit": "abcdef1", "only": ""}
    assert add["seconds"] == {"shmtensor": [1.0, 2.0, 4.0], "pytorch": [2.0, 2.0, 2.0]}
    assert (add["name"], add["ratio"], mul["ratio"]) == ("add", 1.0, 0.5)


def test_complete_run_replaces_the_file_of_its_kind_of_machine() -> None:
    other = saved({**MACHINE, "cores": 16}, add=[1.0])
    saved(add=[1.0], mul=[1.0])
    assert cases_in(saved(add=[3.0])) == [{"add": 1.5}]
    assert cases_in(other) == [{"add": 0.5}]


def test_partial_run_replaces_the_cases_that_it_ran() -> None:
    saved(add=[1.0], mul=[1.0], sub=[1.0])
    saved(only="mul|sub", mul=[2.0], sub=[2.0])
    assert cases_in(saved(only="sub", sub=[4.0])) == [{"add": 0.5}, {"mul": 1.0}, {"sub": 2.0}]
    assert cases_in(saved(only="mul", mul=[6.0])) == [{"add": 0.5}, {"sub": 2.0}, {"mul": 3.0}]


def test_short_turns_are_not_saved(capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks.__main__ import main

    with pytest.raises(SystemExit):
        main(["--quick", "--save"])
    assert "short turns do not replace long ones" in capsys.readouterr().err
