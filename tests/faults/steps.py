"""Every instruction of the extension that changes a word others see, and whether a fault point
follows it.

    step    an atomic store, exchange, CAS or read-modify-write, or a call of one of `WRAPPERS`
    state   what others find after a step; a death meets it if a point comes before the next step

Read from the text of the sources: a function ends where a line begins with a brace, as they are
formatted.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

# Functions that end in their only step and have no point after it: each call is the step.
WRAPPERS = (
    "swap_word", "swap", "announce", "move_slot", "free_slot_word", "yield_row", "identify_row",
)  # fmt: skip

COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)
STEP = re.compile(
    r"(?:\.|->)(?:store|exchange|fetch_\w+|compare_exchange_\w+)\s*\("
    r"|\b__(?:atomic|sync)_(?!load|thread|signal)\w+\s*\("
    rf"|(?<!void )(?<!bool )(?<![\w.>:])(?:{'|'.join(WRAPPERS)})\s*\("
)
POINT = re.compile(r"\bfault\(")


class Step(NamedTuple):
    file: str
    line: int
    text: str  # the line on which it begins
    is_followed: bool


def blanked(source: str) -> str:
    """The source without comments and strings; all else is where it was."""
    return COMMENT_OR_TEXT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), source)


def steps_of(file: str, source: str, passed_over: set[tuple[str, str]]) -> list[Step]:
    """The steps of one file, in order.

    Args:
        passed_over: (a file's name, a part of a line) of instructions that are no steps.
    """
    text, lines = blanked(source), source.splitlines()
    result: list[Step] = []
    start = 0
    for end in [match.end() for match in re.finditer(r"^}", text, re.MULTILINE)] + [len(text)]:
        marks = [(match.start(), False) for match in POINT.finditer(text, start, end)]
        for match in STEP.finditer(text, start, end):
            line = lines[text.count("\n", 0, match.start())]
            if not any(file == name and part in line for name, part in passed_over):
                marks.append((match.start(), True))
        marks.sort()
        following = [is_step for _, is_step in marks[1:]] + [True]
        for (at, is_step), next_is_step in zip(marks, following, strict=True) if marks else ():
            if is_step:
                line_number = text.count("\n", 0, at)
                result.append(
                    Step(file, line_number + 1, lines[line_number].strip(), not next_is_step)
                )
        start = end
    return result


def steps(root: Path, passed_over: set[tuple[str, str]]) -> list[Step]:
    """The steps of all C++ sources under `root`."""
    files = sorted(path for kind in ("*.cc", "*.h") for path in root.rglob(kind))
    return [
        step
        for path in files
        for step in steps_of(path.relative_to(root).as_posix(), path.read_text(), passed_over)
    ]
