"""The modules of `torch.utils.data` that programs import: the same classes by every path."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import shmtensor as st
from shmtensor import dataloaders
from shmtensor.utils import data
from shmtensor.utils.data import dataloader, dataset, distributed, sampler
from shmtensor.utils.data._utils import collate, worker


def test_the_classes_are_the_same_by_every_path() -> None:
    for module in (dataloader, dataset, distributed, sampler, collate, worker):
        for name in module.__all__:
            other = getattr(dataloaders, name, None)
            assert other is None or getattr(module, name) is other, (module, name)
    assert data.DataLoader is dataloader.DataLoader
    assert isinstance(dataset.TensorDataset(st.ones(2)), dataloaders.Dataset)
    assert issubclass(dataset.IterableDataset, data.IterableDataset)
    assert issubclass(sampler.RandomSampler, data.Sampler)
    assert dataloader._utils.collate is data._utils.collate is collate
    assert data._utils.MP_STATUS_CHECK_INTERVAL == 5.0
    assert {"DataLoader", "dataset", "_utils"} <= set(dir(data))


def test_a_path_is_imported_first() -> None:
    code = (
        "from shmtensor.utils.data.{} import {} as one\n"
        "from shmtensor import dataloaders\n"
        "assert one is dataloaders.{}"
    )
    for module, name in (
        ("sampler", "Sampler"),
        ("dataset", "Dataset"),
        ("_utils.collate", "default_convert"),
        ("_utils.worker", "get_worker_info"),
    ):
        process = subprocess.run(
            [sys.executable, "-c", code.format(module, name, name)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr


def test_functions_of_one_type() -> None:
    x = [st.ones(2), st.zeros(2)]
    assert collate.collate_tensor_fn(x).tolist() == [[1, 1], [0, 0]]
    assert collate.collate_numpy_array_fn([np.ones(1), np.zeros(1)]).tolist() == [[1], [0]]
    assert collate.collate_numpy_scalar_fn([np.float64(1), np.float64(2)]).tolist() == [1, 2]
    assert collate.collate_float_fn([1.0, 2.0]).tolist() == [1, 2]
    assert collate.collate_int_fn([1, 2]).tolist() == [1, 2]
    assert collate.collate_str_fn(["a", "b"]) == ["a", "b"]
    assert collate.np_str_obj_array_pattern.search(np.array("a").dtype.str)
    assert collate.default_collate_err_msg_format.format(int).endswith("found <class 'int'>")


def test_names_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match=r"module 'shmtensor\.utils\.data' has no attribute"):
        data.DataLoadr  # noqa: B018
    with pytest.raises(ImportError, match="use a Dataset"):
        exec("from shmtensor.utils.data import datapipes")
