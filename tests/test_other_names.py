"""The package by another name: the same modules, or an ImportError, and never a second load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def run(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_name_that_a_program_gives_is_that_of_the_same_modules() -> None:
    code = """
import sys, shmtensor
sys.modules["torch"] = shmtensor
from torch.utils.data import DataLoader
import torch.nn.functional as F, torch.optim.lr_scheduler, torch.multiprocessing.spawn
from torch.utils.data.distributed import DistributedSampler
assert DataLoader is shmtensor.utils.data.DataLoader and F is shmtensor.nn.functional
assert torch.optim is shmtensor.optim and callable(torch.multiprocessing.spawn)
assert DistributedSampler is shmtensor.utils.data.DistributedSampler
sys.modules["loaders"] = shmtensor.dataloaders
from loaders.sampler import Sampler
assert Sampler is shmtensor.utils.data.Sampler
for name in ("torch.no_such_module", "torch.device", "torch.nn.functional.x"):
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        assert error.name == name
    else:
        raise AssertionError(name)
assert shmtensor.ones(2).device == shmtensor.device("cpu")
"""
    process = run(code)
    assert process.returncode == 0, process.stderr


def test_modules_beneath_utils_data_are_those_of_the_loader() -> None:
    code = """
import shmtensor
from shmtensor.utils.data.dataset import Dataset
from shmtensor.utils.data.dataloader import DataLoader
import shmtensor.utils.data.sampler as sampler
data = shmtensor.utils.data
assert Dataset is data.Dataset and DataLoader is data.DataLoader
assert sampler.Sampler is data.Sampler
assert sampler.Sampler.__module__ == "shmtensor.dataloaders.sampler"
"""
    process = run(code)
    assert process.returncode == 0, process.stderr


LOADS = {
    "the package, by a spec": """
spec = util.spec_from_file_location("other", st.__file__, submodule_search_locations=st.__path__)
module = util.module_from_spec(spec)
sys.modules["other"] = module
spec.loader.exec_module(module)
""",
    "the native module, by a spec": """
spec = util.spec_from_file_location("other._core", st.native._core.__file__)
spec.loader.exec_module(util.module_from_spec(spec))
""",
    "a copy of the package": """
shutil.copytree(st.__path__[0], folder + "/other", ignore=shutil.ignore_patterns("*.cc", "*.h"))
import other
""",
    "a copy of the package, by its own name": """
shutil.copytree(st.__path__[0], folder + "/shmtensor", ignore=shutil.ignore_patterns("*.cc", "*.h"))
for name in [name for name in sys.modules if name.partition(".")[0] == "shmtensor"]:
    del sys.modules[name]
import shmtensor
""",
}


@pytest.mark.parametrize("how", LOADS)
def test_a_second_load_is_an_import_error(how: str, tmp_path: Path) -> None:
    code = f"""
import shutil, sys
from importlib import util
import shmtensor as st
folder = {str(tmp_path)!r}
sys.path.insert(0, folder)
x = st.ones(3)
try:
{LOADS[how].strip().replace(chr(10), chr(10) + "    ").join(("    ", ""))}
except ImportError as error:
    print(error)
assert (x + 1).tolist() == [2, 2, 2]
"""
    process = run(code)
    assert process.returncode == 0, process.stderr
    assert "another name" in process.stdout


def test_imports_after_the_modules_were_forgotten_work() -> None:
    code = """
import sys, shmtensor as first
x = first.ones(2)
for name in [name for name in sys.modules if name.startswith("shmtensor")]:
    del sys.modules[name]
import shmtensor as second
assert second is not first and (second.ones(2) + 1).tolist() == (x + 1).tolist() == [2, 2]
assert second.zeros(1, dtype=second.bfloat16).dtype == first.bfloat16
"""
    process = run(code)
    assert process.returncode == 0, process.stderr
