"""Running programs: one for the tests that only look, one for each that does something to it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from .running import Program, running


@pytest.fixture(scope="package")
def watched() -> Iterator[Program]:
    with running(dict(os.environ)) as found:
        yield found


@pytest.fixture
def program() -> Iterator[Program]:
    with running(dict(os.environ)) as found:
        yield found
