"""The figures in README.md and docs/performance.md are those of the newest raw results."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _from_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def test_readme_shows_the_newest_results() -> None:
    from benchmarks.harness import performance_page as page

    assert page.START + page.readme(page.newest()) + page.END in (ROOT / "README.md").read_text()


def test_performance_page_shows_the_newest_results() -> None:
    from benchmarks.harness import performance_page as page

    text = (ROOT / "docs" / "performance.md").read_text()
    _, notes, _ = page.split_page(text, *page.NOTES)
    assert text == page.performance(page.newest(), notes)
