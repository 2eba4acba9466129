"""The launcher's arguments: torchrun's names, and PET_MAX_RESTARTS and so on in the environment."""

from __future__ import annotations

import argparse
import os
import signal

__all__ = ["parser", "signals_of"]


def signals_of(text: str) -> list[signal.Signals]:
    """SIGTERM,SIGINT"""
    try:
        return [signal.Signals[name.strip()] for name in text.split(",")]
    except KeyError as error:
        raise argparse.ArgumentTypeError(f"there is no such signal: {error}") from None


def streams_of(text: str) -> str:
    """3, or 0:1,1:2: checked only."""
    for part in text.split(","):
        rank, colon, what = part.rpartition(":")
        is_pair = bool(colon) and rank.isdigit()
        if what not in ("0", "1", "2", "3") or not (is_pair or part == text == what):
            raise argparse.ArgumentTypeError(f"is neither 0 to 3 nor rank:what,...: {text!r}")
    return text


def texts_of(text: str) -> list[str]:
    """apple,orange; two commas stand for one."""
    return [part.replace("\0", ",") for part in text.replace(",,", "\0").split(",") if part]


def count_of(text: str) -> int:
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
    "backend": "how several machines meet: static (by --master-addr) or c10d (by --rdzv-endpoint)",
    "endpoint": "HOST:PORT of c10d's meeting",
    "id": "name of the run, which all machines give",
    "conf": "key=value,... of the meeting: last_call_timeout, join_timeout, ...",
}


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python -m shmtensor.run",
        description="Starts a script as several ranks, which share tensors; on several machines "
        "one launcher runs on each. torchrun's names are understood.",
    )
    add = p.add_argument
    add(
        "--nproc-per-node",
        "--nproc_per_node",
        type=count_of,
        default=1,
        metavar="N",
        help="ranks; auto, cpu: one for each CPU; gpu: one for each GPU",
    )
    add("--nnodes", default="1", help="machines: a number, or MIN:MAX; 1")
    add(
        "--node-rank",
        "--node_rank",
        type=int,
        default=0,
        help="number of this machine, if --nnodes is a number: 0",
    )
    add("--standalone", action="store_true", help="one machine, which is all there is")
    add(
        "--max-restarts",
        "--max_restarts",
        type=int,
        default=0,
        metavar="N",
        help="how often all begin anew after a failure",
    )
    add(
        "--shutdown-timeout",
        "--shutdown_timeout",
        type=float,
        default=os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "30"),
        metavar="S",
        help="seconds between SIGTERM and SIGKILL",
    )
    add(
        "--master-addr",
        "--master_addr",
        default="127.0.0.1",
        help="where machine 0 is; of one machine only handed to the script",
    )
    add(
        "--master-port",
        "--master_port",
        type=int,
        default=0,
        help="the port there; of one machine only handed to the script: one that is free",
    )
    for name, text in RENDEZVOUS.items():
        add(f"--rdzv-{name}", f"--rdzv_{name}", default="", help=text)
    add(
        "--monitor-interval",
        "--monitor_interval",
        type=float,
        default=0.1,
        metavar="S",
        help="seconds between two looks at the other machines",
    )
    add(
        "--start-method",
        "--start_method",
        default="spawn",
        choices=["spawn", "fork", "forkserver"],
        help="accepted; ranks are fresh",
    )
    add("--role", default="default", help="name of the ranks' role: ROLE_NAME")
    add("--local-addr", "--local_addr", default="", help="accepted; not used")
    add("--no-python", "--no_python", action="store_true", help="the script is a program")
    add("--run-path", "--run_path", action="store_true", help="the script is a file")
    add("--log-dir", "--log_dir", default="", metavar="DIR", help="where -r and -t write files")
    for short, name, text in (("-r", "redirects", "into files"), ("-t", "tee", "into files, too")):
        add(
            short,
            f"--{name}",
            type=streams_of,
            default="0",
            metavar="WHAT",
            help=f"what goes {text}: 1 stdout, 2 stderr, 3 both; or rank:what,...",
        )
    add(
        "--local-ranks-filter",
        "--local_ranks_filter",
        default="",
        metavar="R,R",
        help="only these ranks' output is shown",
    )
    for stream in ("stdout", "stderr"):
        add(
            f"--duplicate-{stream}-filters",
            f"--duplicate_{stream}_filters",
            type=texts_of,
            default="",
            metavar="TEXT,TEXT",
            help=f"lines of -t's {stream} with one of the texts go into filtered_{stream}.log, "
            "too; ,, is a comma",
        )
    add("--logs-specs", "--logs_specs", default="", help="accepted; not used")
    add("--event-log-handler", "--event_log_handler", default="null", help="accepted; not used")
    add(
        "--numa-binding",
        "--numa_binding",
        choices=("node", "socket", "exclusive", "core-complex", "cpu"),
        default=None,
        help="which CPUs a rank may use: those of a NUMA node, or (cpu) a share of its own",
    )
    add(
        "--signals-to-handle",
        "--signals_to_handle",
        type=signals_of,
        default="SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        metavar="NAMES",
        help="what is forwarded to the ranks, which then end",
    )
    add(
        "--virtual-local-rank",
        "--virtual_local_rank",
        action="store_true",
        help="LOCAL_RANK is 0 for all, and each sees its own GPU alone",
    )
    add("--unbuffered", action="store_true", help="runs the ranks with python -u")
    add(
        "-m", "--module", action="store_true", help="the script is a module's name, as in python -m"
    )
    add("script", help="the Python file to run")
    add("arguments", nargs=argparse.REMAINDER, help="its arguments")
    for action in p._actions:
        value = os.environ.get(f"PET_{action.dest.upper()}")
        if value is not None and action.option_strings:
            action.default = bool(int(value)) if action.const is True else value
    return p
