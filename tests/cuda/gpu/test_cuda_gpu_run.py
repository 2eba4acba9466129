"""`make gpu-test` and `make gpu-bench` in their short form, on the stand-in device."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from typing import Any

import pytest

from benchmarks.cuda import host, throughput
from shmtensor import cudnn_runtime
from tests.cuda.gpu import parts, run

HEAD = re.compile(r"^(\w+) +(ok|FAILED|skipped|out of time) +[\d.]+", re.MULTILINE)


@pytest.mark.slow
def test_parts_in_short_form(cp: Any, capfd: pytest.CaptureFixture[str]) -> None:
    code = run.main(["--standin", "--short"])
    out = capfd.readouterr().out
    expected = dict.fromkeys(run.PARTS, "ok")
    if cudnn_runtime.why_missing():
        expected["convolution"] = "skipped"
    assert dict(HEAD.findall(out)) == expected, out
    assert code == 0
    assert "an interior pointer gives the identical handle" in out
    assert "60 sends, 2 kills, nothing is left" in out
    assert "matmul float32" in out
    assert "send of 4 MiB, with an answer" in out


@pytest.mark.slow
def test_host_times_of_small_operations(cp: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert host.main(["--standin"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 1 + len(host.CASES)
    assert "convolutions, Adam: step" in lines[-1]


def test_a_failed_case_is_said_by_the_exit_code(
    cp: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def build(library: Any, nn: Any, short: bool) -> Any:
        raise ValueError("no such thing")

    cases = [throughput.Case("fails", build), throughput.Case("add", throughput.small)]
    monkeypatch.setattr(throughput, "CASES", cases)
    monkeypatch.setattr(throughput, "send_row", lambda *_: throughput.Row(cases[1], 1.0, None))
    assert throughput.main(["--standin", "--short"]) == 1
    assert re.search(r"^fails +ValueError: no such thing", out := capfd.readouterr().out, re.M), out
    assert re.search(r"^add +[\d.,]+ us", out, re.M), out


def test_a_part_without_a_gpu_is_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_gpu(options: Any) -> Any:
        raise parts.Skip("CuPy is not installed")

    monkeypatch.setattr(parts, "use_cuda", no_gpu)
    for name in parts.PARTS:
        assert parts.main([name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["RESULT skipped: CuPy is not installed"] * len(parts.PARTS)


def test_a_part_has_a_time_limit(capfd: pytest.CaptureFixture[str]) -> None:
    outcome = run.run_part("device", 0.01, [])
    assert (outcome.status, outcome.text) == ("out of time", "stopped after 0 s")


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [
        ("timings", "ok", 0),
        ("timings", "skipped", 0),
        ("timings", "out of time", 0),
        ("timings", "FAILED", 1),
        ("sends", "out of time", 1),
        ("sends", "FAILED", 1),
    ],
)
def test_the_timings_may_only_run_out_of_time(
    monkeypatch: pytest.MonkeyPatch, name: str, status: str, code: int
) -> None:
    def run_part(part: str, limit: float, options: list[str]) -> run.Outcome:
        return run.Outcome(part, status if part == name else "ok", "why", 1.0)

    monkeypatch.setattr(run, "run_part", run_part)
    assert run.main(["--only", "timings", "sends"]) == code


@pytest.mark.parametrize(
    ("code", "status", "text"),
    [
        ("import os; os.abort()", "FAILED", "exit code -6"),
        ("print('RESULT ok: ', flush=True); import os; os.abort()", "FAILED", "exit code -6"),
        ("raise SystemExit(0)", "FAILED", "it said no result"),
        ("print('RESULT ok: 3 GB/s')", "ok", "3 GB/s"),
        ("print('RESULT FAILED: values differ')", "FAILED", "values differ"),
    ],
)
def test_a_part_that_crashes_has_failed(
    monkeypatch: pytest.MonkeyPatch, code: str, status: str, text: str
) -> None:
    start = subprocess.Popen

    def start_code(command: list[str], **options: Any) -> Any:
        return start([command[0], "-c", code], **options)

    monkeypatch.setattr(subprocess, "Popen", start_code)
    outcome = run.run_part("timings", 60.0, [])
    assert (outcome.status, outcome.text) == (status, text)


def test_without_the_cpus_products_a_part_skips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(parts.Skip, match="pip install scipy-openblas32"):
        parts.need_products()


def test_parts_and_limits_fit() -> None:
    assert list(run.PARTS) == list(parts.PARTS)
    assert sum(limit for limit, _ in run.PARTS.values()) <= run.TOTAL == 480
