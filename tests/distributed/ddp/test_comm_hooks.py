"""Communication hooks by their names; those of PyTorch's that are not there say what to use."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import nn
from shmtensor.distributed.algorithms import ddp_comm_hooks as hooks

from ..run_ranks import run, values


def registered(name: str) -> Any:
    rank = dist.get_rank()
    model = nn.parallel.DistributedDataParallel(nn.Linear(3, 2).double())
    hooks.register_ddp_comm_hook(hooks.DDPCommHookType[name], model, dist.group.WORLD)
    model(st.full((1, 3), rank + 1.0, dtype=st.float64)).sum().backward()
    return model.module.weight.grad.tolist()


def test_hooks_by_name() -> None:
    kinds = hooks.DDPCommHookType
    assert {each.name: each.value[0] for each in kinds} == {
        "ALLREDUCE": hooks.default_hooks.allreduce_hook,
        "FP16_COMPRESS": hooks.default_hooks.fp16_compress_hook,
        "BF16_COMPRESS": hooks.default_hooks.bf16_compress_hook,
        "NOOP": hooks.default_hooks.noop_hook,
    }
    assert kinds.NOOP is kinds["NOOP"]
    for name, weights in (("ALLREDUCE", [1.5, 1.5]), ("NOOP", [1, 2])):
        results = values(run(registered, 2, name, start_method="fork"))
        assert results == [[[weight] * 3] * 2 for weight in weights]


@pytest.mark.parametrize("name", ["POWER_SGD", "BATCHED_POWER_SGD_RANK2", "QUANTIZE_PER_CHANNEL"])
def test_a_hook_that_is_not_there_names_those_that_are(name: str) -> None:
    text = f"DDPCommHookType has no '{name}': compression .* use default_hooks.allreduce_hook"
    with pytest.raises(AttributeError, match=text):
        getattr(hooks.DDPCommHookType, name)
    with pytest.raises(KeyError, match=text):
        hooks.DDPCommHookType[name]
    with pytest.raises(AttributeError, match=r"has no 'ALLREDUCED'$"):
        hooks.DDPCommHookType.ALLREDUCED  # noqa: B018
    assert not hasattr(hooks.DDPCommHookType, name)


@pytest.mark.parametrize(
    ("module", "name", "reason"),
    [
        ("algorithms.ddp_comm_hooks.powerSGD_hook", "PowerSGDState", "fp16_compress_hook"),
        ("algorithms.ddp_comm_hooks.quantization_hooks", "x", "fp16_compress_hook"),
        ("algorithms.ddp_comm_hooks.post_localSGD_hook", "x", "nn.parallel.Distributed"),
        ("algorithms.model_averaging.averagers", "PeriodicModelAverager", "nn.parallel.Distr"),
        ("optim", "PostLocalSGDOptimizer", "nn.parallel.DistributedDataParallel"),
        ("", "split_group", "new_subgroups_by_enumeration"),
    ],
)
def test_a_program_that_imports_what_is_not_there_reads_what_to_use(
    module: str, name: str, reason: str
) -> None:
    statement = f"from shmtensor.distributed{'.' * bool(module)}{module} import {name}"
    with pytest.raises(ImportError, match=reason):
        exec(statement)


def test_paths_of_pytorch() -> None:
    assert dist.optim.ZeroRedundancyOptimizer is dist.ZeroRedundancyOptimizer
    assert importlib.import_module("shmtensor.distributed.algorithms.join").Join is dist.Join
