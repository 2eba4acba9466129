"""The metadata that `importlib.metadata.version("torch")` reads: a name and a version."""

from __future__ import annotations

from importlib.metadata import Distribution
from pathlib import Path
from typing import Any


class TorchDistribution(Distribution):
    """A distribution of a name and a version, without files.

    Args:
        name: "torch" or "torchvision".
        version: its version.
    """

    def __init__(self, name: str, version: str) -> None:
        self.text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"

    def read_text(self, filename: Any) -> str | None:
        """The text of METADATA; None for other files."""
        return self.text if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Path:
        """The path of a file of the distribution: it has none."""
        return Path(__file__).with_name(str(path))
