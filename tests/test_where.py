"""docs/design/where.md is as the sources are."""

from __future__ import annotations

import pytest

from shmtensor.ops import ROWS
from tests import where

SUBJECTS = [subject for subjects in where.SUBJECTS.values() for subject in subjects]


def test_the_page_is_as_written_from_the_sources() -> None:
    assert where.PAGE.read_text() == where.page(), "python -m tests.where writes the page anew"


def test_a_hundred_names_are_there() -> None:
    assert len(where.OPS) + len(SUBJECTS) >= 100


@pytest.mark.parametrize(("name", "row", "kernel"), where.OPS)
def test_the_kernel_of_an_op_is_in_the_named_file(name: str, row: str, kernel: str) -> None:
    assert not kernel or (where.ROOT / "shmtensor" / "native" / kernel).is_file()
    assert where.kernel_file(ROWS[row]) in (None, kernel)


@pytest.mark.parametrize(("what", "path", "name"), SUBJECTS)
def test_the_named_file_defines_the_name(what: str, path: str, name: str) -> None:
    assert where.defines(path, name)
