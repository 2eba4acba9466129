"""Every Python block of README.md and docs/ runs, links lead somewhere, CI runs the commands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GENERATED = ROOT / "docs" / "reference"  # by docs/reference.py, when the site is built
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted(p for p in (ROOT / "docs").rglob("*.md") if p.parent != GENERATED),
]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

# Pages whose blocks need PyTorch and JAX: run by `make against-torch`, left out elsewhere.
NEED_TORCH = {"docs/use-with-pytorch.md"}
PROGRAMS = [
    pytest.param(page, id=name, marks=[pytest.mark.torch] if name in NEED_TORCH else [])
    for page, name in zip(PAGES, NAMES)
]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL
    )


@pytest.mark.parametrize("page", PROGRAMS)
def test_python_blocks_run(page: Path, tmp_path: Path) -> None:
    """The blocks of a page run in order, as one program that a user has typed into a file."""
    code = blocks(page, "python")
    if not code:
        return
    script = tmp_path / "page.py"
    script.write_text("\n\n".join(code))
    command = [sys.executable, "-W", "error", str(script)]
    process = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert process.returncode == 0, f"{page.name}:\n{process.stdout}\n{process.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if "://" not in target and (page.parent / target).parent != GENERATED:
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_lines_fit_in_a_window(page: Path) -> None:
    """At most 120 characters, outside tables, links and code."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]*`|\]\([^)]*\)|https?://\S+", "", text)
    wide = [line for line in text.splitlines() if len(line) > 120 and line.lstrip()[:1] not in "|<"]
    assert not wide, f"{page.relative_to(ROOT)}: {wide}"


def test_shell_commands_are_run_by_ci() -> None:
    """CI runs the ```sh blocks of README.md; no command may hide in another one."""
    assert blocks(ROOT / "README.md", "sh")
    for language in ("bash", "shell", "console"):
        assert not blocks(ROOT / "README.md", language), (
            f"README.md: CI does not run a ```{language} block"
        )
