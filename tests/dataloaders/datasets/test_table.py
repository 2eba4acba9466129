"""Tables by columns: mappings, CSV, Parquet, pandas."""

from __future__ import annotations

import importlib.util
import math
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shmtensor import SharedList
from shmtensor.dataloaders import DataLoader, datasets

TEXT = "\n".join(
    [
        "id,score,name,good,gap,thin",
        "1,0.5,Ada,true,7,",
        '2,1e3,"Kurt, G.",false,,',
        '-3,-2,"say ""hi""",true,9,',
        "",
    ]
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "table.csv").write_text(TEXT)
    return tmp_path / "table.csv"


def test_csv_columns_have_the_types_of_their_fields(path: Path) -> None:
    dataset = datasets.CSVDataset(path)
    assert len(dataset) == 3
    columns = dataset.columns
    assert columns["id"].dtype == np.int64
    assert columns["score"].dtype == np.float64
    assert columns["good"].dtype == np.bool_
    assert isinstance(columns["name"], SharedList)
    row = dataset[1]
    assert int(row["id"]) == 2
    assert float(row["score"]) == 1000
    assert row["name"] == "Kurt, G."
    assert not row["good"]
    assert math.isnan(row["gap"])
    assert dataset[2]["name"] == 'say "hi"'
    batch = next(iter(DataLoader(dataset, batch_size=2, num_workers=1)))
    assert batch["id"].tolist() == [1, 2]
    assert batch["name"] == ["Ada", "Kurt, G."]
    assert "3 rows; id: int64, score: float64, name: object" in repr(dataset)


def test_chosen_columns_and_delimiters(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;b;c\n1;2;x\n3;4;y\n")
    dataset = datasets.CSVDataset(tmp_path / "t.csv", ["c", "a"], delimiter=";")
    assert list(dataset[0]) == ["c", "a"]
    with pytest.raises(KeyError, match="no such column: 'z'"):
        datasets.CSVDataset(tmp_path / "t.csv", ["z"], delimiter=";")


def test_ragged_csv_is_an_error(tmp_path: Path) -> None:
    for text, message in (("a,b\n1,2\n3\n", "line 3 has 1 fields, the header 2"), ("", "is empty")):
        (tmp_path / "t.csv").write_text(text)
        with pytest.raises(ValueError, match=rf"t\.csv: .*{message}"):
            datasets.CSVDataset(tmp_path / "t.csv")


def test_without_pyarrow(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyarrow", "pyarrow.csv", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    assert len(datasets.CSVDataset(path)) == 3  # the standard library's reader
    for call in (
        lambda: datasets.CSVDataset(path, engine="pyarrow"),
        lambda: datasets.ParquetDataset(path),
    ):
        with pytest.raises(ModuleNotFoundError, match="pip install pyarrow"):
            call()
    with pytest.raises(ValueError, match="engine is not"):
        datasets.CSVDataset(path, engine="numpy")


def test_features_and_target_as_tensors(path: Path) -> None:
    table = datasets.CSVDataset(path, engine="python")
    dataset = table.tensors(["id", "score"], "good")
    x, y = next(iter(DataLoader(dataset, batch_size=3)))
    assert x.dtype == np.float32
    assert x.tolist() == [[1, 0.5], [2, 1000], [-3, -2]]
    assert y.tolist() == [True, False, True]
    assert len(table.tensors(["id"])[0]) == 1
    with pytest.raises(TypeError, match="does not hold numbers: 'name'"):
        table.tensors(["name"])
    with pytest.raises(KeyError, match="no such column: 'x'"):
        table.tensors(["x"])


def test_mappings_of_many_kinds_of_columns() -> None:
    dates = np.array(["1970-01-01", "1970-01-02"], "M8[D]")
    table: dict[str, Any] = {
        "i": [1, 2], "m": [1, None], "d": dates, "f": np.zeros((2, 3), np.float32),
        "o": np.array(["a", float("nan")], object), "l": [[1], [2, 3]],
    }  # fmt: skip
    dataset = datasets.TableDataset(table)
    row = dataset[-1]
    assert int(row["i"]) == 2
    assert math.isnan(row["m"])
    assert int(row["d"]) == 86_400 * 10**9
    assert row["f"].shape == (3,)
    assert row["o"] is None
    assert row["l"] == [2, 3]
    assert len(pickle.dumps(dataset)) > 0
    for index in (2, -3):
        with pytest.raises(IndexError, match=f"{index} of 2 rows"):
            dataset[index]
        with pytest.raises(IndexError, match=f"{index} of 2"):
            dataset.__getitems__([0, index])
        with pytest.raises(IndexError, match=f"{index} of 2 rows"):
            datasets.TableDataset({"s": ["a", "b"]}).__getitems__([index])
    with pytest.raises(ValueError, match=r"differ in length: \{'a': 1, 'b': 2\}"):
        datasets.TableDataset({"a": [1], "b": [1, 2]})
    with pytest.raises(ValueError, match="at least one column"):
        datasets.TableDataset({})
    with pytest.raises(TypeError, match="neither a mapping, a frame nor a table: int"):
        datasets.TableDataset(3)


ARROW = """
import math, sys
import numpy as np
from shmtensor.dataloaders import datasets

path = sys.argv[1]
ours, theirs = (datasets.CSVDataset(path + "/table.csv", engine=e) for e in ("python", "pyarrow"))
assert repr(ours) == repr(theirs), (ours, theirs)
for i in range(3):
    for name in ours.columns:
        a, b = ours[i][name], theirs[i][name]
        a, b = (x if isinstance(x, str) else float(x) for x in (a, b))
        assert a == b or math.isnan(a) and math.isnan(b), (name, a, b)
for text in ("a,b\\n1,2\\n3\\n", ""):
    open(path + "/bad.csv", "w").write(text)
    try:
        datasets.CSVDataset(path + "/bad.csv", engine="pyarrow")
    except ValueError as error:
        assert "bad.csv" in str(error), error
    else:
        raise AssertionError(text)

import pyarrow, pyarrow.parquet
for n in range(2):
    table = pyarrow.table({"x": [1.5, 2.5], "n": [n, None], "s": ["a", None]})
    pyarrow.parquet.write_table(table, f"{path}/{n}.parquet")
found = datasets.ParquetDataset([path + "/0.parquet", path + "/1.parquet"])
assert found.columns["x"].tolist() == [1.5, 2.5, 1.5, 2.5]
assert found[2]["n"] == 1 and math.isnan(found[3]["n"])
assert found[2]["s"] == "a" and found[3]["s"] is None
assert list(datasets.ParquetDataset(path + "/0.parquet", ["s"])[0]) == ["s"]

# By row groups: in parts, promoted where a later one has gaps, and never all at once in memory.
rows = 40_000
table = pyarrow.table({
    "a": np.arange(rows), "b": [None if i == rows - 1 else i for i in range(rows)],
    "t": [i % 3 == 0 for i in range(rows)], "s": [f"name {i}" for i in range(rows)],
    "d": pyarrow.array([f"kind {i % 3}" for i in range(rows)]).dictionary_encode(),
    "k": pyarrow.array([i % 3 for i in range(rows)]).dictionary_encode(),
    "day": np.arange(rows).astype("M8[D]"),
    **{f"x{n}": np.random.rand(rows) for n in range(40)},
})
pyarrow.parquet.write_table(table, path + "/large.parquet", row_group_size=1000)
whole = datasets.TableDataset(table)
del table
pool = pyarrow.proxy_memory_pool(pyarrow.default_memory_pool())
pyarrow.set_memory_pool(pool)
found = datasets.ParquetDataset([path + "/large.parquet"])
assert 0 < pool.max_memory() < 2 << 20, f"{pool.max_memory()} bytes of Arrow's at once"
assert repr(found)[len("Parquet"):] == repr(whole)[len("Table"):], (found, whole)
for name, column in whole.columns.items():
    ours = found.columns[name]
    if isinstance(column, (list, type(whole.columns["s"]))):
        assert list(ours) == list(column), name
    else:
        assert np.array_equal(ours.numpy(), column.numpy(), equal_nan=name == "b"), name
assert math.isnan(found[rows - 1]["b"]) and found.columns["b"].dtype == np.float64
few = datasets.ParquetDataset([path + "/large.parquet"] * 2, ["x3", "s"])
assert list(few.columns) == ["x3", "s"] and len(few) == 2 * rows

for name, columns, kind in (("0.parquet", ["y"], KeyError), ("table.csv", None, ValueError)):
    try:
        datasets.ParquetDataset(f"{path}/{name}", columns)
    except kind as error:
        assert "'y'" in str(error) or "table.csv" in str(error), error
    else:
        raise AssertionError(name)
"""

PANDAS = """
import pandas
from shmtensor.dataloaders import DataLoader, datasets

frame = pandas.DataFrame(
    {"x": [1, 2, 3], "s": ["a", "b", None], "day": pandas.date_range("1970-01-01", periods=3)}
)
found = datasets.TableDataset(frame, ["s", "x", "day"])
batch = next(iter(DataLoader(found, batch_size=3)))
assert batch["s"] == ["a", "b", None], batch["s"]
assert batch["x"].tolist() == [1, 2, 3]
assert batch["day"].tolist() == [0, 86_400 * 10**9, 2 * 86_400 * 10**9]

# pandas's own dtypes, with and without gaps
own = pandas.DataFrame({
    "i": pandas.array([1, None, 3], "Int32"), "j": pandas.array([1, 2, 3], "Int32"),
    "t": pandas.array([True, None, False], "boolean"), "f": pandas.array([0.5, None, 1], "Float32"),
    "s": pandas.array(["a", None, "c"], "string"), "c": pandas.Categorical(["u", None, "u"]),
    "when": pandas.date_range("1970-01-01", periods=3, tz="UTC"),
})
found = datasets.TableDataset(own)
assert found.columns["j"].dtype == "int32" and found.columns["j"].tolist() == [1, 2, 3]
assert str(found.columns["i"].tolist()) == "[1.0, nan, 3.0]"
assert str(found.columns["t"].tolist()) == "[1.0, nan, 0.0]"
assert str(found.columns["f"].tolist()) == "[0.5, nan, 1.0]"
assert list(found.columns["s"]) == ["a", None, "c"]
assert list(found.columns["c"]) == ["u", None, "u"]
assert found.columns["when"].tolist() == [0, 86_400 * 10**9, 2 * 86_400 * 10**9]
"""


@pytest.mark.parametrize(("module", "code"), [("pyarrow", ARROW), ("pandas", PANDAS)])
def test_optional_packages(path: Path, module: str, code: str) -> None:
    """In another process: both leave threads behind, which a later fork would meet."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    command = [sys.executable, "-c", code, str(path.parent)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert process.returncode == 0, process.stderr


class Frame:
    """The frame interface that TableDataset uses, without pandas."""

    columns = ("x", "s")

    def __getitem__(self, name: str) -> Any:
        return Series({"x": np.arange(3), "s": np.array(["a", "b", "c"], object)}[name])


class Series:
    def __init__(self, values: Any) -> None:
        self.values = values

    def to_numpy(self) -> Any:
        return self.values


def test_frames_are_recognized_by_their_interface() -> None:
    dataset = datasets.TableDataset(Frame())
    assert int(dataset[2]["x"]) == 2
    assert dataset[2]["s"] == "c"


def test_nothing_optional_is_imported() -> None:
    code = (
        "import sys, shmtensor.dataloaders.datasets, shmtensor.dataloaders.transforms; "
        "wrong = {'pandas', 'pyarrow', 'PIL', 'scipy', 'sklearn'} & set(sys.modules); "
        "assert not wrong, wrong"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)
