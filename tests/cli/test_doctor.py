"""`doctor` names the problems of a machine and their remedies; a problem is exit code 1."""

from __future__ import annotations

import json
import os
import resource
import time
from pathlib import Path
from typing import Any

import pytest

from shmtensor.cli.doctor import checks
from shmtensor.cli.doctor import report as doctor
from shmtensor.cli.doctor.finding import OK, PROBLEM, WARNING, MachineFiles
from tests.environment import run_program

MIB, GIB = 1 << 20, 1 << 30


def examined(limits: str = "pass") -> tuple[int, list[dict[str, str]]]:
    """Exit code and findings of a doctor under limits."""
    code = f"import resource, sys; {limits}; from shmtensor.cli import main; sys.exit(main())"
    completed = run_program(code, "doctor", "--json")
    assert completed.stderr == ""
    return completed.returncode, json.loads(completed.stdout)


def finding_of(findings: list[dict[str, str]], name: str) -> dict[str, str]:
    (finding,) = [f for f in findings if f["name"] == name]
    return finding


def test_it_looks_at_everything_and_says_how_it_went() -> None:
    code, findings = examined()
    assert {f["name"] for f in findings} == {
        "shared memory", "left in /dev/shm", "memory", "overcommit", "open files", "memory maps",
        "address space", "locks", "huge pages", "BLAS", "instruction set", "GPU", "domains",
    }  # fmt: skip
    assert code == any(f["status"] == PROBLEM for f in findings)
    for finding in findings:
        assert finding["status"] in (OK, WARNING, PROBLEM)
        assert finding["status"] == OK or finding["remedy"], finding


@pytest.mark.parametrize(
    ("limit", "value", "name", "remedy"),
    [
        ("RLIMIT_NOFILE", 64, "open files", "ulimit -n"),
        ("RLIMIT_AS", 60 * GIB, "address space", "ulimit -v unlimited"),
    ],
)
def test_a_problem_is_exit_code_1(limit: str, value: int, name: str, remedy: str) -> None:
    _, hard = resource.getrlimit(getattr(resource, limit))
    assert hard == resource.RLIM_INFINITY or hard > value
    code, findings = examined(
        f"resource.setrlimit(resource.{limit}, ({value}, resource.getrlimit(resource.{limit})[1]))"
    )
    assert code == 1
    assert finding_of(findings, name)["status"] == PROBLEM
    assert remedy in finding_of(findings, name)["remedy"]


class Machine(MachineFiles):
    """One with a /dev/shm of a given size."""

    def space(self, name: str) -> Any:
        return {"none": None, "docker": (64 * MIB, 60 * MIB), "full": (8 * GIB, MIB)}.get(
            self.root, (8 * GIB, 7 * GIB)
        )


@pytest.mark.parametrize(
    ("kind", "status", "remedy"),
    [
        ("none", WARNING, "mount"),
        ("docker", WARNING, "--shm-size"),
        ("full", WARNING, "rm"),
        ("fine", OK, ""),
    ],
)
def test_shared_memory_is_judged_by_its_size(kind: str, status: str, remedy: str) -> None:
    finding = checks.shared_memory(Machine(kind))
    assert finding.status == status
    assert remedy in finding.remedy


def test_a_gpu_that_loaders_cannot_feed_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0").mkdir(parents=True)
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    finding = checks.gpu(MachineFiles(str(tmp_path)))
    assert finding.found.startswith("1 card by NVIDIA")
    assert "pip install shmtensor[cuda12]" in finding.remedy
    monkeypatch.setattr(checks, "find_spec", lambda name: name)
    assert checks.gpu(MachineFiles(str(tmp_path))).remedy == ""


@pytest.mark.parametrize(
    ("check", "file", "text", "status"),
    [
        (checks.overcommit, "proc/sys/vm/overcommit_memory", "2", WARNING),
        (checks.overcommit, "proc/sys/vm/overcommit_memory", "0", OK),
        (checks.maps, "proc/sys/vm/max_map_count", "1000", WARNING),
        (checks.maps, "proc/sys/vm/max_map_count", "65530", OK),
        (checks.huge_pages, "sys/kernel/mm/transparent_hugepage/shmem_enabled", "always [advise]",
         OK),
        (checks.huge_pages, "sys/kernel/mm/transparent_hugepage/shmem_enabled", "[never] advise",
         OK),
    ],
)  # fmt: skip
def test_settings_are_judged(tmp_path: Path, check: Any, file: str, text: str, status: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(text + "\n")
    finding = check(MachineFiles(str(tmp_path)))
    assert finding.status == status
    assert bool(finding.remedy) == (status != OK or "never" in text)


def test_leftover_names_are_counted(tmp_path: Path) -> None:
    machine = MachineFiles(str(tmp_path))
    assert checks.leftovers(machine).status == OK
    shm = tmp_path / "dev" / "shm"
    shm.mkdir(parents=True)
    segment = "sm_segment.host.1000.1.0"  # of a killed mpirun
    for name in ("shmtensor-0123", "torch_1_2", "torch_1_3", segment, "own-file", "psm_young"):
        (shm / name).write_bytes(b"x" * 8192)
        if name != "psm_young":  # recent ones may be in use
            os.utime(shm / name, (time.time() - 100,) * 2)
    finding = checks.leftovers(machine)
    assert finding.status == WARNING
    assert "1 name shmtensor-*" in finding.found
    assert "2 names torch_* of PyTorch" in finding.found
    assert "psm_" not in finding.found
    assert "1 name sm_segment.* of Open MPI, killed" in finding.found
    assert sorted(finding.remedy.partition("rm ")[2].split()) == [
        f"/dev/shm/{prefix}*" for prefix in ("shmtensor-", "sm_segment.", "torch_")
    ]


def test_an_odd_machine_hides_no_other_finding(tmp_path: Path) -> None:
    findings = doctor.examine(str(tmp_path))
    assert len(findings) == len(checks.CHECKS)


def test_the_page_fits_80_columns() -> None:
    completed = run_program("-m", "shmtensor", "doctor")
    assert completed.stderr == ""
    assert all(len(line) <= 80 or "/" in line for line in completed.stdout.splitlines())
    assert "13 checks:" in completed.stdout
