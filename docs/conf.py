"""Configuration of the documentation site: `make docs` builds it into build/site."""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).resolve().parent))

from reference import write_reference

from shmtensor import __version__

project = "shmtensor"
author = "The shmtensor authors"
copyright = "The shmtensor authors"
version = release = __version__

extensions = ["myst_parser", "sphinx_copybutton"]
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "shmtensor"
html_static_path = ["static"]
html_css_files = ["wide_tables.css"]
html_show_sourcelink = False
html_sidebars = {name: [] for name in ("install", "quickstart", "concepts")}  # no pages below
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}


OUTSIDE = {  # files of the repository beside docs/ that pages link to -> their page here
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/results/nvidia-h100-80gb-hbm3.md": "h100.md",
}


def read_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Links to files beside docs/ lead to their pages; the design pages get a list of contents."""
    up = "../" * name.count("/")
    for path, page in OUTSIDE.items():
        source[0] = source[0].replace(f"]({up}../{path}", f"]({up}{page}")
    if name == "design/README":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"


def setup(app: Sphinx) -> None:
    """Writes the pages that come from tables and docstrings, before Sphinx looks for pages."""
    write_reference(Path(app.srcdir) / "reference")
    app.connect("source-read", read_page)
