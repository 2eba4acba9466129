"""Finding: the result of one check of doctor; MachineFiles: the machine that it checks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

OK, WARNING, PROBLEM = "ok", "warning", "problem"


@dataclass(frozen=True)
class Finding:
    """The name of the check, "ok", "warning" or "problem", what it found, and the remedy."""

    name: str
    status: str
    found: str
    remedy: str = ""


@dataclass(frozen=True)
class MachineFiles:
    """The files of a machine, below a root ("" for this one)."""

    root: str = ""

    def path(self, name: str) -> Path:
        return Path(self.root + name)

    def text(self, name: str) -> str | None:
        """The contents of a small file, or None if it does not exist."""
        try:
            return self.path(name).read_text(errors="replace").strip()
        except OSError:
            return None

    def number(self, name: str) -> int | None:
        """The number in a file, or None."""
        text = self.text(name)
        return int(text) if text is not None and text.lstrip("-").isdigit() else None

    def space(self, name: str) -> tuple[int, int] | None:
        """Total and free bytes of a file system, or None if it does not exist."""
        try:
            status = os.statvfs(self.path(name))
        except OSError:
            return None
        return status.f_frsize * status.f_blocks, status.f_frsize * status.f_bavail
