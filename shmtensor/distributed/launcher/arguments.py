"""The launcher's arguments, by torchrun's names; the environment may set them: PET_MAX_RESTARTS."""

from __future__ import annotations

import argparse
import os
import signal
from typing import Any


def parse_signals(text: str) -> list[signal.Signals]:
    """The signals of a list such as SIGTERM,SIGINT."""
    try:
        return [signal.Signals[name.strip()] for name in text.split(",")]
    except KeyError as error:
        raise argparse.ArgumentTypeError(f"there is no such signal: {error}") from None


def check_streams(text: str) -> str:
    """Checks a value such as 3, or 0:1,1:2; returns it."""
    for part in text.split(","):
        rank, colon, what = part.rpartition(":")
        is_pair = bool(colon) and rank.isdigit()
        if what not in ("0", "1", "2", "3") or not (is_pair or part == text == what):
            raise argparse.ArgumentTypeError(f"is neither 0 to 3 nor rank:what,...: {text!r}")
    return text


def parse_texts(text: str) -> list[str]:
    """The texts of a list such as apple,orange; two commas mean one comma."""
    return [part.replace("\0", ",") for part in text.replace(",,", "\0").split(",") if part]


def parse_nproc(text: str) -> int:
    if text in ("auto", "cpu"):
        return len(os.sched_getaffinity(0))
    if text == "gpu":
        from ..backends.nccl.cupy_nccl import count_gpus

        n = count_gpus()
        if not n:
            raise argparse.ArgumentTypeError("there is no GPU for CuPy here: auto, cpu or a number")
        return n
    try:
        n = int(text)
    except ValueError:
        n = 0
    if n < 1:
        raise argparse.ArgumentTypeError(f"is not a number of processes: {text!r}")
    return n


RENDEZVOUS = {  # --rdzv-...
    "backend": "rendezvous of several machines: static (by --master-addr) or c10d (by "
    "--rdzv-endpoint)",
    "endpoint": "HOST:PORT of c10d's rendezvous",
    "id": "name of the run, the same on all machines",
    "conf": "key=value,... of the rendezvous: last_call_timeout, join_timeout, ...",
}


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python -m shmtensor.run",
        description="Starts a script as several ranks, which share tensors. For several machines "
        "start a launcher on each. Takes torchrun's options.",
    )

    def add(*names: str, **options: Any) -> None:
        """Adds an option, which may also be written with underscores."""
        underscored = [f"--{n[2:].replace('-', '_')}" for n in names if "-" in n[2:]]
        p.add_argument(*names, *underscored, **options)

    add(
        "--nproc-per-node",
        "--nproc",
        type=parse_nproc,
        default=1,
        metavar="N",
        help="ranks; auto, cpu: one for each CPU; gpu: one for each GPU",
    )
    add("--nnodes", default="1", help="machines: a number, or MIN:MAX; 1")
    add(
        "--node-rank",
        type=int,
        default=0,
        help="number of this machine, if --nnodes is a number: 0",
    )
    add("--standalone", action="store_true", help="the run has only this machine")
    add(
        "--max-restarts",
        type=int,
        default=0,
        metavar="N",
        help="how often all ranks are restarted after a failure",
    )
    add(
        "--shutdown-timeout",
        type=float,
        default=os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "30"),
        metavar="S",
        help="seconds between SIGTERM and SIGKILL",
    )
    add(
        "--master-addr",
        default="127.0.0.1",
        help="address of machine 0; if there is only one, the script may use it",
    )
    add(
        "--master-port",
        type=int,
        default=0,
        help="port on machine 0; if there is only one, the script may use it: default a free one",
    )
    for name, text in RENDEZVOUS.items():
        add(f"--rdzv-{name}", default="", help=text)
    add(
        "--monitor-interval",
        type=float,
        default=0.1,
        metavar="S",
        help="seconds between two checks of the other machines",
    )
    add(
        "--start-method",
        default="spawn",
        choices=["spawn", "fork", "forkserver"],
        help="accepted; ranks are new programs",
    )
    add("--role", default="default", help="name of the ranks' role: ROLE_NAME")
    add("--local-addr", default="", help="accepted; not used")
    add("--no-python", action="store_true", help="the script is an executable")
    add("--run-path", action="store_true", help="the script is a file")
    add("--log-dir", default="", metavar="DIR", help="where -r and -t write files")
    for short, name, text in (("-r", "redirects", "into files"), ("-t", "tee", "into files, too")):
        add(
            short,
            f"--{name}",
            type=check_streams,
            default="0",
            metavar="WHAT",
            help=f"what goes {text}: 1 stdout, 2 stderr, 3 both; or rank:what,...",
        )
    add(
        "--local-ranks-filter",
        default="",
        metavar="R,R",
        help="show only the output of these ranks",
    )
    for stream in ("stdout", "stderr"):
        add(
            f"--duplicate-{stream}-filters",
            type=parse_texts,
            default="",
            metavar="TEXT,TEXT",
            help=f"lines of -t's {stream} with one of the texts go into filtered_{stream}.log, "
            "too; ,, is a comma",
        )
    add("--logs-specs", default="", help="accepted; not used")
    add("--event-log-handler", default="null", help="accepted; not used")
    add(
        "--numa-binding",
        choices=("node", "socket", "exclusive", "core-complex", "cpu"),
        help="which CPUs a rank may use: those of a NUMA node, or (cpu) an equal share",
    )
    add(
        "--signals-to-handle",
        type=parse_signals,
        default="SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        metavar="NAMES",
        help="signals that are forwarded to the ranks and end the run",
    )
    add(
        "--virtual-local-rank",
        action="store_true",
        help="LOCAL_RANK is 0 for all, and each sees only its own GPU",
    )
    add("--unbuffered", action="store_true", help="runs the ranks with python -u")
    add(
        "-m", "--module", action="store_true", help="the script is a module's name, as in python -m"
    )
    p.add_argument("script", help="the Python file to run")
    p.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    for action in p._actions:
        value = os.environ.get(f"PET_{action.dest.upper()}")
        if value is not None and action.option_strings:
            action.default = bool(int(value)) if action.const is True else value
    return p
