"""setup.py: what it compiles and what it keeps, in a small tree of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from shmtensor import native

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {
    "module.cc": '#include "one.h"\nint module() { return ONE; }\n',
    "a.cc": "int a(Size size) { return static_cast<int>(size); }\n",  # Size: of precompiled.h
    "b.cc": '#include "one.h"\nint b() { return ONE; }\n',
    "c.simd.cc": "namespace SHMTENSOR_LEVEL {\nint c() { return 1; }\n}\n",
    "one.h": "#pragma once\n#define ONE 1\n",
    "size.h": "#pragma once\nusing Size = unsigned long;\n",
    "precompiled.h": '#include "size.h"\n',
}
LEVELS = ["generic", "avx2", "avx512"] if os.uname().machine == "x86_64" else ["generic"]

Build = Callable[..., list[str]]


def compiled(output: str) -> list[str]:
    """The names of the lines `[ 3/10] name`, which must count."""
    lines = re.findall(r"^\[ *(\d+)/(\d+)\] shmtensor/native/(\S+)$", output, re.M)
    assert [int(number) for number, _, _ in lines] == list(range(1, len(lines) + 1))
    assert all(int(total) == len(lines) for _, total, _ in lines)
    return sorted(name for _, _, name in lines)


def best_level() -> str:
    """The level of a process that may use all."""
    process = subprocess.run(
        [sys.executable, "-c", "from shmtensor import native; print(native.isa())"],
        env={**os.environ, "SHMTENSOR_ISA": "avx512"},
        capture_output=True,
        text=True,
        check=True,
    )
    return process.stdout.strip()


def of_levels(levels: Iterable[str]) -> list[str]:
    return sorted(f"c.simd.{level}" for level in levels)


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for name in ("setup.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "setup.cfg").write_text("[metadata]\nname = shmtensor\n[options]\npackages =\n")
    folder = tmp_path / "shmtensor" / "native"
    folder.mkdir(parents=True)
    for name, text in SOURCES.items():
        (folder / name).write_text(text)
        os.utime(folder / name, (1, 1))
    return folder


@pytest.fixture
def build(sources: Path) -> Build:
    def run(expected: int = 0, **environment: str) -> list[str]:
        process = subprocess.run(
            [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
            cwd=sources.parents[1],
            env={**os.environ, "SHMTENSOR_LEVELS": "", "CXXFLAGS": "", **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (process.returncode != 0) == bool(expected), process.stderr
        if not expected:
            assert list(sources.glob("_core.*.so"))
        return compiled(process.stdout)

    return run


def test_only_what_changed_is_compiled(sources: Path, build: Build) -> None:
    assert build() == sorted(["module", "a", "b", *of_levels(LEVELS)])
    assert build() == []
    os.utime(sources / "b.cc")
    assert build() == ["b"]
    os.utime(sources / "one.h")
    assert build() == ["b", "module"]
    assert build(CXXFLAGS="-DOTHER") == sorted(["module", "a", "b", *of_levels(LEVELS)])


def test_objects_of_sources_that_are_gone_are_removed(sources: Path, build: Build) -> None:
    build()
    objects = sources.parents[1] / "build" / "objects"
    assert len(list(objects.rglob("b.*"))) == 2  # the object and its record
    (sources / "b.cc").unlink()
    assert build() == []
    assert not list(objects.rglob("b.*"))
    assert len(list(objects.rglob("a.*"))) == 2


def test_the_precompiled_header_is_a_file_that_was_read(sources: Path, build: Build) -> None:
    build()
    os.utime(sources / "size.h")
    assert build() == ["a", "b"]  # neither levels nor module.cc read it
    (sources / "size.h").write_text("#pragma once\nusing Size = struct { int x; };\n")
    build(expected=1)  # a.cc no longer compiles: the header was compiled again
    (sources / "size.h").write_text(SOURCES["size.h"])
    assert build() == ["a", "b"]
    assert build() == []


def test_sanitized_sources_have_no_precompiled_header(sources: Path, build: Build) -> None:
    build(expected=1, SHMTENSOR_SANITIZE="undefined")  # a.cc does not include size.h
    (sources / "a.cc").write_text('#include "size.h"\n' + SOURCES["a.cc"])
    build(SHMTENSOR_SANITIZE="undefined")


def test_a_native_build_has_two_levels_and_the_next_adds_the_rest(build: Build) -> None:
    two = {"generic", best_level()}
    assert build(SHMTENSOR_LEVELS="native") == sorted(["module", "a", "b", *of_levels(two)])
    assert build() == of_levels(set(LEVELS) - two)
    assert build() == []


def test_a_native_build_keeps_the_levels_that_are_there(sources: Path, build: Build) -> None:
    build()
    os.utime(sources / "c.simd.cc")
    assert build(SHMTENSOR_LEVELS="native") == of_levels(LEVELS)


def test_other_words_for_levels_are_refused(build: Build) -> None:
    assert build(expected=1, SHMTENSOR_LEVELS="avx2") == []


def test_every_level_is_in_the_extension_under_test() -> None:
    """After `make demo` alone one may be missing; `make test` and `make build` compile it."""
    assert native.isa_levels() == tuple(LEVELS)
