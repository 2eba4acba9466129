"""PyTorch's hooks on gradients, for test_comm_hooks.py, in a separate process so that later
forks of the tests do not meet its threads. PowerSGD runs on one rank, whose all_reduce changes
nothing; 8-bit quantization on two.

python -m tests.distributed.ddp.torch_comm_hooks FOLDER reads gradients.npz there, writes
results.npz
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.ao.quantization import MinMaxObserver, PerChannelMinMaxObserver
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
from torch.distributed.algorithms.ddp_comm_hooks import quantization_hooks as quantization


class Bucket:
    """The methods of a bucket that PyTorch's hooks call."""

    def __init__(self, flat: Any, shapes: list[tuple[int, ...]]) -> None:
        self.flat, self.shapes = flat, shapes

    def buffer(self) -> Any:
        return self.flat

    def index(self) -> int:
        return 0

    def is_last(self) -> bool:
        return True

    def gradients(self) -> list[Any]:
        parts = self.flat.split([int(np.prod(shape)) for shape in self.shapes])
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]


class Alone:
    """A process group of one rank, and the Work of its all_reduce."""

    def __init__(self, tensor: Any = None) -> None:
        self.tensor = tensor

    def size(self) -> int:
        return 1

    def get_future(self) -> Any:
        future: Any = torch.futures.Future()
        future.set_result([self.tensor])
        return future


dist.all_reduce = lambda tensor, **_: Alone(tensor)
_orthogonalize = power._orthogonalize


def orthogonalize(matrices: Any, epsilon: float = 0) -> None:
    """PyTorch 2.13's batched hook hands in one matrix, which its own function refuses."""
    _orthogonalize(matrices if matrices.ndim == 3 else matrices[None], epsilon)


power._orthogonalize = orthogonalize


def by_power(hook: Any, q: Any, gradients: Any, shapes: list[tuple[int, ...]]) -> Any:
    state = power.PowerSGDState(Alone(), matrix_approximation_rank=2, start_powerSGD_iter=2)
    state.iter = 2
    is_batched = hook is power.batched_powerSGD_hook
    q = torch.from_numpy(q)
    rows = len(q) if is_batched else shapes[0][0]
    p = torch.empty(rows, 2, dtype=q.dtype)
    state.q_memory_dict[0] = q if is_batched else q.reshape(-1)
    state.p_memory_dict[0] = p if is_batched else p.reshape(-1)
    results = []
    for g in gradients:
        out = hook(state, Bucket(torch.from_numpy(g.copy()).clone(), shapes)).wait()
        results.append(out.numpy().copy())
    return np.array(results)


def by_bytes(gradients: Any, length: int) -> Any:
    """The mean of all ranks' gradients, each through PyTorch's quantization."""
    results = []
    for g in gradients:
        x = torch.zeros(-(-g.size // length), length)
        x.view(-1)[: g.size] = torch.from_numpy(g.copy())
        observer = MinMaxObserver() if len(x) == 1 else PerChannelMinMaxObserver()
        observer(x)
        scale, zero = observer.calculate_qparams()
        if len(x) == 1:
            q = quantization._quantize_per_tensor_backend(x, scale, zero)
            y = quantization._dequantize_per_tensor_backend(q, scale, zero)
        else:
            q = quantization._quantize_per_channel_backend(x, scale, zero)
            y = quantization._dequantize_per_channel_backend(q, scale, zero)
        results.append(y.reshape(-1)[: g.size])
    return ((results[0] + results[1]) / 2).numpy()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    gradients = np.load(folder / "gradients.npz")
    g, shapes = gradients["g"], [(12, 10), (7,)]
    np.savez(
        folder / "results.npz",
        batched=by_power(power.batched_powerSGD_hook, gradients["q"], g[0], shapes),
        each=by_power(power.powerSGD_hook, gradients["q_each"], g[0], shapes),
        tensor=by_bytes(g[:, 0], g.shape[-1]),
        channel=by_bytes(g[:, 0], 32),
    )
