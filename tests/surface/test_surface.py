"""PyTorch's names are there or their absence is justified; backward keeps what the rules name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import shmtensor as st
from shmtensor.ops.sort.unique import refuse_backward  # of rows without a gradient
from tests.environment import environment

from . import kept, surface


def test_every_absence_is_justified() -> None:
    reasons = surface.absences()
    missing = [
        e.name for e in surface.entries() if not e.present and not surface.reason(e.name, reasons)
    ]
    assert not missing, f"say why in tests/surface/absent.txt: {missing}"
    assert all(why for why in reasons.values())


def test_the_names_are_the_surface() -> None:
    names = [name for _, name in surface.listed()]
    assert len(names) > 1600
    assert surface.locate("add") == "function"
    assert surface.locate("Tensor.add_") == "method"
    assert surface.locate("nn.Linear") == "class"
    assert surface.locate("autograd.functional.jacobian") == "function"
    assert not surface.locate("no_such_name")
    assert not surface.locate("Tensor.no_such_name")
    assert surface.derivative("mul") == ("yes", 2)
    assert surface.derivative("Tensor.mul_") == ("yes", 2)
    assert surface.derivative("argmax") == ("", 0)


def test_nothing_differentiable_is_unchecked() -> None:
    """Every composite, every differentiable row, and every other function that people call."""
    from gradient_cases import CHECKED, FLAT

    for entry in surface.COMPOSITES.values():
        assert surface.spellings(entry.name, entry) & (CHECKED | FLAT), entry.name
    for row in surface.ROWS.values():
        assert not row.pullbacks or row.samples or row.name in CHECKED, row.name
    functions = {"shmtensor", "sparse", "nn.functional", "extended", "Tensor", "Tensor, in place"}
    for section, name in surface.listed():
        is_function = section in functions and surface.locate(name) in ("function", "method")
        if is_function and surface.of_table(name) is None:
            assert surface.spellings(name) & (CHECKED | FLAT), name
    assert not [e.name for e in surface.entries() if e.differentiable == "UNCHECKED"]
    assert surface.derivative("nn.functional.conv2d") == ("by its parts", 2)
    assert surface.derivative("Tensor.addmm_") == ("by its parts", 2)


def test_the_report_runs() -> None:
    script = Path(surface.__file__)
    root = Path(st.__file__).resolve().parent.parent
    process = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True, text=True, timeout=120, check=False, env=environment(root),
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert "NO REASON GIVEN" not in process.stdout
    assert "names: " in process.stdout.splitlines()[-2] + process.stdout.splitlines()[-1]


def test_backward_keeps_what_the_rules_name() -> None:
    wrong = {}
    for row in kept.rows():
        nbytes, declared, _ = kept.kept_bytes(row)
        if nbytes != declared:
            wrong[row.name] = (nbytes, declared)
    assert not wrong


def test_known_ops_keep_known_bytes() -> None:
    x = st.ones(100, requires_grad=True)
    y = st.ones(100, requires_grad=True)
    z = st.ones(100)

    def bytes_of(out: st.Tensor) -> int:
        return sum(getattr(v, "nbytes", 0) for v in out.grad_fn.saved)

    assert bytes_of(x + y) == 0
    assert bytes_of(x * y) == 800
    assert bytes_of(x * z) == 400  # x is kept only for z
    assert bytes_of(x.exp()) == 400
    assert bytes_of(x.sum()) == 0
    assert bytes_of(x.relu()) == 400
    assert bytes_of(x.reshape(10, 10)) == 0


def test_the_page_of_what_is_kept_is_true() -> None:
    true, page = (set(t.splitlines()) for t in (kept.page(), kept.PAGE.read_text()))
    assert true == page, "python -m tests.surface.kept writes the page anew"


def test_the_page_of_what_is_kept_has_every_differentiable_row() -> None:
    listed = {line.split(" | ")[0].strip("| ") for line in kept.PAGE.read_text().splitlines()}
    names = {
        row.name
        for row in surface.ROWS.values()
        if row.samples and any(p.function is not refuse_backward for p in row.pullbacks.values())
    }
    assert names <= listed
