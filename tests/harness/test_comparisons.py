"""Comparisons with other libraries: all parties compute the same; the page shows the run."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks import comparisons
from benchmarks.harness import comparison_page, performance_page
from benchmarks.harness.bar_chart import BETTER, WORSE, Bar, draw_bars
from benchmarks.harness.case import module_of
from benchmarks.harness.line_chart import Line, draw_chart
from benchmarks.harness.measure import Result
from benchmarks.harness.record import summary
from tests.environment import run_program

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"
PYTORCH = pytest.param("pytorch", marks=pytest.mark.torch)
STEPS = 5


def call(case: Any, party: str) -> Any:
    """The call of a party, with its library."""
    pytest.importorskip(module_of(party))
    return case.parties[party](importlib.import_module(module_of(party)))


@pytest.mark.parametrize("party", ["shmtensor", "numpy", PYTORCH])
def test_all_compute_the_same_gradient(party: str) -> None:
    a, x, y = (each.astype(np.float64) for each in comparisons.problem(20))
    result = call(comparisons.least_squares(20), party)()
    np.testing.assert_allclose(np.asarray(result), -2 * a.T @ (y - a @ x), rtol=1e-4, atol=1e-2)


def trained() -> np.ndarray:
    """The first weight after some steps, in float64."""
    x, y, w1, w2 = (each.astype(np.float64) for each in comparisons.network())
    for _ in range(STEPS):
        h = x @ w1
        g = 2 * (np.maximum(h, 0) @ w2 - y)
        w1, w2 = (
            w1 - comparisons.RATE * x.T @ ((g @ w2.T) * (h > 0)),
            w2 - comparisons.RATE * np.maximum(h, 0).T @ g,
        )
    return w1


@pytest.mark.parametrize("party", ["shmtensor", "numpy", PYTORCH])
def test_all_train_the_same_network_by_hand(party: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparisons, "STEPS", STEPS)
    case = next(each for each in comparisons.CASES if each.name == comparisons.HAND)
    np.testing.assert_allclose(np.asarray(call(case, party)()), trained(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("party", ["shmtensor", PYTORCH])
def test_all_train_the_same_network_by_autograd(
    party: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparisons, "STEPS", STEPS)
    case = next(each for each in comparisons.CASES if each.name == comparisons.AUTOGRAD)
    result = call(case, party)()
    result = result.detach() if hasattr(result, "detach") else result
    np.testing.assert_allclose(np.asarray(result), trained(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("party", ["autograd", "jax"])
def test_others_compute_the_same(party: str, tmp_path: Path) -> None:
    """In a program of its own: tests/autograd has a library's name here, and JAX warns at forks."""
    program = f"""
        import importlib, importlib.util, sys
        sys.path.insert(0, {str(ROOT)!r})
        import numpy as np
        from benchmarks import comparisons
        if importlib.util.find_spec({party!r}) is None:
            print("absent")
            sys.exit()
        library = importlib.import_module({party!r})
        comparisons.STEPS = {STEPS}
        gradient = comparisons.gradient_{party}(library, 20)()
        weight = comparisons.network_{party}(library)()
        np.savez({str(tmp_path / "results.npz")!r}, gradient, weight)
    """
    completed = run_program(program)
    assert completed.returncode == 0, completed.stderr
    if completed.stdout == "absent\n":
        pytest.skip(f"{party} is not installed")
    gradient, weight = np.load(tmp_path / "results.npz").values()
    a, x, y = (each.astype(np.float64) for each in comparisons.problem(20))
    np.testing.assert_allclose(gradient, -2 * a.T @ (y - a @ x), rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(weight, trained(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("party", ["multiprocessing.shared_memory", "joblib"])
def test_others_read_what_they_wrote_and_leave_nothing(party: str) -> None:
    assert call(comparisons.to_numpy_and_back(30), party)() == comparisons.matrix(30)[0, 0]


def test_to_numpy_and_back_copies_nothing() -> None:
    import shmtensor as st

    run = comparisons.to_numpy(st, 10)
    assert run().data_ptr() == run().data_ptr()
    np.testing.assert_array_equal(run().numpy(), comparisons.matrix(10))


def test_ratios_to_all_rivals_are_recorded() -> None:
    seconds = {"shmtensor": [1.0, 1.0, 9.0], "pytorch": [2.0, 2.0, 18.0], "jax": [0.5, 0.5, 3.0]}
    record = summary(Result("x", seconds, None, "pytorch"))
    assert record["ratios"] == {"pytorch": 0.5, "jax": 2.0}


def test_bars_have_a_line_at_one_and_two_colors() -> None:
    root = ElementTree.fromstring(draw_bars([Bar("a < b", 0.5), Bar("c", 2.0)], "title", "ratio"))
    bars = [each for each in root.iter(f"{SVG}rect") if each.get("class") == "bar"]
    assert [bar.get("fill") for bar in bars] == [BETTER, WORSE]
    left, half, whole = (float(bars[0].get(k) or 0) for k in ("x", "width", "x"))
    assert left == whole
    assert float(bars[1].get("width") or 0) == pytest.approx(4 * half, abs=0.3)
    (line,) = [each.get("d") or "" for each in root.iter(f"{SVG}path")]
    assert float(re.match(r"M([\d.]+) ", line)[1]) == pytest.approx(left + 2 * half, abs=0.2)  # type: ignore[index]
    texts = {"".join(each.itertext()) for each in root.iter(f"{SVG}text")}
    assert {"a < b", "c", "0.5", "2", "1.0", "title", "ratio"} <= texts


def test_a_chart_of_costs_has_no_bounds_and_its_own_labels() -> None:
    lines = [Line(str(i), [(10, 1e-6 * (i + 1)), (1000, 2e-4)]) for i in range(7)]
    svg = draw_chart(lines, "t", "n", "cost", lambda x: f"{x:.0e} s", has_bounds=False)
    root = ElementTree.fromstring(svg)
    paths = [each.get("class") for each in root.iter(f"{SVG}path")]
    assert (paths.count("line"), paths.count("bound")) == (7, 0)
    texts = {"".join(each.itertext()) for each in root.iter(f"{SVG}text")}
    assert {"1e-06 s", "1e-03 s", "cost", "6"} <= texts


def test_losses_are_named_like_wins() -> None:
    case = {"ratios": {"pytorch": 0.5, "jax": 1.5, "numpy": 1.001}, "ratio": 0.5}
    text = comparison_page.where_we_lose([("d = 10", case)])
    assert text == "We take longer: d = 10 against JAX (1.5)."
    assert "nowhere" in comparison_page.where_we_lose([("d = 10", {"ratios": {"jax": 0.2}})])
    bars = comparison_page.bars_of([("by hand", case)])
    assert [bar.ratio for bar in bars] == [0.5, 1.5, 1.001]


def test_absent_rivals_are_named() -> None:
    run = {"machine": {"versions": {"shmtensor": "1", "numpy": "2", "torch": "2", "jax": None}}}
    assert comparison_page.absent(run) == (
        "Not installed in this run, and left out: autograd, jax, joblib, mpi4py, ray."
    )


def test_the_page_and_its_pictures_show_the_newest_results() -> None:
    lines, pictures = comparison_page.comparisons(
        performance_page.newest(), performance_page.machine_line
    )
    page = performance_page.as_page(lines)
    assert page == (ROOT / "docs" / "comparisons.md").read_text()
    assert len(pictures) == 4
    for file, svg in pictures.items():
        assert svg == (comparison_page.PICTURES / file).read_text()
        assert f"(pictures/{file})" in page
