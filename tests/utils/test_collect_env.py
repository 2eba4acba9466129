"""`python -m shmtensor.utils.collect_env` prints versions and the doctor's findings."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor.utils import collect_env
from tests.environment import run_program


def test_it_names_versions_and_machine() -> None:
    found = collect_env.get_env_info()
    assert isinstance(found, collect_env.SystemEnv)
    assert found.shmtensor_version == st.__version__
    assert found.pip_packages["numpy"] == np.__version__
    assert "instruction set" in found.doctor


def test_a_package_that_is_absent_has_no_version() -> None:
    assert collect_env.version_of("no-such-package-anywhere") is None


def test_main_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    collect_env.main()
    printed = capsys.readouterr().out
    assert printed.startswith(f"shmtensor: {st.__version__}\nPython: ")
    assert collect_env.get_pretty_env_info().splitlines()[:3] == printed.splitlines()[:3]


@pytest.mark.parametrize("arguments", [["--version"]])
def test_the_command_has_a_version(arguments: list[str]) -> None:
    completed = run_program("import sys; from shmtensor.cli import main; main()", *arguments)
    assert (completed.returncode, completed.stdout) == (0, f"shmtensor {st.__version__}\n")
