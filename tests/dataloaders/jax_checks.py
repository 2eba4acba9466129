"""Programs of test_jax.py: each runs in its own process, because JAX warns of any later fork.

python jax_checks.py NAME
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import dtypes, native
from shmtensor.dataloaders import DataLoader, default_collate, default_convert
from shmtensor.tensor.foreign_arrays import as_library, as_numpy, library_of

KEPT = ["bool", "uint8", "int16", "int32", "uint32", "float16", "bfloat16", "float32", "complex64"]
CONVERTED = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}


class Images:
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        return np.full((3, 8), index, np.float32), index


class Arrays(Images):
    def __getitem__(self, index: int) -> Any:
        import jax.numpy as jnp

        return jnp.full((3, 8), index, "float32"), index, jnp.full(3, index, "bfloat16")


def address(x: Any) -> int:
    return int(x.unsafe_buffer_pointer())


def block(values: Any) -> Any:
    """An array in shared memory."""
    array = np.ndarray(values.shape, values.dtype, native.allocate(max(values.nbytes, 1), False))
    array[...] = values
    return array


def blocks() -> int:
    statistics = st.memory.statistics()
    return statistics.private_blocks + statistics.shared_blocks


def check_views() -> None:
    import jax.numpy as jnp

    for name in KEPT:
        dtype = dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)
        for shape in ((), (0,), (3,), (2, 3)):
            array = block(np.ones(shape).astype(dtype))
            x = as_library(array, "jax")
            assert library_of(x) == "jax"
            assert x.shape == shape
            assert x.dtype.name == name
            assert not x.size or address(x) == array.ctypes.data, name
            back = as_numpy(x)
            assert back.dtype is dtype
            assert not back.flags.writeable
            assert not x.size or back.ctypes.data == array.ctypes.data
            assert back.tolist() == array.tolist()
    for name, result in CONVERTED.items():
        x = as_library(block(np.ones(3, name)), "jax")
        assert x.dtype.name == result
        assert x.tolist() == [1, 1, 1]
    transposed = block(np.arange(6.0, dtype=np.float32).reshape(2, 3)).T
    assert address(as_library(transposed, "jax")) == transposed.ctypes.data
    for strided in (block(np.arange(6.0).astype(np.float32))[1:], block(np.eye(4, 4))[:, 1:]):
        assert as_library(strided, "jax").tolist() == strided.tolist()
    for dtype in (np.dtype(np.float32), dtypes.bfloat16):
        fixed = block(np.ones(3).astype(dtype))
        fixed.flags.writeable = False
        x = as_library(fixed, "jax")
        assert address(x) == fixed.ctypes.data
        assert x.tolist() == [1, 1, 1]
    for name in ("int4", "float8_e4m3fn"):
        with pytest.raises(TypeError, match=f"no dtype like this one of JAX: {name}"):
            as_numpy(jnp.ones(2, name))


def check_conversion_to_64_bits() -> None:
    import jax

    jax.config.update("jax_enable_x64", True)
    for name in CONVERTED:
        array = block(np.ones(3, name))
        assert address(as_library(array, "jax")) == array.ctypes.data


def check_life() -> None:
    before = blocks()
    x = as_library(block(np.ones(1000, np.float32)), "jax")
    part = as_numpy(x)[5:]
    del x
    gc.collect()
    assert blocks() == before + 1
    assert part[0] == 1
    del part
    gc.collect()
    assert blocks() == before


def check_samples() -> None:
    import jax
    import jax.numpy as jnp

    batch = default_collate([(jnp.full(3, float(i)), i, 0.5, "a") for i in range(4)])
    x, y, z, names = batch
    assert [type(part) for part in (x, y, z)] == [type(jnp.ones(1))] * 3
    assert [part.dtype.name for part in (x, y, z)] == ["float32", "int32", "float32"]
    assert x.tolist() == [[float(i)] * 3 for i in range(4)]
    assert native.is_shared(address(x))
    assert list(names) == ["a"] * 4
    assert isinstance(default_convert({"x": x, "y": np.ones(2, np.float32)})["y"], jax.Array)
    for output, kind in (("numpy", np.ndarray), ("shmtensor", st.Tensor), ("jax", jax.Array)):
        loader: Any = DataLoader(Arrays(), 4, output=output)
        assert all(isinstance(part, kind) for batch in loader for part in batch)
    with pytest.raises(TypeError, match=r"collate: sample 1 of the batch: .* no dtype .*int4"):
        default_collate([jnp.ones(2), jnp.ones(2, "int4")])


def check_torch_beside_jax() -> None:
    import jax
    import jax.numpy as jnp
    import torch

    x, y, z = default_collate([(torch.ones(2), jnp.ones(2), 1)] * 2)
    assert isinstance(x, torch.Tensor)
    assert isinstance(y, jax.Array)
    assert isinstance(z, torch.Tensor)


def check_output(method: str) -> None:
    options: Any = {"num_workers": 2, "multiprocessing_context": method} if method else {}
    for dataset in (Images(), Arrays()) if method not in ("fork",) else (Images(),):
        loader: Any = DataLoader(dataset, 4, output="jax", **options)
        with loader:
            batches = list(loader)
        import jax

        for number, (x, y, *others) in enumerate(batches):
            assert all(other.dtype.name == "bfloat16" for other in others)
            assert isinstance(x, jax.Array)
            assert isinstance(y, jax.Array)
            assert y.tolist() == list(range(4 * number, 4 * number + 4))
            assert (x == y[:, None, None]).all()
            assert native.is_shared(address(x))
            assert address(x) % 64 == 0


def check_workers_give_jax_arrays_back() -> None:
    import jax

    with DataLoader(Arrays(), 4, num_workers=1, multiprocessing_context="spawn") as loader:
        for batch in loader:
            assert all(isinstance(part, jax.Array) for part in batch)  # type: ignore[attr-defined]


class Unbatched(Images):
    def __getitem__(self, index: int) -> Any:
        import jax.numpy as jnp

        return {"x": jnp.full(3, index, "float32"), "y": np.full(3, index, np.float32)}


def check_samples_without_batches() -> None:
    import jax
    import jax.numpy as jnp

    from shmtensor.dataloaders.loader.output import convert

    # The package has a function of this name.
    collate = import_module("shmtensor.dataloaders.collate")
    calls: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collate, "is_worker_process", lambda: True)
        patch.setattr(collate, "as_library", lambda *a: calls.append(a))
        sample = default_convert({"x": jnp.ones(3), "y": np.ones(3, np.float32)})
    assert not calls, "a worker calls JAX"
    assert type(sample["y"]) is collate.JaxTensor
    assert isinstance(convert(sample, None, has_jax=True)["y"], jax.Array)
    for output, kind in (("numpy", np.ndarray), ("shmtensor", st.Tensor)):
        part = convert(sample, output)["y"]
        assert type(part) is kind
        assert part.tolist() == [1, 1, 1]
    for workers in (0, 1):
        options: Any = {"num_workers": workers} | (
            {"multiprocessing_context": "spawn"} if workers else {}
        )
        with DataLoader(Unbatched(), batch_size=None, **options) as loader:
            for index, sample in enumerate(loader):
                assert all(isinstance(part, jax.Array) for part in sample.values())
                assert sample["x"].tolist() == sample["y"].tolist() == [float(index)] * 3


CHECKS: dict[str, Any] = {
    "views": check_views,
    "conversion to 64 bits": check_conversion_to_64_bits,
    "life": check_life,
    "samples": check_samples,
    "samples without batches": check_samples_without_batches,
    "torch beside jax": check_torch_beside_jax,
    "output": lambda: check_output(""),
    "output fork": lambda: check_output("fork"),
    "output forkserver": lambda: check_output("forkserver"),
    "output spawn": lambda: check_output("spawn"),
    "workers give back": check_workers_give_jax_arrays_back,
}

if __name__ == "__main__":
    CHECKS[sys.argv[1]]()
    print("done")
