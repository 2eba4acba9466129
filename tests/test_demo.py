"""The demo as a user runs it; with a tiny /dev/shm; and with all its processes killed at once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parent.parent / "examples" / "digits.py"
SHORT = [sys.executable, str(DEMO), "--epochs", "3"]

# A new mount namespace; for users other than root, inside a user namespace.
UNSHARE = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]


def run(command: list[str], folder: Path) -> str:
    process = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )
    assert process.returncode == 0, f"{process.stdout}\n{process.stderr}"
    return process.stdout


def accuracy_in(text: str) -> float:
    match = re.search(r"accuracy\D*([\d.]+) ?%", text)
    assert match, text
    return float(match[1])


@pytest.mark.slow
def test_demo_learns_copies_nothing_and_draws_its_curves(tmp_path: Path) -> None:
    text = run([sys.executable, str(DEMO), "--out", "curves.png"], tmp_path)
    assert accuracy_in(text) >= 97
    assert re.search(r"copied\D*\b0\b", text), text
    assert re.search(r"samples", text)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_demo_runs_with_one_megabyte_of_shm(tmp_path: Path) -> None:
    probe = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"this user may not make a mount namespace: {probe.stderr.strip()}")
    inside = 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"'
    text = run([*UNSHARE, "sh", "-c", inside, "sh", *SHORT], tmp_path)
    assert accuracy_in(text) > 50


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1.0, 3.0])
def test_all_processes_killed_at_once_leave_nothing(tmp_path: Path, seconds: float) -> None:
    before = names()
    command = [sys.executable, str(DEMO), "--epochs", "1000"]
    demo = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with pytest.raises(subprocess.TimeoutExpired):  # the demo runs until it is killed
        demo.wait(seconds)
    os.killpg(demo.pid, signal.SIGKILL)
    assert demo.wait(10) == -signal.SIGKILL
    end = time.monotonic() + 5
    while time.monotonic() < end and (pids := members(demo.pid)):
        time.sleep(0.01)
    assert not pids, f"still there: {pids}"
    new = names() - before
    while new and time.monotonic() < end:  # those of other programs have such names for a moment
        time.sleep(0.01)
        new &= names()
    assert not new


def names() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if name.startswith("shmtensor-")}


def members(session: int) -> list[str]:
    """Processes of a session, by their stat; zombies that init has yet to reap do not count."""
    names = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, tail = path.read_text().rpartition(")")
        except OSError:  # ended meanwhile
            continue
        fields = tail.split()
        if fields[0] != "Z" and int(fields[3]) == session:
            names.append(name)
    return names
