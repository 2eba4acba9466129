"""`import torch` gives this library: by the command, by an import, and in every kind of child."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.as_torch.run_program import ALIAS, python, run

SAME = """
import sys
import torch
import torch.backends.cudnn as cudnn
import torch.cuda.amp, torch.distributed as dist, torch.multiprocessing as mp
import torch.multiprocessing.spawn, torch.nn as nn, torch.nn.functional as F
import torch.optim.lr_scheduler as schedules
import torch.utils.data._utils.collate as collate
from torch.hub import tqdm
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.weight_norm import weight_norm
from torch.utils.data.dataloader import DataLoader, default_collate
from torch.utils.data.distributed import DistributedSampler

import shmtensor

assert torch is shmtensor and nn is shmtensor.nn and F is shmtensor.nn.functional
assert cudnn is shmtensor.backends.cudnn and dist is shmtensor.distributed
assert schedules is shmtensor.optim.lr_scheduler and mp is shmtensor.multiprocessing
assert collate.default_collate is default_collate is shmtensor.utils.data.default_collate
assert DistributedSampler is torch.utils.data.DistributedSampler and callable(tqdm)
assert callable(mp.spawn) and callable(torch.device) and callable(torch.tensor)
assert callable(nn.utils.weight_norm) and nn.__spec__.name == "shmtensor.nn"
for name, module in list(sys.modules.items()):
    if name.startswith("torch.") and "backends" not in name:
        own = module.__name__
        assert sys.modules[own] is module and not own.startswith("torch"), name
"""


def test_modules_are_the_same_objects(tmp_path: Path) -> None:
    run("-c", SAME, folder=tmp_path)


TYPES = """
import multiprocessing, torch

x = torch.ones(2, dtype=torch.float64)
assert repr(x) == "tensor([1., 1.], dtype=torch.float64)" and x.type() == "torch.DoubleTensor"
assert x.to("meta").type() == "torch.meta.DoubleTensor" and str(torch.strided) == "torch.strided"
assert str(x.dtype) == "torch.float64" and getattr(torch, str(x.dtype).split(".")[1]) is x.dtype
with multiprocessing.get_context("fork").Pool(1) as pool:
    assert pool.map(repr, [torch.float16]) == ["torch.float16"]
"""


def test_dtypes_and_types_are_printed_with_pytorchs_names(tmp_path: Path) -> None:
    run("-c", TYPES, folder=tmp_path)


def test_the_command_runs_scripts_modules_and_code(tmp_path: Path) -> None:
    code = "import sys, torch; print(torch.__name__, __name__, sys.argv[1:])"
    (tmp_path / "script.py").write_text(code)
    expected = "shmtensor __main__ ['a', '-m', '--missing']\n"
    arguments = ("a", "-m", "--missing")
    assert run("script.py", *arguments, folder=tmp_path) == expected
    assert run("-m", "script", *arguments, folder=tmp_path) == expected
    assert run("-c", code, *arguments, folder=tmp_path) == expected
    assert python(
        "-c", f"import shmtensor.as_torch\n{code}", *arguments, folder=tmp_path
    ).stdout == (expected)


def test_the_programs_exit_code_and_error_are_those_of_the_command(tmp_path: Path) -> None:
    assert python(*ALIAS, "-c", "import sys; sys.exit(7)", folder=tmp_path).returncode == 7
    failed = python(*ALIAS, "-c", "import torch; torch.ones(2) @ torch.ones(3)", folder=tmp_path)
    assert failed.returncode == 1
    assert "RuntimeError" in failed.stderr.splitlines()[-1]
    wrong = python(*ALIAS, "--no-such-option", folder=tmp_path)
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("usage: python -m shmtensor.as_torch")


CHILDREN = """
import concurrent.futures, multiprocessing, subprocess, sys
import torch
import torch.multiprocessing as mp

def name(x):
    import torch
    import torchvision
    assert torchvision.__name__.startswith("shmtensor")
    return torch.__name__, float(torch.as_tensor(x).sum())

def put(queue, x):
    queue.put(name(x))

def check(rank, x):
    assert name(x) == ("shmtensor", 3.0)

if __name__ == "__main__":
    expected = "shmtensor", 3.0
    for method in ("fork", "spawn", "forkserver"):
        for library in (mp, multiprocessing):
            context = library.get_context(method)
            queue = context.Queue()
            process = context.Process(target=put, args=(queue, torch.ones(3)))
            process.start()
            assert queue.get() == expected
            process.join()
        with mp.get_context(method).Pool(1) as pool:
            assert pool.map(name, [torch.ones(3)]) == [expected]
        mp.start_processes(check, (torch.ones(3),), nprocs=1, start_method=method)
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
        assert list(executor.map(name, [[1.0, 2.0]])) == [expected]
    code = "import torch.nn as nn; print(nn.__name__)"
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert text.stdout == "shmtensor.nn\\n"
    print("all")
"""


def test_children_of_every_kind_have_it(tmp_path: Path) -> None:
    (tmp_path / "by_command.py").write_text(CHILDREN)
    (tmp_path / "by_import.py").write_text(f"import shmtensor.as_torch\n{CHILDREN}")
    assert run("by_command.py", folder=tmp_path) == "all\n"
    by_import = python("by_import.py", folder=tmp_path)
    assert by_import.stdout == "all\n", by_import.stderr


def test_it_refuses_where_another_torch_is_imported(tmp_path: Path) -> None:
    for name in ("torch", "torchvision"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"{name}.py").touch()
        process = python("-c", f"import {name}, shmtensor.as_torch", folder=folder)
        error = process.stderr.splitlines()[-1]
        assert error.startswith(
            f"ImportError: shmtensor.as_torch: {name} is imported already, from"
        )


def test_an_installed_torch_or_torchvision_is_not_taken(tmp_path: Path) -> None:
    for name in ("torch", "torchvision"):
        (tmp_path / "site" / name).mkdir(parents=True)
        (tmp_path / "site" / name / "__init__.py").write_text("raise RuntimeError")
    code = "import torchvision.transforms, torch.nn; print(torchvision.__name__)"
    path = f"{tmp_path / 'site'}:{':'.join(sys.path)}"
    text = run("-c", code, folder=tmp_path, PYTHONPATH=path)
    assert text == "shmtensor.as_torch.torchvision\n"


MISSING = """
import torch, torch.nn as nn
assert not hasattr(torch, "no_such_function") and not hasattr(torch.ones(1), "no_such_method")
assert not hasattr(nn, "NoSuchLayer") and hasattr(torch, "fft") and hasattr(torch, "nn")
try:
    import torch.fx
except ImportError as error:
    print(error)
from torch.optim import lr_scheduler
"""


def test_names_that_were_missing_are_said_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(MISSING)
    asked = python(*ALIAS, "--missing", "script.py", folder=tmp_path, TMPDIR=str(tmp_path))
    assert asked.stdout == (
        "No module named 'torch.fx': torch is shmtensor here (shmtensor.as_torch), which has no "
        "shmtensor.fx: models are not traced or compiled, they run as they are\n"
    )
    script = tmp_path / "script.py"
    assert asked.stderr == (
        "shmtensor.as_torch: these names of PyTorch were missing:\n"
        f"  torch.Tensor.no_such_method  ({script}:3)\n"
        f"  torch.fx  ({script}:6)\n"
        f"  torch.nn.NoSuchLayer  ({script}:4)\n"
        f"  torch.no_such_function  ({script}:3)\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]
    assert python(*ALIAS, "script.py", folder=tmp_path).stderr == ""
    by_variable = {"SHMTENSOR_AS_TORCH_MISSING": "1", "TMPDIR": str(tmp_path)}
    code = """
import os, shmtensor.as_torch, torch
if pid := os.fork():
    os.waitpid(pid, 0)
else:
    hasattr(torch, "nothing_like_it")
    os._exit(0)
"""
    process = python("-c", code, folder=tmp_path, **by_variable)
    assert "torch.nothing_like_it" in process.stderr
    process = python("-c", "import shmtensor.as_torch", folder=tmp_path, **by_variable)
    assert process.stderr == "shmtensor.as_torch: no name of PyTorch was missing\n"


def test_an_absent_module_that_is_not_used_can_be_imported(tmp_path: Path) -> None:
    code = """
import torch.onnx
try:
    torch.onnx.export
except AttributeError as error:
    print(error)
try:
    from torch.onnx import export
except ImportError as error:
    print(error.name)
"""
    assert run("-c", code, folder=tmp_path) == (
        "module 'torch.onnx' has no attribute 'export': models are not exported: save their "
        "state_dict\nshmtensor.onnx\n"
    )


VERSION = """
import importlib.metadata, importlib.util, pickle
import torch, torchvision

v = torch.__version__
assert isinstance(v, str) and v.split(".")[:2] == ["2", "13"] and v.endswith("+shmtensor")
assert v > "2.4" and v >= "2.13" and v >= (1, 8) and not v < "1.10" and v != "2.1" and v < "10.0"
assert v == "2.13.0" and v <= [2, 14] and {v: 1}[str(v)] == 1
assert pickle.loads(pickle.dumps(v)) == v
assert importlib.metadata.version("torch") == v
assert importlib.metadata.version("torchvision") == torchvision.__version__
assert importlib.util.find_spec("torch") and importlib.util.find_spec("torch.nn")
assert str(type(torch.ones(1))) == "<class 'torch.Tensor'>"
assert str(type(torch.nn.Parameter(torch.ones(1)))) == "<class 'torch.nn.parameter.Parameter'>"
"""


def test_programs_that_ask_for_the_version_get_pytorchs(tmp_path: Path) -> None:
    run("-c", VERSION, folder=tmp_path)


@pytest.mark.torch
def test_files_are_read_by_pytorch_and_the_other_way_round(tmp_path: Path) -> None:
    save = """
import torch, torch.nn as nn
torch.manual_seed({seed})
model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
opt = torch.optim.Adam(model.parameters())
model(torch.ones(4, 3)).square().sum().backward()
opt.step()
torch.save({{"model": model.state_dict(), "opt": opt.state_dict(), "x": torch.arange(4)}}, "{file}")
print(torch.__version__, [round(float(v), 5) for v in model[0].weight.detach().flatten()])
"""
    load = """
import torch
state = torch.load("{file}")
assert state["x"].tolist() == [0, 1, 2, 3] and state["opt"]["state"][0]["step"] == 1
print([round(float(v), 5) for v in state["model"]["0.weight"].flatten()])
"""
    ours = run("-c", save.format(seed=0, file="ours.pt"), folder=tmp_path)
    theirs = python("-c", save.format(seed=1, file="theirs.pt"), folder=tmp_path).stdout
    assert "+shmtensor" in ours
    assert "+shmtensor" not in theirs
    by_pytorch = python("-c", load.format(file="ours.pt"), folder=tmp_path)
    assert by_pytorch.stdout == ours.partition(" ")[2], by_pytorch.stderr
    assert run("-c", load.format(file="theirs.pt"), folder=tmp_path) == theirs.partition(" ")[2]
