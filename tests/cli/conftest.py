"""Running programs: one for all tests that only observe, and one for each test that changes it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from .running import Program, running


@pytest.fixture(scope="package")
def shared_program() -> Iterator[Program]:
    with running(dict(os.environ)) as instance:
        yield instance


@pytest.fixture
def program() -> Iterator[Program]:
    with running(dict(os.environ)) as instance:
        yield instance
