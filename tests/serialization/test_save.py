"""save and load: values, aliasing, trust, and PyTorch's files."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.serialization import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    load,
    safe_globals,
    save,
)


def tensor(array: Any) -> st.Tensor:
    return st.from_numpy(np.asarray(array))


def roundtrip(obj: Any, **options: Any) -> Any:
    file = io.BytesIO()
    save(obj, file)
    file.seek(0)
    return load(file, **options)


DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", "c16"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    back = roundtrip(tensor(array))
    assert back.dtype == array.dtype
    assert (back.numpy() == array).all()
    assert back.is_shared()


def test_containers_and_numbers_come_back() -> None:
    obj = {
        "epoch": 3,
        "loss": 0.5,
        "name": "digits",
        "flags": [True, None, (1, 2j)],
        "set": {1, 2},
        "bytes": b"\x00\xff",
        "state": OrderedDict(weight=tensor([1.0, 2.0])),
        "array": np.arange(3),
        "scalar": np.float32(1.5),
        "dtype": st.float32,
    }
    back = roundtrip(obj)
    assert back.keys() == obj.keys()
    for name in ("epoch", "loss", "name", "flags", "set", "bytes", "scalar", "dtype"):
        assert back[name] == obj[name], name
    assert (back["array"] == obj["array"]).all()
    assert type(back["state"]) is OrderedDict
    assert back["state"]["weight"].tolist() == [1, 2]


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)])
def test_odd_shapes_come_back(shape: tuple[int, ...]) -> None:
    assert roundtrip(tensor(np.ones(shape, np.float32))).shape == shape


def test_views_of_one_memory_stay_views_of_one_memory() -> None:
    full = tensor(np.arange(12, dtype=np.float32))
    back = roundtrip({"whole": full, "part": full[4:8], "turned": full.reshape(3, 4).T})
    back["whole"].numpy()[5] = -1
    assert back["part"].tolist() == [4, -1, 6, 7]
    assert back["turned"].tolist()[1] == [1, -1, 9]


def test_tensors_of_two_dtypes_over_one_memory_stay_so() -> None:
    raw = np.arange(4, dtype=np.int64)
    back = roundtrip([tensor(raw), tensor(raw.view(np.float64))])
    back[0].numpy()[0] = np.float64(2.0).view(np.int64)
    assert back[1].numpy()[0] == 2.0


def test_a_tensor_between_the_elements_of_its_memory_is_refused() -> None:
    memory = st.zeros(12, dtype=st.uint8)
    between = st.from_numpy(np.ndarray((2,), np.float32, memory.numpy(), 2))
    with pytest.raises(ValueError, match=r"begins at byte 2 of the memory .* save its clone\(\)"):
        st.save([memory, between], io.BytesIO())


def test_neighbours_in_one_block_are_not_saved_twice() -> None:
    large = tensor(np.zeros(100_000, np.float32))
    for part in (large[10:20], [large[:5], large[5:10]], large.reshape(1000, 100)[:, 0]):
        file = io.BytesIO()
        save(part, file)
        assert len(file.getvalue()) < 6_000


def test_gradients_are_asked_for_again() -> None:
    parameter = nn.Parameter(tensor(np.ones(3, np.float32)))
    back = roundtrip({"p": parameter, "again": parameter, "q": tensor([1.0]).requires_grad_()})
    assert isinstance(back["p"], nn.Parameter)
    assert back["p"].requires_grad
    assert back["again"] is back["p"]
    assert back["q"].requires_grad
    assert not isinstance(back["q"], nn.Parameter)


def test_a_state_dict_comes_back() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    other = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    other.load_state_dict(roundtrip(model.state_dict()))
    for mine, its in zip(model.parameters(), other.parameters(), strict=True):
        assert mine.tolist() == its.tolist()


class Evil:
    def __reduce__(self) -> Any:
        return eval, ("1 + 1",)


class Point:
    def __init__(self, x: int) -> None:
        self.x = x


def test_code_is_not_run_unless_the_file_is_trusted() -> None:
    with pytest.raises(pickle.UnpicklingError, match=r"not trusted: __builtin__\.eval"):
        roundtrip(Evil())
    assert roundtrip(Evil(), weights_only=False) == 2


def test_classes_can_be_trusted_by_name() -> None:
    with pytest.raises(pickle.UnpicklingError, match="Point"):
        roundtrip(Point(3))
    with safe_globals([Point]):
        assert roundtrip(Point(3)).x == 3
    with pytest.raises(pickle.UnpicklingError, match="Point"):
        roundtrip(Point(3))
    add_safe_globals([(Point, f"{Point.__module__}.Point")])
    assert get_safe_globals() == [Point]
    assert roundtrip(Point(4)).x == 4
    clear_safe_globals()
    assert get_safe_globals() == []


def test_only_plain_arrays_are_rebuilt() -> None:
    back = roundtrip(np.array([[1.5, 2]]).T)
    assert back.tolist() == [[1.5], [2]]
    with pytest.raises(Exception, match=r"not trusted|plain NumPy"):
        roundtrip(np.rec.array([(1, 2.0)], dtype=[("a", int), ("b", float)]))


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([None]), np.array([], "M8[s]")])
def test_only_numbers_are_rebuilt(array: Any) -> None:
    with pytest.raises(pickle.UnpicklingError, match="only arrays of numbers are trusted"):
        roundtrip(array)
    assert roundtrip(array, weights_only=False).tolist() == array.tolist()


def test_foreign_byte_order_becomes_ours() -> None:
    assert roundtrip(np.array([1, 2], ">i4")).tolist() == [1, 2]


def test_mapped_files_are_not_read(tmp_path: Path) -> None:
    save({"x": tensor(np.arange(5.0))}, tmp_path / "x.pt")
    back = load(tmp_path / "x.pt", mmap=True)["x"]
    assert back.tolist() == [0, 1, 2, 3, 4]
    back.numpy()[0] = 9
    assert load(tmp_path / "x.pt")["x"].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="mmap=True needs a path"):
        roundtrip(tensor([1.0]), mmap=True)


def test_records_are_aligned(tmp_path: Path) -> None:
    save([tensor(np.full(3, 7.0)), tensor(np.full(5, 8, np.int8))], tmp_path / "x.pt")
    raw = (tmp_path / "x.pt").read_bytes()
    assert raw.find(np.full(3, 7.0).tobytes()) % 64 == 0
    assert raw.find(b"\x08" * 5) % 64 == 0


def test_where_tensors_go() -> None:
    x = tensor([1.0])
    assert roundtrip(x, map_location="cpu").tolist() == [1]
    assert roundtrip(x, map_location={"cuda:0": "cpu"}).tolist() == [1]
    assert roundtrip(x, map_location=lambda storage, location: storage).tolist() == [1]
    assert roundtrip(x, map_location=lambda storage, location: None).tolist() == [1]
    with pytest.raises(RuntimeError, match=r"no such device: cuda:0.*map_location='cpu'"):
        roundtrip(x, map_location={"cpu": "cuda:0"})


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(pickle.dumps([1]))
    with pytest.raises(RuntimeError, match="not a zip archive of tensors"):
        load(tmp_path / "x")


@pytest.mark.parametrize("options", [{}, {"weights_only": False}, {"mmap": True}])
def test_an_empty_file_and_one_cut_short_anywhere_are_called_so(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    path = tmp_path / "x"
    save([tensor(np.arange(30.0)), "text", tensor(np.zeros(0))], path)
    full = path.read_bytes()
    ends = {*range(40), *range(40, len(full), 7), *range(len(full) - 40, len(full))}
    for n in sorted(ends):
        path.write_bytes(full[:n])
        text = f"truncated .*x begins as .* after {n} bytes" if n else r"empty \(0 bytes\): .*x"
        with pytest.raises(RuntimeError, match=text):
            load(path, **options)
    with pytest.raises(RuntimeError, match=r"empty \(0 bytes\): <_io.BytesIO"):
        load(io.BytesIO())
    with pytest.raises(RuntimeError, match=r"truncated .* after 100 bytes"):
        load(io.BytesIO(full[:100]))


@pytest.mark.torch
def test_pytorch_reads_our_files(tmp_path: Path) -> None:
    import torch

    full = tensor(np.arange(12, dtype=np.float32))
    save(
        {
            "part": full[4:8],
            "turned": full.reshape(3, 4).T,
            "p": nn.Parameter(tensor(np.ones(2, np.float32))),
            "u": tensor(np.arange(3, dtype=np.uint16)),
            "state": OrderedDict(n=3, name="x"),
        },
        tmp_path / "x.pt",
    )
    back = torch.load(tmp_path / "x.pt")
    assert back["part"].tolist() == [4, 5, 6, 7]
    assert back["turned"].shape == (4, 3)
    assert isinstance(back["p"], torch.nn.Parameter)
    assert back["u"].dtype is torch.uint16
    assert back["state"] == OrderedDict(n=3, name="x")


@pytest.mark.torch
def test_we_read_pytorch_files(tmp_path: Path) -> None:
    import torch

    linear = torch.nn.Linear(3, 2)
    torch.save(
        {
            "state": linear.state_dict(),
            "weight": linear.weight,
            "view": torch.arange(10)[2:5],
            "bfloat16": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
            "u": torch.arange(3).to(torch.uint16),
            "complex": torch.tensor([1 + 2j]),
        },
        tmp_path / "x.pt",
    )
    back = load(tmp_path / "x.pt")
    assert back["state"]["weight"].tolist() == linear.weight.tolist()
    assert isinstance(back["weight"], nn.Parameter)
    assert back["view"].tolist() == [2, 3, 4]
    assert back["bfloat16"].dtype is st.bfloat16
    assert back["bfloat16"].tolist() == [1.5, -2.0]
    assert back["u"].dtype == np.uint16
    assert back["complex"].tolist() == [1 + 2j]


# ------------------------------------------------------------------ sparse tensors
def coo(**kwargs: Any) -> Any:
    return st.sparse_coo_tensor([[0, 2, 0], [1, 0, 1]], [[1.0], [2.0], [3.0]], (3, 4, 1), **kwargs)


@pytest.mark.parametrize("weights_only", [True, False])
def test_sparse_tensors_keep_their_parts(weights_only: bool) -> None:
    x = coo()
    again, coalesced, alias = roundtrip([x, x.coalesce(), x], weights_only=weights_only)
    assert again is alias
    assert again._indices().tolist() == x._indices().tolist()
    assert again._values().tolist() == x._values().tolist()
    assert (tuple(again.shape), again.is_coalesced()) == ((3, 4, 1), False)
    assert coalesced.is_coalesced()
    assert st.equal(coalesced.to_dense(), x.to_dense())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x._indices().mul_(9), r"inconsistent"),
        (lambda x: x._indices().sub_(1), r"inconsistent"),
        (lambda x: setattr(x, "places", x.places.int()), r"dtype of indices"),
        (lambda x: setattr(x, "places", 3), r"not the indices and values"),
        (lambda x: setattr(x, "shape", (3, -4, 1)), r"not the sizes"),
        (lambda x: setattr(x, "shape", (3, 4)), r"inconsistent"),
    ],
)
def test_parts_that_make_no_sparse_tensor_are_refused(change: Any, message: str) -> None:
    x = coo()
    change(x)
    with pytest.raises(pickle.UnpicklingError, match=message):
        roundtrip(x)


def test_other_layouts_are_refused() -> None:
    stream = b"ctorch.serialization\n_get_layout\n(X\x10\0\0\0torch.sparse_bsrtR."
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x/data.pkl", b"\x80\x02" + stream)
        archive.writestr("x/version", b"3\n")
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match=r"layout .*torch.sparse_bsr"):
        load(file)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Sparse invariant")  # PyTorch's
def test_sparse_tensors_in_files_of_both() -> None:
    import torch

    file = io.BytesIO()
    save(coo(), file)
    file.seek(0)
    theirs = torch.load(file)
    assert theirs.layout == torch.sparse_coo
    assert theirs.to_dense().tolist() == coo().to_dense().tolist()
    file = io.BytesIO()
    torch.save([theirs, theirs.coalesce()], file)
    file.seek(0)
    ours, coalesced = load(file)
    assert (ours.is_coalesced(), coalesced.is_coalesced()) == (False, True)
    assert st.equal(ours.to_dense(), coalesced.to_dense())


def test_swapped_arguments_are_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"save: .*a path or a file: Tensor, hint: save\(obj, f\)"):
        st.save(str(tmp_path / "x.pt"), st.ones(2))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"load: .*a path or a file: 5"):
        st.load(5)  # type: ignore[arg-type]
