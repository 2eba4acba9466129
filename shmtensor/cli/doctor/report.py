"""`doctor`: problems of this machine for shmtensor, each with its remedy."""

from __future__ import annotations

import argparse
import json
import shutil
import textwrap
from dataclasses import asdict

from .checks import CHECKS
from .finding import PROBLEM, Finding, MachineFiles


def examine(root: str = "") -> list[Finding]:
    """All findings. It changes nothing and creates no domain.

    Args:
        root: prefix of /proc, /sys and /dev (tests use other machines' files).
    """
    machine = MachineFiles(root)
    findings = []
    for check in CHECKS:
        try:
            findings.append(check(machine))
        except (OSError, ValueError) as error:  # an odd /proc must not hide the other findings
            name = check.__name__.replace("_", " ")
            findings.append(Finding(name, "warning", f"cannot be examined: {error}"))
    return findings


def run(options: argparse.Namespace) -> int:
    """Prints the findings; 1 if there is a problem."""
    findings = examine()
    if options.json:
        print(json.dumps([asdict(f) for f in findings]))
    else:
        width = min(shutil.get_terminal_size().columns, 100)
        for finding in findings:
            print("\n".join(text(finding, width)))
        n = sum(f.status == PROBLEM for f in findings)
        warnings = sum(f.status == "warning" for f in findings)
        print(f"\n{len(findings)} checks: {n} problems, {warnings} warnings")
    return int(any(f.status == PROBLEM for f in findings))


def text(finding: Finding, width: int) -> list[str]:
    """The lines of a finding, with the remedy below."""
    indent = " " * 30
    head = f"{finding.status:8} {finding.name:20} "
    wrap = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    wrap.subsequent_indent = indent
    out = wrap.wrap(head + finding.found)
    if finding.remedy:
        wrap.initial_indent, wrap.subsequent_indent = f"{indent}-> ", indent + "   "
        out += wrap.wrap(finding.remedy)
    return out
