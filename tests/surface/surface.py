"""What is there of PyTorch's surface: `make surface`, or `python tests/surface/surface.py`.

names.txt has the names, absent.txt those that are not there, with the reason: a name, or a pattern
such as `fft.*`, then a colon and the reason.
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
from shmtensor.ops import COMPOSITES, LATER, ROWS

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
sys.path.append(str(TESTS / "ops"))  # as pytest has it, where what is checked is listed

from gradient_cases import CHECKED, FLAT, ONCE  # noqa: E402
from test_composites import CASES  # noqa: E402
from test_rows import COMPLEX  # noqa: E402

declare()  # the later families, too


@dataclass(frozen=True)
class Entry:
    """One name of the surface.

    Attributes:
        present: where it was found, "" if nowhere.
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
    found = {}
    for line in (HERE / "absent.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pattern, _, reason = line.partition(": ")
            found[pattern] = reason.strip()
    return found


def reason(name: str, known: dict[str, str]) -> str:
    """Why a name is absent; "" if nobody has said so."""
    if name in known:
        return known[name]
    return next((why for pattern, why in known.items() if fnmatchcase(name, pattern)), "")


def found(path: str) -> str:
    """Where a name is: "function", "method", "class", "module", "value"; "" if nowhere."""
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
    """Every word of the tests, and what the generated tests reach without naming it."""
    texts = (p.read_text() for p in TESTS.rglob("*.py") if p.parent != HERE)
    named = {w for text in texts for w in re.findall(r"\w+", text)}
    for row in ROWS.values():
        if row.samples:
            named |= {row.name, *row.aliases} | {f"{n}_" for n in (row.name, *row.aliases)}
    for made in COMPOSITES.values():
        named |= set(made.aliases)
        if made.inplace and made.name in CASES:
            named |= {f"{n}_" for n in (made.name, *made.aliases)}
    return named


def of_table(name: str) -> Any:
    """The row or composite that a name is one of; None."""
    short = name.rpartition(".")[2].removesuffix("_")
    if name.replace(".", "_") in {*ROWS, *COMPOSITES}:
        short = name.replace(".", "_")
    table = (*ROWS.values(), *COMPOSITES.values())
    return next((made for made in table if short in (made.name, *made.aliases)), None)


def spellings(name: str, made: Any = None) -> set[str]:
    """A name as tests/ops/gradient_cases.py may spell it: with its namespace, or without."""
    short = name.rpartition(".")[2]
    found = {name, short, short.removesuffix("_"), f"nn.functional.{short.removesuffix('_')}"}
    for known in () if made is None else (made.name, *made.aliases):
        word, _, rest = known.partition("_")
        found |= {known, f"nn.functional.{known}"}
        found |= {rest, f"{word}.{rest}"} if word in LATER else set()
    return found


def derivative(name: str) -> tuple[str, int]:
    """(differentiable, orders checked) of a name."""
    made = of_table(name)
    if made is not None and made.name in ROWS and (made.samples or not made.pullbacks):
        return ("yes", 2) if made.pullbacks else ("", 0)
    spelled = spellings(name, made)
    if spelled & CHECKED:
        return "by its parts", 1 if spelled & ONCE else 2
    if made is None or spelled & FLAT:
        return "", 0
    return "UNCHECKED", 0


def entries() -> list[Entry]:
    """Every name with what is known of it."""
    tested = words()
    made = []
    for section, name in listed():
        differentiable, orders = derivative(name)
        present = found(name)
        is_tested = bool(present) and name.rpartition(".")[2] in tested
        row = of_table(name)
        in_complex = bool(orders and row is not None and row.name in COMPLEX)
        made.append(Entry(section, name, present, is_tested, differentiable, orders, in_complex))
    return made


def report() -> str:
    """The table, section by section, with the totals."""
    known = absences()
    lines: list[str] = []
    all_entries = entries()
    for section in dict.fromkeys(e.section for e in all_entries):
        own = [e for e in all_entries if e.section == section]
        there = sum(bool(e.present) for e in own)
        lines.append(f"\n{section}: {there} of {len(own)} names")
        for e in own:
            if not e.present:
                lines.append(f"  {e.name:42} absent: {reason(e.name, known) or 'NO REASON GIVEN'}")
                continue
            notes = [e.present, "tested" if e.tested else "NOT NAMED IN A TEST"]
            if e.differentiable:
                notes.append(f"differentiable {e.differentiable}".replace(" yes", ""))
            if e.orders:
                also = ", of complex numbers, too" if e.in_complex else ""
                notes.append(f"{e.orders} orders checked{also}")
            lines.append(f"  {e.name:42} {', '.join(notes)}")
    there = sum(bool(e.present) for e in all_entries)
    tested = sum(e.tested for e in all_entries)
    checked = sum(e.orders > 1 for e in all_entries)
    unchecked = sum(e.differentiable == "UNCHECKED" for e in all_entries)
    stale = [e.name for e in all_entries if e.present and e.name in known]
    lines.append(
        f"\n{len(all_entries)} names: {there} present, {tested} named in a test or reached by the "
        f"generated one, {checked} differentiable with two orders checked, {unchecked} unchecked"
    )
    if stale:
        lines.append(f"present, though absent.txt says otherwise: {' '.join(stale)}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(report() + "\n")
