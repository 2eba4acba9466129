"""Snapshots as HTML: one page without references, which asks for new tables by itself."""

from __future__ import annotations

from html import escape

from .snapshot import Snapshot
from .tables import Table, sentences, tables

CAPTIONS = {"processes": "Processes", "rows": "Who holds whose blocks", "queues": "Queues"}
STYLE = """
:root { color-scheme: light dark; --text: #18181b; --faint: #5f5f69; --line: #d4d4d8;
  --back: #ffffff; --bad: #b91c1c; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e4e7; --faint: #a1a1aa; --line: #3f3f46; --back: #18181b; --bad: #fca5a5; } }
body { margin: 1.5rem auto; padding: 0 1rem; max-width: 76rem; color: var(--text);
  background: var(--back); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.2rem; } p { margin: .2rem 0; white-space: pre-wrap; }
#state { color: var(--faint); } #state.ended { color: var(--bad); font-weight: bold; }
table { width: 100%; border-collapse: collapse; margin: 1.5rem 0;
  font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: bold; padding-bottom: .3rem; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { color: var(--faint); font-weight: normal; font-size: .8rem; }
.text { text-align: left; } .last { width: 60%; }
td.last { white-space: normal; overflow-wrap: anywhere; }
tr.dead td, tr.zombie td { color: var(--bad); }
@media (max-width: 46rem) {
  thead { display: none; }
  tr { display: grid; grid-template-columns: repeat(3, 1fr); padding: .5rem 0;
    border-bottom: 1px solid var(--line); }
  td { border: 0; padding: .15rem 0; text-align: left; }
  td::before { content: attr(data-name) " "; display: block; color: var(--faint);
    font-size: .75rem; }
  td.last { grid-column: 1 / -1; } tr.processes td.last { order: -1; } }
"""
SCRIPT = """
const state = document.getElementById("state"), body = document.getElementById("domain");
async function refresh() {
  try {
    const answer = await fetch("data" + location.search, {cache: "no-store"});
    if (!answer.ok) throw answer.status;
    body.innerHTML = await answer.text();
    state.textContent = "read at " + new Date().toLocaleTimeString();
    state.className = "";
  } catch (error) {
    state.textContent = "top has ended; this is its last reading";
    state.className = "ended";
  }
}
refresh();
setInterval(refresh, 1000);
"""
PAGE = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>shmtensor top</title>
<link rel="icon" href="data:,">
<style>{STYLE}</style>
</head>
<body>
<h1>shmtensor top</h1>
<p id="state">waiting for the first reading</p>
<div id="domain"></div>
<script>{SCRIPT}</script>
</body>
</html>
"""


def fragment(snapshot: Snapshot) -> str:
    """The part of the page that changes: the sentences and tables of a snapshot."""
    parts = [f"<p>{escape(sentence)}</p>" for sentence in sentences(snapshot)]
    return "\n".join([*parts, *(html(table) for table in tables(snapshot) if table.rows)])


def html(table: Table) -> str:
    """A table; a cell has the name of its column, which narrow windows show instead of a header."""
    state = next((i for i, c in enumerate(table.columns) if c.name == "STATE"), None)
    css = ["text" if c.is_left or not c.width else "" for c in table.columns]
    css = [f"{each} last".strip() if not c.width else each for each, c in zip(css, table.columns)]
    head = "".join(
        f'<th class="{each}">{escape(column.name)}</th>'
        for each, column in zip(css, table.columns, strict=True)
    )
    body = ""
    for row in table.rows:
        cells = "".join(
            f'<td class="{each}" data-name="{escape(column.name)}">{escape(printable(cell))}</td>'
            for each, column, cell in zip(css, table.columns, row, strict=True)
        )
        body += f'<tr class="{table.what} {row[state] if state is not None else ""}">{cells}</tr>'
    caption = CAPTIONS[table.what]
    return (
        f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def printable(text: str) -> str:
    """Control characters become dots."""
    return "".join(c if c.isprintable() else "." for c in text)


def ended(message: str) -> str:
    """Above the last tables, when the domain has ended."""
    return f'<p id="ended">{escape(message)}</p>'
