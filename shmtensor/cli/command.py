"""The arguments of the command line."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence

from ..version import __version__
from . import ls
from .doctor import report as doctor
from .find_domains import NoDomain
from .top import screen as top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command of `python -m shmtensor`.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the command line, without the program; by default the process's own.

    Returns
    -------
    int
        0; 1: `doctor` found a problem, or `top` no domain.

    Raises
    ------
    SystemExit
        Wrong arguments (code 2), `--help` or `--version` (0).

    Examples
    --------
    >>> from shmtensor.cli import main
    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    is_script = os.path.basename(sys.argv[0]) == "shmtensor"
    parser = argparse.ArgumentParser(prog="shmtensor" if is_script else "python -m shmtensor")
    parser.description = "Shows what shmtensor does on this machine."
    parser.add_argument("--version", action="version", version=f"shmtensor {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    top_command = commands.add_parser(
        "top", help="processes, slots, queues and messages of a domain, live"
    )
    top_command.add_argument(
        "domain", nargs="?", help="its id (or the start of it), or the pid of a member"
    )
    top_command.add_argument("--interval", type=seconds, default=1.0, metavar="S", help="default 1")
    top_command.add_argument("--once", action="store_true", help="print one snapshot and end")
    top_command.add_argument(
        "--html", action="store_true", help="serve a page for this machine's browser"
    )
    top_command.add_argument(
        "--port", type=port, default=0, metavar="N", help="of --html; default: a free one"
    )
    top_command.set_defaults(run=top.run)
    ls_command = commands.add_parser("ls", help="the domains of this user and their processes")
    ls_command.set_defaults(run=ls.run)
    doctor_command = commands.add_parser(
        "doctor", help="problems of this machine, and their remedies"
    )
    doctor_command.set_defaults(run=doctor.run)
    for command in (top_command, ls_command, doctor_command):
        command.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    if options.command == "top" and options.html and (options.once or options.json):
        top_command.error("--html: a page is live and has no JSON: leave out --once and --json")
    try:
        return int(options.run(options))
    except NoDomain as error:
        print(f"{options.command}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # `... | head`: the reader has ended, and the interpreter must not flush again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def seconds(text: str) -> float:
    """A positive number of seconds."""
    value = float(text)
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"not a positive number of seconds: {text}")
    return value


def port(text: str) -> int:
    """A port; 0: any that is free."""
    value = int(text)
    if not 0 <= value < 1 << 16:
        raise argparse.ArgumentTypeError(f"not a port, 0 to 65535: {text}")
    return value
