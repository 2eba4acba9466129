"""st.cuda and st.accelerator answer, or fail, as PyTorch's do where there is no GPU."""

from __future__ import annotations

import inspect
import warnings
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
import torch.cuda.comm

import shmtensor as st
from shmtensor.refused_names import REASONS

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(torch.cuda.is_available(), reason="PyTorch has a GPU here"),
]

# Where PyTorch's CPU build fails because a C function or a count is missing.
BY_ACCIDENT = {
    "get_allocator_backend",
    "memory_snapshot",
    "reset_accumulated_host_memory_stats",
    "reset_peak_host_memory_stats",
    "is_current_stream_capturing",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
}


# Ours say that there is no GPU; PyTorch's first look for nvidia-ml-py, or do nothing.
SAY_NO_GPU = {
    "caching_allocator_enable",
    "clock_rate",
    "device_memory_used",
    "list_gpu_processes",
    "memory_usage",
    "power_draw",
    "temperature",
    "utilization",
}

# Ours say that they are not there, whatever the arguments; PyTorch's miss these first.
REFUSED = {name.rpartition(".")[2] for name in REASONS if name.startswith("cuda")}


def outcome(module: Any, name: str) -> Any:
    try:
        return getattr(module, name)()
    except Exception as error:
        return error


def test_every_name_is_there() -> None:
    assert not [name for name in torch.cuda.__all__ if not hasattr(st.cuda, name)]


@pytest.mark.parametrize("room", ["cuda", "accelerator"])
def test_calls_without_arguments_end_as_pytorchs(room: str) -> None:
    ours, theirs = getattr(st, room), getattr(torch, room)
    for name in ours.__all__:
        function = getattr(theirs, name)
        if not inspect.isfunction(function) or name in BY_ACCIDENT:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result, expected = outcome(ours, name), outcome(theirs, name)
        if name in SAY_NO_GPU | REFUSED:
            assert isinstance(result, RuntimeError), (name, result)
        elif room == "accelerator" and name == "synchronize":
            assert result is None  # without a GPU there is nothing to wait for
        elif isinstance(expected, AbstractContextManager):
            assert isinstance(result, AbstractContextManager), name
        elif isinstance(expected, Exception):
            assert isinstance(result, type(expected)), (name, result, expected)
        else:
            assert result == expected, name


@pytest.mark.parametrize("room", ["cuda", "accelerator"])
def test_arguments_have_pytorchs_names(room: str) -> None:
    ours, theirs = getattr(st, room), getattr(torch, room)
    for name in ours.__all__:
        if inspect.isfunction(getattr(ours, name)) and name not in REFUSED:
            mine, other = (
                [(p.name, p.default) for p in inspect.signature(f).parameters.values()]
                for f in (getattr(ours, name), getattr(theirs, name))
            )
            assert mine == other, name
