"""`st.backends.cudnn`; cuDNN that is not there, broken or too old, each in a program of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from tests.cuda.convolution.fixtures import dtypes_of
from tests.cuda.standin.install import ON_GPU
from tests.cuda.standin.program import run

SWITCHES = st.backends.cudnn


def test_defaults_are_pytorch_s(cudnn: Any) -> None:
    from shmtensor.cudnn_runtime import Settings

    assert vars(Settings()) == {
        "enabled": True,
        "benchmark": False,
        "benchmark_limit": 10,
        "deterministic": False,
        "allow_tf32": True,
        "all_deterministic": False,
    }
    assert SWITCHES.is_available()
    assert SWITCHES.version() == cudnn.backend_version()


def test_is_acceptable(cudnn: Any) -> None:
    x = st.ones(2)
    assert not SWITCHES.is_acceptable(x)
    assert SWITCHES.is_acceptable(x.cuda())
    assert not SWITCHES.is_acceptable(x.cuda().int())
    with SWITCHES.flags(enabled=False):
        assert not SWITCHES.is_acceptable(x.cuda())


def forward(x: Any, weight: Any) -> Any:
    return nn.functional.conv2d(x, weight).cpu().numpy()


def test_tf32_is_as_the_switch_says(cudnn: Any, plans: list[Any]) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 8, 9, 9)).astype(np.float32)
    weight = random.standard_normal((8, 8, 3, 3)).astype(np.float32)
    exact = forward(st.tensor(x).double(), st.tensor(weight).double())
    far = st.tensor(x, device="cuda"), st.tensor(weight, device="cuda")
    errors = {}
    for allow in (False, True):
        with SWITCHES.flags(enabled=True, allow_tf32=allow):
            errors[allow] = float(np.abs(forward(*far) - exact).max())
    assert errors[False] < 5e-5
    assert errors[True] < 0.1
    assert len(plans) == 2
    if not ON_GPU:  # there the switch allows TF32: a heuristic may choose an engine without it
        assert errors[True] > 10 * errors[False]


def test_deterministic_gradients_are_the_same_bits(cudnn: Any, plans: list[Any]) -> None:
    x = st.randn(4, 3, 9, 9, device="cuda")
    weight = st.randn(5, 3, 3, 3, device="cuda", requires_grad=True)
    with SWITCHES.flags(enabled=True, deterministic=True):
        first, second = (
            st.autograd.grad(nn.functional.conv2d(x, weight).square().sum(), weight)[0].cpu()
            for _ in range(2)
        )
    assert (first == second).all()
    assert len(plans) == 4


class Net(nn.Module):
    """Convolutions and poolings of one to three dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.images = nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2),
            nn.ReLU(),
            nn.AvgPool2d(2),
            nn.ConvTranspose2d(6, 4, 3, 2),
        )
        self.lines = nn.Sequential(nn.Conv1d(4, 3, 3, dilation=2), nn.MaxPool1d(2))
        self.volumes = nn.Sequential(nn.Conv3d(1, 2, 2), nn.AvgPool3d((2, 1, 1)))
        self.last = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        x = self.lines(self.images(x).flatten(2))
        return self.last(self.volumes(x.reshape(-1, 1, 3, 5, 2)).flatten(1))


def losses(
    device: str, steps: int = 4, autocast: bool = False, is_last: bool = False
) -> list[float]:
    st.manual_seed(0)
    model = Net().to(device)
    if is_last:
        model.images.to(memory_format=st.channels_last)
    optimizer = st.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = st.amp.GradScaler(device, enabled=autocast, init_scale=1024.0)
    random = np.random.default_rng(0)
    x = st.tensor(random.standard_normal((6, 2, 16, 16)).astype(np.float32), device=device)
    y = st.tensor(random.integers(0, 3, 6), device=device)
    x = x.contiguous(memory_format=st.channels_last) if is_last else x
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        with st.autocast(device, dtype=st.float16, enabled=autocast):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        found.append(loss.item())
    return found


def test_training_has_the_cpu_s_losses_with_and_without_cudnn(cudnn: Any, plans: list[Any]) -> None:
    near = losses("cpu")
    assert near[-1] < near[0]
    np.testing.assert_allclose(losses("cuda"), near, 1e-3)
    used = len(plans)
    assert used >= 4 * 5 * 2
    with SWITCHES.flags(enabled=False):
        np.testing.assert_allclose(losses("cuda"), near, 1e-3)
    assert len(plans) == used


def test_training_in_channels_last(cudnn: Any, plans: list[Any]) -> None:
    np.testing.assert_allclose(losses("cuda", is_last=True), losses("cpu"), 1e-3)
    assert len(plans) >= 4 * 5 * 2


def test_autocast_convolves_float16(cudnn: Any, plans: list[Any]) -> None:
    near = losses("cpu")
    far = losses("cuda", autocast=True)
    np.testing.assert_allclose(far, near, 0.05)
    assert "HALF" in dtypes_of(plans)
    with st.autocast("cuda", dtype=st.float16):
        layer = nn.Conv2d(2, 3, 3).cuda()
        assert layer(st.ones(1, 2, 5, 5, device="cuda")).dtype == st.float16


# ---------------------------------------------------------------- not there, broken, old

PROGRAM = """
import warnings
warnings.simplefilter("error")
import shmtensor as st
assert "cudnn" not in sys.modules
x, w = st.ones(1, 2, 4, 4, device="cuda"), st.ones(1, 2, 3, 3, device="cuda")
assert "cudnn" not in sys.modules
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for _ in range(2):
        assert (st.nn.functional.conv2d(x, w).cpu() == 18).all()
assert not st.backends.cudnn.is_available()
assert st.backends.cudnn.version() is None
from shmtensor import cudnn_runtime
print(len(seen), cudnn_runtime.why_missing())
"""

MODULES = {
    "none": None,
    "broken": "import not_there",
    "wrong": "raise OSError('libcudnn.so.9: cannot open')",
    "without library": (
        "__version__ = '1.20.0'\ndef backend_version():\n    raise RuntimeError('no symbol')"
    ),
    "old": "__version__ = '1.3.0'\ndef backend_version(): return 92000",
    "old library": "__version__ = '1.20.0'\ndef backend_version(): return 8907",
}
REASONS = {
    "none": "0 cuDNN's frontend is not installed: import of cudnn halted",
    "broken": "0 cuDNN's frontend is not installed: No module named 'not_there'",
    "wrong": "0 cuDNN or its frontend cannot be loaded: OSError: libcudnn.so.9: cannot open",
    "without library": "0 cuDNN cannot be loaded: RuntimeError: no symbol",
    "old": "1 nvidia-cudnn-frontend 1.3.0 is too old",
    "old library": "1 cuDNN 8907 is too old",
}


@pytest.mark.parametrize("name", MODULES)
def test_without_cudnn_everything_runs(cp: Any, tmp_path: Path, name: str) -> None:
    text = MODULES[name]
    if text is None:
        head = "sys.modules['cudnn'] = None\n"
        program = head + PROGRAM.replace('assert "cudnn" not in sys.modules\n', "")
    else:
        (tmp_path / "cudnn.py").write_text(text)
        program = f"sys.path.insert(0, {str(tmp_path)!r})\n" + PROGRAM
    code, out, err = run(program)
    assert code == 0, err
    assert out.startswith(REASONS[name]), out


def test_cudnn_is_imported_by_the_first_convolution(cudnn: Any) -> None:
    code, out, err = run("""
        import shmtensor as st
        x, w = st.ones(1, 2, 4, 4, device="cuda"), st.ones(1, 2, 3, 3, device="cuda")
        st.nn.functional.conv2d(x.cpu(), w.cpu())
        st.nn.functional.max_pool2d(x, 2)
        with st.backends.cudnn.flags(enabled=False):
            st.nn.functional.conv2d(x, w)
        assert "cudnn" not in sys.modules
        st.nn.functional.conv2d(x, w)
        print("cudnn" in sys.modules)
        """)
    assert (code, out) == (0, "True\n"), err


def test_the_runtime_of_nvidia_s_package_is_found(cp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from shmtensor import cudnn_runtime

    major = cp.cuda.runtime.runtimeGetVersion() // 1000
    name = cudnn_runtime.RUNTIME_VARIABLE
    monkeypatch.setenv(name, "mine")
    cudnn_runtime.load_cuda_runtime(major)
    assert os.environ[name] == "mine"
    monkeypatch.delenv(name)
    cudnn_runtime.load_cuda_runtime(99)
    assert name not in os.environ
    cudnn_runtime.load_cuda_runtime(major)
    found = os.environ.get(name, "")
    assert not found or found.endswith(f"libcudart.so.{major}")
