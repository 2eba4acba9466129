"""Libraries that look for PyTorch in `sys.modules` work beside a `torch` that is this library."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.as_torch.run_program import run

TQDM = """
from tqdm import tqdm, trange
with open("out", "w") as file:
    assert sum(float(v) for v in tqdm(x.flatten(), file=file)) == 15
    assert list(trange(3, file=file)) == [0, 1, 2]
"""
EINOPS = """
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange
turned = rearrange(x, "a b -> b a")
assert torch.equal(turned, x.T) and type(turned) is torch.Tensor
assert reduce(x, "a b -> a", "mean").tolist() == [1, 4]
assert repeat(x, "a b -> a b c", c=2).shape == (2, 3, 2)
assert torch.equal(einsum(x, x, "a b, c b -> a c"), x @ x.T)
packed, shapes = pack([x, x], "a *")
assert all(torch.equal(part, x) for part in unpack(packed, shapes, "a *"))
nn = torch.nn
model = nn.Sequential(Rearrange("b (h w) -> b h w", h=1), nn.Flatten(), nn.Linear(3, 2))
reduce(model(x), "a b -> ", "sum").backward()
assert model[2].bias.grad.tolist() == [2, 2]
assert EinMix("b i -> b o", weight_shape="i o", bias_shape="o", i=3, o=4)(x).shape == (2, 4)
"""
TENSORBOARD = """
import tensorboardX
with tensorboardX.SummaryWriter("direct") as writer:
    writer.add_scalar("a", x.sum(), 0)
    writer.add_histogram("h", torch.nn.Linear(3, 2).weight, 0)
    writer.add_image("i", torch.rand(3, 8, 8), 0)
from torch.utils.tensorboard import SummaryWriter
with SummaryWriter("by_torch") as writer:
    writer.add_scalar("b", x.mean(), 1)
import os
assert os.listdir("direct") and os.listdir("by_torch")
"""
SCIPY = """
import numpy as np, scipy.linalg, scipy.optimize, scipy.special
assert abs(scipy.linalg.norm(x) - 55**0.5) < 1e-6
assert np.allclose(scipy.special.expit(x), 1 / (1 + np.exp(-x.numpy())))
found = scipy.optimize.minimize(lambda p: ((torch.as_tensor(p) - 1) ** 2).sum().item(), np.zeros(2))
assert np.allclose(found.x, 1, atol=1e-4)
"""
SKLEARN = """
from sklearn.linear_model import LinearRegression
from sklearn.metrics import accuracy_score
torch.manual_seed(0)
a = torch.rand(20, 3)
fit = LinearRegression().fit(a, a @ torch.tensor([1.0, 2.0, 3.0]))
assert torch.allclose(torch.as_tensor(fit.coef_), torch.tensor([1.0, 2.0, 3.0]), atol=1e-4)
assert accuracy_score(torch.tensor([1, 0]), torch.tensor([1, 1])) == 0.5
"""
PANDAS = """
import pandas as pd
assert pd.DataFrame(x).shape == (2, 3) and pd.DataFrame({"a": x[:, 0]}).a.sum() == 3
assert torch.tensor(pd.Series([1, 2]).values).tolist() == [1, 2]
"""
MATPLOTLIB = """
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
line, = plt.plot(x[0], x[1])
assert line.get_xydata().tolist() == [[0, 3], [1, 4], [2, 5]]
plt.imshow(x)
plt.hist(x[0])
plt.savefig("out.png")
plt.close("all")
"""
CODE = {
    "tqdm": TQDM,
    "einops": EINOPS,
    "tensorboardX": TENSORBOARD,
    "scipy": SCIPY,
    "sklearn": SKLEARN,
    "pandas": PANDAS,
    "matplotlib": MATPLOTLIB,
}


@pytest.mark.parametrize("library", CODE)
def test_works_beside(library: str, tmp_path: Path) -> None:
    code = f"import torch\nx = torch.arange(6.0).reshape(2, 3)\n{CODE[library]}"
    # Libraries warn of each other.
    run("-c", code, folder=tmp_path, warnings="ignore", MPLCONFIGDIR=os.fspath(tmp_path))


def test_scipys_array_api_takes_tensors(tmp_path: Path) -> None:
    code = """
import torch, scipy.special
x = torch.rand(5)
y = scipy.special.expit(x)
assert type(y) is torch.Tensor and torch.allclose(y, torch.sigmoid(x))
"""
    run("-c", code, folder=tmp_path, warnings="ignore", SCIPY_ARRAY_API="1")
