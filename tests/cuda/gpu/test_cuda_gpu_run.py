"""`make gpu-test` and `make gpu-bench` in their short form, on the stand-in device."""

from __future__ import annotations

import importlib.util
import re
from typing import Any

import pytest

from benchmarks import cuda_host
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
    assert cuda_host.main(["--standin"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 1 + len(cuda_host.CASES)
    assert "SGD, width 64: step" in lines[-1]


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


def test_a_part_that_only_informs_does_not_fail_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for status in ("FAILED", "out of time"):
        monkeypatch.setattr(
            run, "run_part", lambda name, *_, s=status: run.Outcome(name, s, "why", 1.0)
        )
        assert run.main(["--only", "timings"]) == 0
        assert run.main(["--only", "timings", "sends"]) == 1


def test_without_the_cpus_products_a_part_skips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(parts.Skip, match="pip install scipy-openblas32"):
        parts.need_products()


def test_parts_and_limits_fit() -> None:
    assert list(run.PARTS) == list(parts.PARTS)
    assert sum(limit for limit, _ in run.PARTS.values()) <= run.TOTAL == 480
