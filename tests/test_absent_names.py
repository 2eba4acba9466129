"""Names that are not there: one sentence by every road, and "Did you mean"."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from types import ModuleType

import pytest
from test_public import MODULES

import shmtensor as st
from shmtensor import absent_names
from shmtensor.absent_names import ABSENT, AbsentModules, missing, reason_of


@pytest.mark.parametrize("name", sorted(ABSENT))
def test_an_attribute_and_its_import_end_in_the_same_sentence(name: str) -> None:
    parent, _, last = f"shmtensor.{name}".rpartition(".")
    reason = ABSENT[name]
    module = importlib.import_module(parent)
    with pytest.raises(AttributeError) as attribute:
        getattr(module, last)
    assert str(attribute.value) == f"module {parent!r} has no attribute {last!r}: {reason}"
    assert attribute.value.name == last
    assert attribute.value.obj is module
    if not hasattr(module, "__path__"):  # Python asks no finder for what is in no package
        return
    for statement in (
        f"from {parent} import {last}",
        f"import {parent}.{last}",
        f"from {parent}.{last} import anything",
        f"import {parent}.{last}.deeper",
        f"importlib.import_module('{parent}.{last}')",
    ):
        with pytest.raises(ModuleNotFoundError) as error:
            exec(statement, {"importlib": importlib})
        assert str(error.value) == f"No module named '{parent}.{last}': {reason}", statement
    with pytest.raises(ImportError):
        exec(f"from {parent} import {last}")


def test_a_program_may_ask_whether_a_module_exists() -> None:
    assert importlib.util.find_spec("shmtensor.fx") is None
    assert importlib.util.find_spec("shmtensor.distributed.fsdp") is None
    assert not hasattr(st, "fx")
    assert getattr(st, "_dynamo", 5) == 5
    with pytest.raises(ModuleNotFoundError, match=r"named 'shmtensor\.no_such_module'$"):
        importlib.import_module("shmtensor.no_such_module")
    with pytest.raises(ImportError, match="cannot import name 'no_such_name'"):
        exec("from shmtensor import no_such_name")
    assert sys.meta_path.count(AbsentModules) == 1
    absent_names.install()
    assert sys.meta_path.count(AbsentModules) == 1


def test_top_level_modules_of_pytorch_have_a_text() -> None:
    names = "_dynamo _inductor _C ao contrib cpp export functional futures fx library monitor"
    names += " mps mtia nativert nested numa onnx package quantization return_types"
    names += " torch_version windows xpu _compile _guards _logging"
    assert [name for name in names.split() if not reason_of(f"shmtensor.{name}")] == []


def test_dtypes_that_are_not_there() -> None:
    for name, text in (
        ("chalf", "complex64"),
        ("complex32", "complex64"),
        ("float8_e4m3fn", "float16 or bfloat16"),
        ("qint8", "quantized tensors are not there"),
        ("uint4", "int8 or uint8"),
    ):
        with pytest.raises(AttributeError, match=f"no attribute '{name}': .*{text}"):
            getattr(st, name)
    with pytest.raises(NotImplementedError, match=r"chalf: .* use complex64"):
        st.ones(2).chalf()


SIMILAR = {
    "st.Tensr": "Tensor",
    "st.arrange": "arange",
    "st.flaot32": "float32",
    "st.GradScalr": "GradScaler",
    "st.nn.Linera": "Linear",
    "st.nn.functional.sofmax": "softmax",
    "st.linalg.cholesk": "cholesky",
    "st.fft.ffft": "fft",
    "st.special.gamaln": "gammaln",
    "st.distributed.all_reduc": "all_reduce",
    "st.utils.data.DataLoadr": "DataLoader",
    "st.autograd.Varable": "Variable",
}


def test_the_traceback_suggests_the_name() -> None:
    *caught, uncaught = SIMILAR
    code = f"""
import sys, shmtensor as st
for expression in {caught}:
    try:
        eval(expression)
    except AttributeError:
        sys.excepthook(*sys.exc_info())
{uncaught}
"""
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    lines = [line for line in process.stderr.splitlines() if line.startswith("AttributeError")]
    assert len(lines) == len(SIMILAR), process.stderr
    for line, similar in zip(lines, SIMILAR.values(), strict=True):
        assert line.startswith("AttributeError: module 'shmtensor"), line
        assert line.count("Did you mean") == 1, line
        assert line.endswith(f"Did you mean: {similar!r}?"), line


def test_no_suggestion_is_far_from_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for many in (1, 10**6):  # whoever looks: we or Python
        monkeypatch.setattr(absent_names, "MANY", many)
        error = missing("shmtensor", "qwertz")
        assert str(error) == "module 'shmtensor' has no attribute 'qwertz'"
        text = str(missing("shmtensor", "arrange"))
        assert ("Did you mean: 'arange'?" in text) == (many == 1)


def test_dir_has_public_names_only() -> None:
    names = dir(st)
    assert names == sorted(set(names))
    private = [n for n in names if n.startswith("_") and not n.endswith("__")]
    assert private == []
    assert not {"TYPE_CHECKING", "import_module", "annotations"} & set(names)
    modules = {n for n in names if isinstance(getattr(st, n), ModuleType)}
    documented = {name.split(".")[1] for name in MODULES if "." in name}
    assert modules <= documented | {"__config__", "array_api", "ray", "types", "version"}
    for name in ("Tensor", "nn", "float32", "save", "FloatStorage", "jit", "vmap", "__version__"):
        assert name in names
    missing_names = [n for n in names if not hasattr(st, n)]
    assert missing_names == []
