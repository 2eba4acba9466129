"""Running programs: one for all tests that only read, a new one for each test that changes it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from .running import Program, running


@pytest.fixture(scope="package")
def shared_program() -> Iterator[Program]:
    with running(dict(os.environ)) as running_program:
        yield running_program


@pytest.fixture
def program() -> Iterator[Program]:
    with running(dict(os.environ)) as running_program:
        yield running_program
