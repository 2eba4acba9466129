"""The reference pages of the site and the page of environment variables agree with the library."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def reference() -> Any:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_are_written_once(reference: Any, tmp_path: Path) -> None:
    folder = tmp_path / "reference"
    reference.write_reference(folder)
    page = folder / "nn.functional.md"
    assert "{py:function} conv2d(input, weight" in page.read_text()
    (folder / "gone.md").write_text("a page of an earlier version")
    before = page.stat().st_mtime_ns
    reference.write_reference(folder)
    assert page.stat().st_mtime_ns == before
    assert not (folder / "gone.md").exists()


def test_sections_become_definitions(reference: Any) -> None:
    def scale(x: Any, by: Any = 2) -> Any:
        """x times a number.

        Parameters
        ----------
        x : Tensor
            Of any shape.
        by : float, optional
            The number.

        Examples
        --------
        >>> 1 + 1
        2

        >>> 2 + 2
        4
        """
        return x * by

    text = reference.markdown(scale)
    assert "**Parameters**\n\n`x` : Tensor\n: Of any shape.\n\n`by` : float, optional\n" in text
    assert "```pycon\n>>> 1 + 1\n2\n\n>>> 2 + 2\n4\n```" in text
    assert reference.signature(scale) == "(x, by=2)"


def test_every_environment_variable_is_documented() -> None:
    sources = [ROOT / "setup.py", *(ROOT / "shmtensor").rglob("*.py")]
    sources += (ROOT / "shmtensor").rglob("*.cc")
    used = {
        name
        for path in sources
        for name in re.findall(
            r"""(?:environ\.get|environ|getenv|environment_threads)[(\[]"(SHMTENSOR_\w+)""",
            path.read_text(),
        )
    }
    page = (ROOT / "docs" / "environment-variables.md").read_text()
    assert len(used) > 10
    assert used <= set(re.findall(r"`(SHMTENSOR_\w+)`", page))
