"""The saved figures of the trainer on nodes: predictions, and the drawing, follow from the fit."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.harness.line_chart import Line, draw_chart
from benchmarks.trainer_scaling import (
    DRAWING,
    FILE,
    MODELS,
    PREDICTED,
    Setting,
    load,
    step_seconds,
    tables,
)


def seconds_of(entries: list[dict[str, Any]]) -> dict[Setting, float]:
    return {Setting(*(each[name] for name in Setting._fields)): each["seconds"] for each in entries}


def test_predictions_are_within_a_fifth_of_what_was_measured() -> None:
    record, (works, network) = json.loads(FILE.read_text()), load()
    measured, predicted = seconds_of(record["measured"]), seconds_of(record["predicted"])
    assert list(predicted) == list(PREDICTED)
    for at, expected in predicted.items():
        cores = record["machine"]["cores"]
        assert step_seconds(works[at.model], network, at, cores) == pytest.approx(expected, 1e-3)
        assert expected == pytest.approx(measured[at], rel=0.2), at


def test_the_drawing_is_that_of_the_figures() -> None:
    assert tables(*load(), 25_000, 20e-6, 1, 8) == DRAWING.read_text()


def test_a_chart_is_one_svg_with_a_path_for_each_line() -> None:
    lines = [Line(name, [(1, 2 + i), (10, 15), (1000, 900)]) for i, name in enumerate(MODELS)]
    root = ElementTree.fromstring(draw_chart(lines, "a < b", "n", "y"))
    texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a < b", "n", "1 k", *MODELS} <= set(texts)
    paths = [each.get("class") for each in root.iter("{http://www.w3.org/2000/svg}path")]
    assert paths.count("line") == paths.count("bound") == len(MODELS)
