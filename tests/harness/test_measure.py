"""The benchmark harness: parties in turn, ratios of pairs, cases that name their rivals."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _from_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def case(**parties: Any) -> Any:
    from benchmarks.harness.case import Case

    return Case("layer/what", parties, 0.5)


def test_parties_are_measured_in_turn() -> None:
    from benchmarks.harness.measure import measure

    order: list[str] = []

    def party(name: str, seconds: float) -> Any:
        def run() -> float:
            order.append(name)
            return seconds

        return lambda library: run

    result = measure(case(shmtensor=party("a", 1.0), numpy=party("b", 4.0)), 5, 0.01)
    assert result.seconds == {"shmtensor": [1.0] * 5, "numpy": [4.0] * 5}
    assert "".join(order[-20:]).count("ab") >= 5
    assert result.ratio is None  # the target is against PyTorch


def test_ratio_is_the_median_of_pairs() -> None:
    from benchmarks.harness.measure import Result

    seconds = {"shmtensor": [1.0, 1.0, 9.0], "pytorch": [2.0, 2.0, 18.0]}
    assert Result("x", seconds, 0.5, "pytorch").ratio == 0.5
    assert Result("x", {"shmtensor": [1.0]}, 0.5, "pytorch").ratio is None


def test_memory_and_shares_are_shown_as_such() -> None:
    from benchmarks.harness.measure import Result
    from benchmarks.harness.report import format_amount, line

    assert [format_amount(n, "B") for n in (5e4, 2.3e8, 3e9)] == ["50 KB", "230 MB", "3000 MB"]
    bytes_held = Result(
        "x", {"shmtensor": [2e8], "shmtensor, one": [1e8]}, 1.2, "shmtensor, one", "B"
    )
    assert "200 / 200 / 200 MB shmtensor, one 100 MB" in line(bytes_held)
    assert line(bytes_held).endswith("2.00   1.20 MISS")
    copied = Result(
        "x", {"shmtensor": [2e-6, 4e-6], "numpy, memcpy": [1e-6, 3e-6]}, None, "pytorch"
    )
    assert copied.share == 0.625
    assert "memcpy 2 µs (we reach 62% of it)" in line(copied)
    assert bytes_held.share is None


def test_absent_library_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.harness.measure import measure

    monkeypatch.setitem(sys.modules, "torch", None)  # import torch: ModuleNotFoundError
    parties = {"shmtensor": lambda st: lambda: 1.0, "pytorch": lambda torch: lambda: 1.0}
    assert list(measure(case(**parties), 5, 0.001).seconds) == ["shmtensor"]


def test_party_cleans_up_after_itself() -> None:
    from benchmarks.harness.measure import measure

    ends = []

    def party(library: Any) -> Any:
        yield lambda: 0.5
        ends.append(True)

    measure(case(shmtensor=party), 5, 0.001)
    assert ends == [True]


def test_names_are_unique_and_every_target_has_its_rival() -> None:
    from benchmarks.__main__ import cases

    every = cases("")
    assert len({c.name for c in every}) == len(every) > 40
    for c in every:
        assert next(iter(c.parties)) == "shmtensor"
        assert c.target is None or c.against in c.parties


def test_run_writes_its_raw_results(tmp_path: Path, capsys: Any) -> None:
    from benchmarks.__main__ import main

    file = tmp_path / "raw.json"
    assert main(["--quick", "--only", "^dispatch/add$", "--json", str(file)]) == 0
    output = capsys.readouterr().out
    assert "memcpy" in output
    assert "dispatch/add" in output
    assert "1 cases" in output
    record = json.loads(file.read_text())
    (case,) = record["cases"]
    assert len(case["seconds"]["shmtensor"]) >= 5
    assert record["machine"]["cores"] >= 1
