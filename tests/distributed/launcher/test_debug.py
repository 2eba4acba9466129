"""The debug level, and the debugger on one rank."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from shmtensor import distributed as dist
from shmtensor.distributed.launcher import debug
from shmtensor.errors import CollectiveTimeout

from ..run_ranks import run, values

SCRIPT = """
import sys
import shmtensor.distributed as dist
dist.init_process_group()
secret = 100 + dist.get_rank()
for turn in range(2):
    dist.breakpoint(1, skip=1)
sys.stdout.write(f"went on {dist.get_rank()}\\n")
"""


def take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_rank_of_the_launcher_is_debugged_at_the_terminal(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    mine, theirs = pty.openpty()
    command = [sys.executable, "-m", "shmtensor.run", "--nproc-per-node", "2", str(script)]
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=take_terminal,
    )
    os.close(theirs)
    output = b""
    try:
        os.write(mine, b"p secret, turn\nc\n")
        while select.select([mine], [], [], 60)[0]:
            try:
                part = os.read(mine, 4096)
            except OSError:  # all ranks have closed it
                break
            if not part:
                break
            output += part
        assert process.wait(60) == 0, output
    finally:
        process.terminate()  # the launcher ends its ranks
        process.wait()
        os.close(mine)
    assert b"(101, 1)" in output, output
    assert b"went on 0" in output
    assert b"went on 1" in output


def run_debugger(commands: bytes) -> Any:
    """Without a terminal: commands from standard input, which Python's children do not see."""
    os.setsid()
    mine, theirs = os.pipe()
    os.write(theirs, commands)
    os.close(theirs)
    before = os.dup(0)
    os.dup2(mine, 0)
    steps = ["begin"]
    try:
        dist.breakpoint()
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(mine)
    return steps


def test_the_debugger_is_in_the_frame_that_called(capfd: pytest.CaptureFixture[str]) -> None:
    result = values(run(run_debugger, 2, b"steps.append('changed')\nc\n", start_method="fork"))
    assert result == [["begin", "changed"], ["begin"]]
    assert "(Pdb)" in capfd.readouterr().out


def late() -> None:
    other = dist.new_group([0, 1])
    if dist.get_rank() == 0:
        with pytest.raises(CollectiveTimeout, match=r"0\.05"):
            dist.breakpoint(1, timeout_s=0.05)
    dist.barrier(other)


def test_the_others_wait_no_longer_than_the_timeout() -> None:
    values(run(late, 2, start_method="fork"))


def test_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug, "level", None)
    monkeypatch.delenv("TORCH_DISTRIBUTED_DEBUG", raising=False)
    assert dist.get_debug_level() is dist.DebugLevel.OFF
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "detail")
    assert dist.get_debug_level() is dist.DebugLevel.DETAIL
    dist.set_debug_level(dist.DebugLevel.INFO)
    assert dist.get_debug_level() is dist.DebugLevel.INFO
    dist.set_debug_level_from_env()
    assert dist.get_debug_level() is dist.DebugLevel.DETAIL
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "much")
    with pytest.raises(RuntimeError, match="neither OFF, INFO nor DETAIL: 'much'"):
        dist.set_debug_level_from_env()
    assert dist.breakpoint is debug.breakpoint
