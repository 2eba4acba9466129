"""`make gpu-test`: the checks that need a GPU, within 8 minutes, from a plain checkout with CuPy.

    python -m tests.cuda.gpu.run [--standin] [--short] [--only NAME ...]

Each part is a process of its own with a time limit (parts.py), so one that crashes or hangs is a
line of the table at the end. A part skips, and says why, if something is missing. The run fails if
a part fails, crashes or has no time left; but the timings may run out of time. With --standin the
parts run on the stand-in device, with --short in a small form.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

from tests.environment import ROOT, environment

TOTAL = 480.0  # seconds
SLOWER = 6  # times as long, on the stand-in: it compiles for the host
# name -> seconds at most, and what it does
PARTS: dict[str, tuple[float, str]] = {
    "device": (25, "card, driver, CuPy"),
    "assumptions": (45, "what the design assumes of CUDA: assumed / seen"),
    "kernels": (60, "our kernels compile, and give the CPU's numbers"),
    "table": (110, "each row of the op table gives the CPU's values"),
    "convolution": (30, "convolutions by cuDNN are im2col's"),
    "sends": (120, "10,000 sends and 100 kills, device memory before and after"),
    "step": (30, "a training step gives the CPU's losses"),
    "timings": (60, "bandwidth, matmul, a training step, sends"),
}
MAY_RUN_OUT_OF_TIME = {"timings"}  # its numbers are for people, and nothing is checked by them
RESULT = "RESULT "


@dataclass
class Outcome:
    """How a part ended: "ok", "FAILED", "skipped" or "out of time"; and a sentence."""

    name: str
    status: str
    text: str
    seconds: float

    @property
    def fails_the_run(self) -> bool:
        if self.status == "out of time":
            return self.name not in MAY_RUN_OUT_OF_TIME
        return self.status == "FAILED"


def run_part(name: str, limit: float, options: list[str]) -> Outcome:
    """Runs a part and prints what it prints."""
    print(f"\n== {name}: {PARTS[name][1]}", flush=True)
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cuda.gpu.parts", name, *options],
        cwd=ROOT,
        env=environment(PYTHONUNBUFFERED=1),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    is_late = False
    try:
        out, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
        is_late = True
    status, text = "FAILED", "it said no result"
    for line in out.splitlines():
        if line.startswith(RESULT):
            status, _, text = line[len(RESULT) :].partition(": ")
        else:
            print(f"  {line}")
    if is_late:
        status, text = "out of time", f"stopped after {limit:.0f} s"
    elif process.returncode:
        status, text = "FAILED", f"exit code {process.returncode}"
    return Outcome(name, status, text, time.monotonic() - begin)


def main(arguments: list[str] | None = None) -> int:
    """Runs the parts; returns 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.cuda.gpu.run")
    parser.add_argument("--standin", action="store_true", help="on the stand-in device")
    parser.add_argument("--short", action="store_true", help="each part in a small form")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    given = parser.parse_args(arguments)
    options = [f"--{name}" for name in ("standin", "short") if getattr(given, name)]
    slower = SLOWER if given.standin else 1
    begin = time.monotonic()
    outcomes = []
    for name in given.only:
        left = TOTAL * slower - (time.monotonic() - begin)
        if left < 5:
            outcomes.append(Outcome(name, "skipped", "the time is used up", 0.0))
            continue
        outcomes.append(run_part(name, min(PARTS[name][0] * slower, left), options))
    print(f"\n{'part':<12} {'':<11} seconds")
    for o in outcomes:
        print(f"{o.name:<12} {o.status:<11} {o.seconds:7.1f}  {o.text}")
    print(f"{time.monotonic() - begin:.0f} s in all")
    return int(any(o.fails_the_run for o in outcomes))


if __name__ == "__main__":
    raise SystemExit(main())
