"""`top` shows the state of a domain in 80 columns, and the domain does not notice it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from typing import Any

import pytest

from shmtensor.cli import main
from shmtensor.cli.find_domains import NoDomain
from shmtensor.cli.find_domains import select as choose
from shmtensor.cli.top.format import lines
from shmtensor.cli.top.snapshot import Held, Process, Queue, Snapshot, Unclaimed, survey_domain
from shmtensor.cli.top.tables import count
from shmtensor.memory.statistics import size
from tests.environment import run_program

from .running import LONG, Program

TOP = [sys.executable, "-m", "shmtensor", "top"]


def run_once(program: Program, *options: str) -> str:
    completed = run_program("-m", "shmtensor", "top", str(program.pid), "--once", *options)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def until(read: Any, seconds: float = LONG) -> Any:
    """Calls `look` until its result is true; returns the result."""
    end = time.monotonic() + seconds
    while not (result := read()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
    return result


def test_it_shows_the_blocks_of_each_process(shared_program: Program) -> None:
    snapshot = json.loads(run_once(shared_program, "--json"))
    assert snapshot["domain"] == shared_program.id
    rows = {p["role"]: p for p in snapshot["processes"]}
    assert set(rows) == {"main", "worker 0"}
    assert rows["main"]["pid"] == shared_program.pid
    assert rows["worker 0"]["pid"] == shared_program.child
    assert all(p["state"] == "live" for p in rows.values())
    assert rows["main"]["slots"] == snapshot["slots_used"] >= 1
    assert rows["main"]["committed_bytes"] == snapshot["committed_bytes"] > 9 * 4000
    assert rows["worker 0"]["held_blocks"] >= 2
    assert rows["main"]["held_blocks"] == 0
    holds = rows["worker 0"]["held_of"]
    assert holds == [{"row": rows["main"]["row"], "blocks": rows["worker 0"]["held_blocks"]}]
    assert rows["main"]["held_of"] == []
    (queue,) = [q for q in snapshot["queues"] if q["maxsize"] == 10]
    assert (queue["ready"], queue["over"], queue["writing"], queue["reading"]) == (7, 2, 0, 0)
    assert queue["bytes"] > 7 * 4000
    assert snapshot["unclaimed_messages"] == 1
    (unclaimed,) = snapshot["oldest_unclaimed"]
    assert unclaimed["row"] == rows["main"]["row"]
    assert unclaimed["bytes"] >= 2000
    assert rows["main"]["unread_messages"] >= 8


def test_the_page_says_the_same_in_80_columns(shared_program: Program) -> None:
    page = run_once(shared_program)
    assert all(len(line) <= 80 for line in page.splitlines())
    assert f"domain {shared_program.id[:8]}   2 processes" in page
    assert "never claimed: 1 handle by other transports" in page
    assert str(shared_program.child) in page
    assert "worker 0" in page
    mine, other = (line.split()[0] for line in page.splitlines() if line.endswith(("main", "r 0")))
    assert f"{mine:>9}  {other}: " in page.split("ARE HELD BY")[1]


def test_snapshots_leave_no_trace(shared_program: Program) -> None:
    before = shared_program.ask()
    descriptors = os.listdir(f"/proc/{shared_program.pid}/fd")
    domain = choose(str(shared_program.pid))
    snapshots = [survey_domain(domain) for _ in range(20)]
    assert len({len(s.processes) for s in snapshots}) == 1
    assert shared_program.ask() == before == [2, 2]
    assert os.listdir(f"/proc/{shared_program.pid}/fd") == descriptors


def test_rates_are_those_between_two_looks(program: Program) -> None:
    domain = choose(program.id[:10])
    before = survey_domain(domain)
    assert before.processes[0].rate is None
    for _ in range(5):
        program.ask("put")
    now = survey_domain(domain, before)
    elapsed = max(now.time - before.time, 1e-3)  # as in with_rates
    main_row = next(p for p in now.processes if p.pid == program.pid)
    queue = next(q for q in now.queues if q.maxsize == 10)
    assert main_row.rate == pytest.approx(5 / elapsed)
    assert queue.rate == pytest.approx(5 / elapsed)
    assert queue.ready == 7


def test_the_dead_are_shown_as_dead(program: Program) -> None:
    os.kill(program.child, signal.SIGKILL)
    domain = choose(program.id)

    def state() -> bool:
        return [p.state for p in survey_domain(domain).processes if p.pid == program.child] == [
            "dead"
        ]

    until(state)


def test_an_unknown_domain_is_an_error(
    shared_program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NoDomain, match="no such domain or member: none-such"):
        choose("none-such")
    assert main(["top", "none-such"]) == 1
    assert "top: no such domain or member: none-such, there are" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--interval", "0"], ["--interval", "nan"], ["--interval", "x"]])
def test_wrong_arguments_are_refused(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["top", *wrong])
    assert caught.value.code == 2


class Terminal:
    """`top` on a terminal of 80 columns and 24 lines, its SIGINT ignored at the start."""

    IGNORING = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN);"
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )

    def __init__(self, pid: int) -> None:
        self.screen, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.mode = termios.tcgetattr(end)
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.IGNORING, "-m", "shmtensor", "top", str(pid),
             "--interval", "0.1"],
            stdin=end, stdout=end, stderr=end,
            env={k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")},
        )  # fmt: skip
        self.end = end
        self.text = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(LONG)
        os.close(self.end)
        os.close(self.screen)

    def read(self, timeout: float) -> str:
        ready, _, _ = select.select([self.screen], [], [], timeout)
        if ready:
            self.text += os.read(self.screen, 1 << 16).decode()
        return self.text

    def shows(self, text: str, times: int = 1) -> None:
        until(lambda: self.read(0.05).count(text) >= times)

    def ends(self) -> int:
        """Reads until the process has ended, because the terminal's buffer is small."""
        until(lambda: (self.read(0.01), self.process.poll() is not None)[1])
        while len(self.text) != len(self.read(0.1)):
            pass
        return self.process.returncode


@pytest.mark.parametrize("quit_by", ["q", "SIGINT", "SIGTERM"])
def test_live_it_redraws_in_place_until_the_end(shared_program: Program, quit_by: str) -> None:
    with Terminal(shared_program.pid) as terminal:
        terminal.shows("q ends", times=3)
        if quit_by == "q":
            os.write(terminal.screen, b"q")
        else:
            terminal.process.send_signal(getattr(signal, quit_by))
        assert terminal.ends() == 0
        text = terminal.text
        assert text.startswith("\x1b[?1049h\x1b[?25l\x1b[H")
        assert text.count("\x1b[?25h\x1b[?1049l") == 1
        assert termios.tcgetattr(terminal.end) == terminal.mode
        frames = text.split("\x1b[H")[1:]
        assert all(len(frame.split("\r\n")) <= 24 for frame in frames)
        assert "worker 0" in frames[1]


def test_it_ends_with_the_domain(program: Program) -> None:
    with Terminal(program.pid) as terminal:
        terminal.shows("q ends")
        os.kill(program.child, signal.SIGKILL)
        os.kill(program.pid, signal.SIGKILL)
        assert terminal.ends() == 0
        assert "is gone" in terminal.text
        assert terminal.text.count("\x1b[?25h\x1b[?1049l") == 1


def test_without_a_terminal_json_is_a_line_for_each_look(shared_program: Program) -> None:
    command = [*TOP, shared_program.id, "--json", "--interval", "0.05"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        snapshots = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(LONG) == 0
    assert [snapshot["domain"] for snapshot in snapshots] == [shared_program.id] * 3
    assert snapshots[0]["processes"][0]["rate"] is None
    assert snapshots[2]["processes"][0]["rate"] is not None


def snapshot(processes: int, queues: int) -> Snapshot:
    """A snapshot with any number of processes and queues."""
    return Snapshot(
        "ab" * 16, 0.0, 1024, 99, 1, 1 << 26, 5 << 30, 3,
        [Process(i, 10**6 + i, "live", "a role " * 12 + "\x1b[31m", 9, 10**12, 10**7,
                 [Held(i - 1, 10**6), Held(0, 5)], 10**6, 10**9, 1e6, 5, 1e6)
         for i in range(processes)],
        [Queue(f"{i}+0x1000", 10**6, 1, 1, i, 10**10, 10**9, 123456.0) for i in range(queues)],
        7, 10**9, [Unclaimed(3, 1000, 1e6)],
    )  # fmt: skip


@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, 10), (40, 50), (200, 24), (80, 300)])
def test_the_page_fits_any_terminal(width: int, height: int) -> None:
    for processes, queues in ((1, 0), (3, 2), (250, 40), (0, 0)):
        page = lines(snapshot(processes, queues), width, height)
        assert all(len(line) <= width for line in page)
        assert len(page) <= height
        assert not any("\x1b" in line for line in page)
    assert any("more processes" in line for line in lines(snapshot(250, 40), 80, 24))
    assert any("more queues" in line for line in lines(snapshot(250, 40), 80, 24))


def test_numbers_are_short() -> None:
    assert [count(n) for n in (None, 0, 999, 1000, 1234, 99_949, 123_456, 5e6, 7e12)] == [
        "-", "0", "999", "1.0k", "1.2k", "99.9k", "123k", "5.0M", "7000G",
    ]  # fmt: skip
    assert [size(n) for n in (0, 999, 1000, 1 << 20, 25e9, 3e12)] == [
        "0 B", "999 B", "1.0 kB", "1.0 MB", "25.0 GB", "3.0 TB",
    ]  # fmt: skip
