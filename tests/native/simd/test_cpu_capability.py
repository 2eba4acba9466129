"""The instruction-set level of the kernels; `make levels` runs their tests at each."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from shmtensor import native

LEVELS = ["generic", "avx2", "avx512"]


def isa_with(level: str) -> str:
    """The level of a process whose environment requests one."""
    process = subprocess.run(
        [sys.executable, "-c", "from shmtensor import native; print(native.isa())"],
        env={**os.environ, "SHMTENSOR_ISA": level},
        capture_output=True,
        text=True,
        check=True,
    )
    return process.stdout.strip()


def best_up_to(level: str) -> str:
    """The best compiled level (`make sanitize` lacks one) up to it that the CPU has."""
    highest = min(level, isa_with("avx512"), key=LEVELS.index)
    return [x for x in native.isa_levels() if LEVELS.index(x) <= LEVELS.index(highest)][-1]


@pytest.mark.parametrize("level", LEVELS)
def test_the_environment_lowers_the_level(level: str) -> None:
    assert isa_with(level) == best_up_to(level)


@pytest.mark.parametrize(("former", "level"), [("base", "generic"), ("v3", "avx2")])
def test_the_former_names_of_the_levels_are_understood(former: str, level: str) -> None:
    assert isa_with(former) == best_up_to(level)


def test_products_of_bfloat16_can_be_lowered() -> None:
    code = "from shmtensor import native; print(native.uses_avx512_bf16())"
    environment = {key: value for key, value in os.environ.items() if key != "SHMTENSOR_ISA"}

    def uses(**requested: str) -> bool:
        process = subprocess.run(
            [sys.executable, "-c", code],
            env={**environment, **requested},
            capture_output=True,
            text=True,
            check=True,
        )
        return process.stdout.strip() == "True"

    assert uses() == uses(SHMTENSOR_ISA="avx512_bf16")
    assert not any(uses(SHMTENSOR_ISA=level) for level in LEVELS)
