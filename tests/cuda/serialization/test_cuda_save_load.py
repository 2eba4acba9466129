"""Files, pickles and safetensors of tensors on GPUs."""

from __future__ import annotations

import copy
import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.serialization import safetensors


def saved(obj: Any) -> io.BytesIO:
    file = io.BytesIO()
    st.save(obj, file)
    file.seek(0)
    return file


def locations(file: io.BytesIO) -> set[str]:
    """The devices that the pickle in a file names."""
    with zipfile.ZipFile(file) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith("data.pkl")]
        data = archive.read(name)
    file.seek(0)
    return {place for place in ("cpu", "cuda:0", "cuda:1") if place.encode() in data}


def test_a_tensor_comes_back_to_its_device(cp: Any) -> None:
    x = st.arange(6.0).reshape(2, 3).cuda()
    file = saved(x)
    assert locations(file) == {"cuda:0"}
    y = st.load(file)
    assert y.device == st.device("cuda", 0)
    assert y.tolist() == x.tolist()
    assert y.data_ptr() != x.data_ptr()


def test_the_second_device_is_named(two_devices: Any, cp: Any) -> None:
    file = saved({"a": st.ones(2).cuda(1), "b": st.ones(2), "c": st.ones(2).cuda(0)})
    assert locations(file) == {"cpu", "cuda:0", "cuda:1"}
    loaded = st.load(file)
    assert [str(loaded[name].device) for name in "abc"] == ["cuda:1", "cpu", "cuda:0"]


@pytest.mark.parametrize("make", [
    lambda: "cpu",
    lambda: st.device("cpu"),
    lambda: {"cuda:0": "cpu"},
    lambda: lambda storage, location: storage,
], ids=["name", "device", "dict", "function"])  # fmt: skip
def test_map_location_to_the_cpu(cp: Any, make: Callable[[], Any]) -> None:
    y = st.load(saved(st.arange(3).cuda()), map_location=make())
    assert not y.is_cuda
    assert y.tolist() == [0, 1, 2]


@pytest.mark.parametrize("make", [
    lambda: "cuda",
    lambda: "cuda:0",
    lambda: st.device("cuda", 0),
    lambda: {"cpu": "cuda:0"},
    lambda: lambda storage, location: storage.cuda(0),
], ids=["cuda", "cuda:0", "device", "dict", "function"])  # fmt: skip
def test_map_location_to_a_gpu(cp: Any, make: Callable[[], Any]) -> None:
    y = st.load(saved(st.arange(3)), map_location=make())
    assert str(y.device) == "cuda:0"
    assert y.tolist() == [0, 1, 2]


def test_a_function_is_told_the_location(cp: Any) -> None:
    seen = []
    y = st.load(saved(st.ones(2).cuda()), map_location=lambda s, place: seen.append(place))
    assert seen == ["cuda:0"]
    assert y.is_cuda  # None: the saved device


def test_map_location_to_another_gpu(two_devices: Any, cp: Any) -> None:
    y = st.load(saved(st.arange(3).cuda(0)), map_location={"cuda:0": "cuda:1"})
    assert str(y.device) == "cuda:1"
    assert y.tolist() == [0, 1, 2]


def test_a_missing_gpu_is_an_error_that_names_map_location(cp: Any) -> None:
    count = cp.cuda.runtime.getDeviceCount()
    with pytest.raises(RuntimeError, match=rf"device 99 but cuda.device_count\(\) is {count}.*map"):
        st.load(saved(st.ones(2)), map_location="cuda:99")


def test_tensors_that_share_memory_share_it_after_loading(cp: Any) -> None:
    x = st.arange(12.0).cuda()
    a, b, c = st.load(saved([x[2:8], x.view(3, 4).T, st.arange(4).cuda()]))
    assert a.untyped_storage() == b.untyped_storage()
    a[0] = 100
    assert b.T.reshape(-1).tolist() == [0, 1, 100, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    assert b.stride() == (1, 4)
    assert c.tolist() == [0, 1, 2, 3]


def test_only_the_used_part_is_saved(cp: Any) -> None:
    x = st.zeros(100_000).cuda()
    assert saved(x[10:20]).getbuffer().nbytes < 5_000


def test_strides_and_dtypes_stay(cp: Any) -> None:
    tensors = [
        st.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1).cuda(),
        st.tensor([True, False]).cuda(),
        st.tensor(3, dtype=st.int16).cuda(),
        st.tensor([1 + 2j]).cuda(),
        st.tensor([1, 2], dtype=st.uint32).cuda(),
        st.empty(0, 3).cuda(),
        st.arange(6.0).cuda()[::2],
    ]
    for x, y in zip(tensors, st.load(saved(tensors))):
        assert y.is_cuda
        assert y.dtype is x.dtype
        assert y.tolist() == x.tolist()
    assert st.load(saved(tensors))[0].stride() == tensors[0].stride()


def test_a_bool_that_is_no_bool_is_refused(cp: Any) -> None:
    file = saved(st.tensor([True, True]).cuda())
    with zipfile.ZipFile(file) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    damaged = io.BytesIO()
    with zipfile.ZipFile(damaged, "w") as archive:
        for name, data in records.items():
            archive.writestr(name, b"\x01\x07" if name.endswith("data/0") else data)
    damaged.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="not 0 or 1"):
        st.load(damaged)


def test_a_module_and_its_optimizer(cp: Any, tmp_path: Path) -> None:
    model = nn.Linear(3, 2).cuda()
    st.save(model.state_dict(), tmp_path / "model.pt")
    state = st.load(tmp_path / "model.pt")
    assert {str(t.device) for t in state.values()} == {"cuda:0"}
    on_cpu = nn.Linear(3, 2)
    on_cpu.load_state_dict(state)
    assert on_cpu.weight.tolist() == model.weight.tolist()
    other = nn.Linear(3, 2).cuda()
    other.load_state_dict(st.load(tmp_path / "model.pt", map_location="cpu"))
    assert other.weight.tolist() == model.weight.tolist()
    assert other.weight.is_cuda


def test_mapped_files_go_to_a_gpu(cp: Any, tmp_path: Path) -> None:
    st.save({"x": st.arange(4.0)}, tmp_path / "x.pt")
    x = st.load(tmp_path / "x.pt", map_location="cuda", mmap=True)["x"]
    assert x.is_cuda
    assert x.tolist() == [0, 1, 2, 3]


def test_parameters_and_requires_grad(cp: Any) -> None:
    p, x = st.load(saved([nn.Parameter(st.ones(2).cuda()), st.ones(2).cuda().requires_grad_()]))
    assert isinstance(p, nn.Parameter)
    assert p.requires_grad
    assert p.is_cuda
    assert x.requires_grad


# ---------------------------------------------------------------- pickle and deepcopy


def round_trips() -> list[Any]:
    return [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy]


@pytest.mark.parametrize("copied", round_trips(), ids=["pickle", "deepcopy"])
def test_copies_are_on_the_same_device(cp: Any, copied: Callable[[Any], Any]) -> None:
    x = st.arange(6.0).reshape(2, 3).cuda()
    y = copied(x)
    assert (y.device, y.tolist()) == (x.device, x.tolist())
    assert copied(x.T).stride() == (1, 3)
    z = copied(x.clone().requires_grad_())
    assert z.requires_grad
    a, b = copied([x[1:], x])
    assert a.untyped_storage() == b.untyped_storage()
    assert a.storage_offset() == 3
    a.zero_()
    assert b.tolist() == [[0, 1, 2], [0, 0, 0]]
    assert x.tolist()[1] == [3, 4, 5]


@pytest.mark.parametrize("copied", round_trips(), ids=["pickle", "deepcopy"])
def test_copies_of_the_second_device(
    two_devices: Any, cp: Any, copied: Callable[[Any], Any]
) -> None:
    x = st.arange(3).cuda(1)
    y, z = copied([x, x[1:]])
    assert (y.device, y.tolist(), z.tolist()) == (x.device, [0, 1, 2], [1, 2])


@pytest.mark.parametrize("copied", round_trips(), ids=["pickle", "deepcopy"])
def test_copies_have_their_grad(cp: Any, copied: Callable[[Any], Any]) -> None:
    w = st.ones(2).cuda().requires_grad_()
    (w * 3).sum().backward()
    v = copied(w)
    assert v.grad.tolist() == [3, 3]
    assert v.grad.is_cuda
    assert v.grad.data_ptr() != w.grad.data_ptr()


def test_storages_are_pickled(cp: Any) -> None:
    storage = pickle.loads(pickle.dumps(st.arange(3).cuda().storage()))
    assert storage.tolist() == [0, 1, 2]
    assert storage.is_cuda


# ---------------------------------------------------------------- safetensors


def test_safetensors_from_and_to_a_gpu(cp: Any, last_device: str, tmp_path: Path) -> None:
    tensors = {
        "a": st.arange(6.0).reshape(2, 3).cuda(),
        "b": st.tensor([True, False, True]).cuda(),
        "c": st.arange(4).cuda()[::2],
        "d": st.ones(2),
    }
    path = tmp_path / "x.safetensors"
    safetensors.save_file(tensors, path)
    for device in ("cpu", "cuda", "cuda:0", 0, st.device("cuda")):
        loaded = safetensors.load_file(path, device=device)
        assert {t.is_cuda for t in loaded.values()} == {device != "cpu"}
        assert all(loaded[name].tolist() == tensors[name].tolist() for name in tensors)
    assert str(safetensors.load_file(path, device=last_device)["a"].device) == last_device


def test_safetensors_to_a_missing_gpu(cp: Any, tmp_path: Path) -> None:
    safetensors.save_file({"a": st.ones(2)}, tmp_path / "x")
    with pytest.raises(
        st.cuda.DeviceMissing if hasattr(st.cuda, "DeviceMissing") else RuntimeError
    ):
        safetensors.load_file(tmp_path / "x", device="cuda:99")
