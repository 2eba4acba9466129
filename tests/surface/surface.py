"""Which of PyTorch's public names exist: `make surface`, or `python tests/surface/surface.py`.

names.txt holds the names, absent.txt those that do not exist here: a name, or a pattern such as
`fft.*`, then a colon and the reason.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import shmtensor as st
from shmtensor.autograd.dispatch.op_function import declare
from shmtensor.ops import COMPOSITES, LATER, ROWS, Row

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
sys.path.append(str(TESTS / "ops"))  # as under pytest: these modules list what is checked

from gradient_cases import CHECKED, FLAT, ONCE  # noqa: E402
from test_composites import CASES  # noqa: E402

declare()  # so that all families are registered


@dataclass(frozen=True)
class Entry:
    """One name of the surface.

    Attributes:
        present: the kind of object, "" if absent.
        tested: whether a test names it, or the generated test of the op table reaches it.
        differentiable: "yes", "by its parts" (plain Python over differentiable ops), or "".
        orders: how many orders of its gradient are held against finite differences.
        in_complex: whether they are for complex numbers, too, by the test of the rows.
    """

    section: str
    name: str
    present: str
    tested: bool
    differentiable: str
    orders: int
    in_complex: bool


def listed() -> Iterator[tuple[str, str]]:
    """(section, name) of every name."""
    section = ""
    for line in (HERE / "names.txt").read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif not line.startswith("#"):
            yield from ((section, name) for name in line.split())


def absences() -> dict[str, str]:
    """The patterns of absent.txt with their reasons."""
    reasons = {}
    for line in (HERE / "absent.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pattern, _, reason = line.partition(": ")
            reasons[pattern] = reason.strip()
    return reasons


def reason(name: str, reasons: dict[str, str]) -> str:
    """Why a name is absent; "" if no reason is given."""
    if name in reasons:
        return reasons[name]
    return next((why for pattern, why in reasons.items() if fnmatchcase(name, pattern)), "")


def locate(path: str) -> str:
    """The kind of a name: "function", "method", "class", "module", "value"; "" if absent."""
    place: Any = st
    for part in path.split("."):
        try:
            place = getattr(place, part)
        except AttributeError:
            module = getattr(place, "__name__", "")
            try:
                place = importlib.import_module(f"{module}.{part}")
            except (ImportError, ValueError, TypeError):
                return "method" if place is st and hasattr(st.Tensor, path) else ""
    if path.startswith("Tensor."):
        return "method" if callable(place) else "value"
    for kind, is_one in (("module", type(st)), ("class", type)):
        if isinstance(place, is_one):
            return kind
    return "function" if callable(place) else "value"


def words() -> set[str]:
    """Every word of the tests, and the names that the generated tests reach without naming them."""
    texts = (p.read_text() for p in TESTS.rglob("*.py") if p.parent != HERE)
    mentions = {w for text in texts for w in re.findall(r"\w+", text)}
    for row in ROWS.values():
        if row.samples:
            mentions |= {row.name, *row.aliases} | {f"{n}_" for n in (row.name, *row.aliases)}
    for entry in COMPOSITES.values():
        mentions |= set(entry.aliases)
        if entry.inplace and entry.name in CASES:
            mentions |= {f"{n}_" for n in (entry.name, *entry.aliases)}
    return mentions


def of_table(name: str) -> Any:
    """The row or composite of this name, or None."""
    short = name.rpartition(".")[2].removesuffix("_")
    if name.replace(".", "_") in {*ROWS, *COMPOSITES}:
        short = name.replace(".", "_")
    table = (*ROWS.values(), *COMPOSITES.values())
    return next((entry for entry in table if short in (entry.name, *entry.aliases)), None)


def spellings(name: str, entry: Any = None) -> set[str]:
    """A name as tests/ops/gradient_cases.py may spell it: with its namespace, or without."""
    short = name.rpartition(".")[2]
    names = {name, short, short.removesuffix("_"), f"nn.functional.{short.removesuffix('_')}"}
    for alias in () if entry is None else (entry.name, *entry.aliases):
        word, _, suffix = alias.partition("_")
        names |= {alias, f"nn.functional.{alias}"}
        names |= {suffix, f"{word}.{suffix}"} if word in LATER else set()
    return names


def derivative(name: str) -> tuple[str, int]:
    """(differentiable, orders checked) of a name."""
    entry = of_table(name)
    if entry is not None and entry.name in ROWS and (entry.samples or not entry.pullbacks):
        return ("yes", 2) if entry.pullbacks else ("", 0)
    spelled = spellings(name, entry)
    if spelled & CHECKED:
        return "by its parts", 1 if spelled & ONCE else 2
    if entry is None or spelled & FLAT:
        return "", 0
    return "UNCHECKED", 0


def entries() -> list[Entry]:
    """Every name with its properties."""
    tested = words()
    results = []
    for section, name in listed():
        differentiable, orders = derivative(name)
        present = locate(name)
        is_tested = bool(present) and name.rpartition(".")[2] in tested
        row = of_table(name)
        in_complex = bool(orders and isinstance(row, Row) and row.complex_gradients)
        results.append(Entry(section, name, present, is_tested, differentiable, orders, in_complex))
    return results


def report() -> str:
    """The table, section by section, with the totals."""
    reasons = absences()
    lines: list[str] = []
    all_entries = entries()
    for section in dict.fromkeys(e.section for e in all_entries):
        section_entries = [e for e in all_entries if e.section == section]
        present = sum(bool(e.present) for e in section_entries)
        lines.append(f"\n{section}: {present} of {len(section_entries)} names")
        for e in section_entries:
            if not e.present:
                lines.append(
                    f"  {e.name:42} absent: {reason(e.name, reasons) or 'NO REASON GIVEN'}"
                )
                continue
            notes = [e.present, "tested" if e.tested else "NOT NAMED IN A TEST"]
            if e.differentiable:
                notes.append(f"differentiable {e.differentiable}".replace(" yes", ""))
            if e.orders:
                also = ", of complex numbers, too" if e.in_complex else ""
                notes.append(f"{e.orders} orders checked{also}")
            lines.append(f"  {e.name:42} {', '.join(notes)}")
    present = sum(bool(e.present) for e in all_entries)
    tested = sum(e.tested for e in all_entries)
    checked = sum(e.orders > 1 for e in all_entries)
    unchecked = sum(e.differentiable == "UNCHECKED" for e in all_entries)
    stale = [e.name for e in all_entries if e.present and e.name in reasons]
    lines.append(
        f"\n{len(all_entries)} names: {present} present, {tested} named in a test or reached by "
        f"the generated one, {checked} differentiable with two orders checked, "
        f"{unchecked} unchecked"
    )
    if stale:
        lines.append(f"present, though absent.txt says otherwise: {' '.join(stale)}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(report() + "\n")
