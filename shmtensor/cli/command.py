"""The arguments of the command line."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence

from . import ls
from .doctor import report as doctor
from .find_domains import NoDomain
from .top import screen as top

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command.

    Returns:
        0, or 1: `doctor` found a problem, `top` no domain; 2: wrong arguments.
    """
    parser = argparse.ArgumentParser(prog="python -m shmtensor", description=__doc__)
    parser.description = "What shmtensor does on this machine."
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    t = commands.add_parser("top", help="processes, slots, queues and messages of a domain, live")
    t.add_argument("domain", nargs="?", help="its id (or the start of it), or the pid of a member")
    t.add_argument("--interval", type=seconds, default=1.0, metavar="S", help="default 1")
    t.add_argument("--once", action="store_true", help="one look, then end")
    t.set_defaults(run=top.run)
    listed = commands.add_parser("ls", help="the domains of this user and their processes")
    listed.set_defaults(run=ls.run)
    d = commands.add_parser("doctor", help="what this machine lacks, and the remedies")
    d.set_defaults(run=doctor.run)
    for command in (t, listed, d):
        command.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except NoDomain as error:
        print(f"{options.command}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `... | head`: nobody reads on, and the interpreter must not try again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def seconds(text: str) -> float:
    """A positive number of seconds."""
    value = float(text)
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"not a positive number of seconds: {text}")
    return value
