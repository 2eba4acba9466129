"""The package as users have it, beside their own `dataloaders.py`: from a wheel, an editable
install, a bare checkout and a source distribution.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from shmtensor import native
from tests.environment import ROOT, environment

PROGRAM = """
import dataloaders
import shmtensor as st
from shmtensor.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    assert dataloaders.OWN == 1
    assert DataLoader is st.dataloaders.DataLoader
    dataset = TensorDataset(st.arange(4))
    loader = DataLoader(dataset, 2, num_workers=1, multiprocessing_context="spawn")
    print([x.tolist() for x, in loader], st.__file__)
"""
WAYS = ("bare checkout", "editable install", "wheel", "source distribution")
OWN = ("dataloaders.py", "dataloaders/__init__.py")  # each beside sources and an install


def run(*command: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *command], cwd=cwd, env=env, capture_output=True, text=True, timeout=120
    )


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """For each way to have the package an entry of PYTHONPATH. setup.py makes what needs no
    compiler, and the extension is the one of these tests.
    """
    folder = tmp_path_factory.mktemp("ways")
    for commands in (
        f"sdist -d {folder}",
        f"build -b {folder}/build build_py bdist_wheel --skip-build -b {folder}/lib -d {folder}",
    ):
        done = run("setup.py", "-q", "egg_info", "-e", str(folder), *commands.split(), cwd=ROOT)
        assert done.returncode == 0, done.stderr
    [archive], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(folder / "wheel")
    bare = folder / "checkout"
    for name in ("shmtensor", "dataloaders"):
        shutil.copytree(ROOT / name, bare / name, symlinks=True)
    # setuptools writes such a file for `package_dir` of setup.cfg.
    (editable := folder / "editable").mkdir()
    (editable / "shmtensor.pth").write_text(f"{bare}\n")
    (editable / "sitecustomize.py").write_text(
        "import site, sys\n"
        f"sys.path[:] = [entry for entry in sys.path if entry != {str(ROOT)!r}]\n"  # of these tests
        f"site.addsitedir({str(editable)!r})\n"
    )
    made = (bare, editable, folder / "wheel", folder / archive.name.removesuffix(".tar.gz"))
    for root in (bare, *made[2:]):
        shutil.copy(native._core.__file__, root / "shmtensor" / "native")
    return dict(zip(WAYS, made))


@pytest.mark.parametrize(("way", "own"), list(zip(WAYS, OWN * 2)))
def test_a_users_dataloaders_breaks_nothing(
    way: str, own: str, entries: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / own).parent.mkdir(exist_ok=True)
    (tmp_path / own).write_text("OWN = 1")
    (tmp_path / "program.py").write_text(PROGRAM)
    command = ["-W", "error", "program.py"]
    done = run(*command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(entries[way])})
    assert done.returncode == 0, done.stderr
    batches, file = done.stdout.strip().rsplit(" ", 1)
    assert batches == "[[0, 1], [2, 3]]"
    root = entries["bare checkout" if way == "editable install" else way]
    assert Path(file) == root / "shmtensor" / "__init__.py"


def test_distributions_have_no_second_package(entries: dict[str, Path]) -> None:
    modules = {p.relative_to(ROOT) for p in (ROOT / "dataloaders").rglob("*.py")}
    for root in (entries["wheel"], entries["source distribution"]):
        files = {p.relative_to(root / "shmtensor") for p in root.rglob("dataloaders/**/*.py")}
        assert files == modules
    [top_level] = entries["wheel"].glob("*/top_level.txt")
    assert top_level.read_text() == "shmtensor\n"


def test_source_distributions_have_docs_and_examples_but_no_tests(entries: dict[str, Path]) -> None:
    root = entries["source distribution"]
    assert (root / "CHANGELOG.md").exists()
    for name in ("docs/index.md", "docs/pictures/batch.svg", "docs/conf.py", "examples/digits.py"):
        assert (root / name).read_bytes() == (ROOT / name).read_bytes()
    assert not (root / "docs" / "reference").exists()  # `make site` writes it
    assert not (root / "tests").exists()


def test_the_source_folder_is_no_second_copy(tmp_path: Path) -> None:
    for statement in ("import dataloaders", "from dataloaders.datasets import MNIST"):
        done = run("-c", statement, cwd=tmp_path, env=environment())
        last = done.stderr.strip().splitlines()[-1]
        assert last.startswith("ImportError: import dataloaders: this is the source folder of shm")
        assert str(ROOT / "dataloaders") in last
