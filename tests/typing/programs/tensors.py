"""Tensors: made, computed with, indexed, written to, and left for NumPy."""

from __future__ import annotations

import numpy as np
from typing_extensions import reveal_type

import shmtensor as st

x: st.Tensor = st.ones(3)
y: st.Tensor = x + 1

# ---- factories
reveal_type(st.ones(2, 3))  # -> Tensor
reveal_type(st.zeros((2, 3), dtype=st.float64, device="cpu"))  # -> Tensor
reveal_type(st.full((2,), 1.5))  # -> Tensor
reveal_type(st.arange(0, 10, 2, dtype=st.int64))  # -> Tensor
reveal_type(st.randn(2, 3, requires_grad=True))  # -> Tensor
reveal_type(st.randint(0, 10, (3,)))  # -> Tensor
reveal_type(st.tensor([[1, 2], [3, 4]]))  # -> Tensor
reveal_type(st.from_numpy(np.ones(3)))  # -> Tensor
reveal_type(st.zeros_like(x))  # -> Tensor
reveal_type(st.eye(3))  # -> Tensor
reveal_type(st.Tensor([1.0, 2.0]))  # -> Tensor
reveal_type(x.new_zeros(2, 3))  # -> Tensor
floats: st.Tensor = st.FloatTensor([1.0, 2.0])
longs: st.Tensor = st.LongTensor(2, 3)

# ---- operators
reveal_type(1 - x)  # -> Tensor
reveal_type(x / 2)  # -> Tensor
reveal_type(2.0**x)  # -> Tensor
reveal_type(x @ y)  # -> Tensor
reveal_type(x + np.ones(3))  # -> Tensor
reveal_type(x * np.float32(2))  # -> Tensor
reveal_type(-x)  # -> Tensor
reveal_type(~(x > 0))  # -> Tensor
reveal_type(x > 0)  # -> Tensor
reveal_type(x == y)  # -> Tensor
reveal_type((x > 0) & (y < 1))  # -> Tensor
reveal_type(x // 2)  # -> Tensor
x += 1
x *= y
reveal_type(x)  # -> Tensor

# ---- indices
reveal_type(x[0])  # -> Tensor
reveal_type(x[1:, None, ...])  # -> Tensor
reveal_type(x[x > 0])  # -> Tensor
reveal_type(x[[0, 1]])  # -> Tensor
reveal_type(x[:, [0, 1], st.tensor([1, 2])])  # -> Tensor
x[0] = 1.0
x[x > 0] = y
for row in x:
    reveal_type(row)  # -> Tensor

# ---- properties and methods
reveal_type(x.shape)  # -> Size
reveal_type(x.shape[0])  # -> int
reveal_type(x.shape[1:])  # -> Size
reveal_type(x.size())  # -> Size
reveal_type(x.size(0))  # -> int
reveal_type(x.ndim)  # -> int
reveal_type(x.numel())  # -> int
reveal_type(x.grad)  # -> Tensor | None
reveal_type(x.requires_grad)  # -> bool
reveal_type(x.T)  # -> Tensor
reveal_type(x.device)  # -> Device
reveal_type(x.tolist())  # -> list[Any]
reveal_type(len(x))  # -> int
reveal_type(float(x.sum()))  # -> float
reveal_type(x.reshape(-1, 3).permute(1, 0).contiguous())  # -> Tensor
reveal_type(x.view((2, -1)))  # -> Tensor
reveal_type(x.reshape(shape=(3, 1)).permute(dims=(1, 0)))  # -> Tensor
reveal_type(x.to("cpu", st.float64).float())  # -> Tensor
reveal_type(x.sum(dim=0, keepdim=True).mean((0, 1)))  # -> Tensor
reveal_type(x.argmax(1).eq(y))  # -> Tensor
reveal_type(x.add_(1).zero_())  # -> Tensor
reveal_type(x.detach().cpu().clone())  # -> Tensor
reveal_type(x.requires_grad_())  # -> Tensor
reveal_type(x.is_floating_point())  # -> bool
total = 0.0
total += x.item()

# ---- results that are not one tensor, and forms by arguments
reveal_type(x.max())  # -> Tensor
reveal_type(x.max(0).indices)  # -> Tensor
values, indices = x.topk(2)
reveal_type(values)  # -> Tensor
reveal_type(x.sort(descending=True).values)  # -> Tensor
reveal_type(st.max(x, y))  # -> Tensor
reveal_type(x.split(2))  # -> tuple[Tensor, ...]
reveal_type(x.unbind())  # -> tuple[Tensor, ...]
reveal_type(st.where(x > 0))  # -> tuple[Tensor, ...]
reveal_type(st.where(x > 0, x, 0.0))  # -> Tensor
reveal_type(x.nonzero())  # -> Tensor
reveal_type(x.unique())  # -> Tensor
reveal_type(x.unique(return_counts=True))  # -> tuple[Tensor, Tensor]
reveal_type(st.equal(x, y))  # -> bool
reveal_type(st.allclose(x, y))  # -> bool
reveal_type(st.cat([x, y], dim=0))  # -> Tensor
reveal_type(st.stack((x, y)))  # -> Tensor
reveal_type(st.einsum("i,i->", x, y))  # -> Tensor
reveal_type(st.meshgrid(x, y, indexing="ij"))  # -> tuple[Tensor, ...]
reveal_type(st.std_mean(x))  # -> tuple[Tensor, Tensor]
reveal_type(st.broadcast_shapes((2, 1), (3,)))  # -> Size

# ---- what else the top level has
reveal_type(st.device("cpu"))  # -> Device
reveal_type(st.is_tensor(x))  # -> bool
reveal_type(st.get_num_threads())  # -> int
reveal_type(st.manual_seed(0))  # -> Generator
reveal_type(st.get_default_dtype() == st.float32)  # -> bool


def scale(x: st.Tensor, factor: float, device: st.device | None = None) -> st.Tensor:
    size: st.Size = x.shape
    return (x * factor).to(device).reshape(size) if device else x * factor


with st.no_grad(), st.autocast("cpu"):
    reveal_type(scale(x, 2.0))  # -> Tensor


@st.no_grad()
def evaluate(x: st.Tensor) -> int:
    return int(x.argmax())


reveal_type(evaluate(x))  # -> int


@st.inference_mode()
def predict(x: st.Tensor) -> int:
    return int(x.argmax())


@st.no_grad
def bare(x: st.Tensor) -> int:
    return int(x.argmax())


reveal_type(predict(x))  # -> int
reveal_type(bare(x))  # -> int or Any
