"""The layers of docs/design/README.md: who may import and include whom, no cycles, and files and
folders that a reader can survey.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from shmtensor.refused_names import MODULES

ROOT = Path(__file__).resolve().parent.parent

# Lowest first. A file imports only its own layer and those above it in this list, in its functions,
# too; layers on one line do not know each other.
LAYERS: list[tuple[str, ...]] = [
    ("shmtensor.refused_names",),
    (
        "shmtensor.version",
        "shmtensor.html_table",
        "shmtensor.errors",
        "shmtensor.absent_names",
        "shmtensor.compiler",
        "shmtensor.multiprocessing.exit_on_exception",
        "shmtensor.other_names",
    ),
    ("shmtensor.native",),
    ("shmtensor.cupy_runtime", "shmtensor.cudnn_runtime"),
    ("shmtensor.device",),
    ("shmtensor.dtypes",),
    ("shmtensor.dtype_objects",),
    ("shmtensor.cuda_arrays", "shmtensor.meta_arrays"),
    ("shmtensor.tensor.printing", "shmtensor.tensor.torch_constants"),
    ("shmtensor.memory", "shmtensor.storage"),
    ("shmtensor.profiler",),
    ("shmtensor.ops",),
    ("shmtensor.autograd",),
    ("shmtensor.tensor",),
    (
        "shmtensor.tensor.from_data",
        "shmtensor.functions",
        "shmtensor.tensor.global_settings",
        "shmtensor.__future__",
    ),
    ("shmtensor.backends", "shmtensor.overrides"),
    ("shmtensor.__config__", "shmtensor.types"),
    ("shmtensor.sparse", "shmtensor.tensor.legacy_types", "shmtensor.array_api"),
    ("shmtensor.tensor.register_pickling",),
    ("shmtensor.shared_containers",),
    (
        "shmtensor.random",
        "shmtensor.linalg",
        "shmtensor.masked",
        "shmtensor.fft",
        "shmtensor.special",
        "shmtensor.signal",
    ),
    (
        "shmtensor.func",
        "shmtensor.amp",
        "shmtensor.testing",
        "shmtensor.utils.tensorboard",
        "shmtensor.distributions",
        "shmtensor.quasirandom",
    ),
    ("shmtensor.cuda", "shmtensor.cpu"),
    ("shmtensor.accelerator",),
    ("shmtensor.nn",),
    ("shmtensor.jit", "shmtensor.utils.hooks"),
    ("shmtensor.optim", "shmtensor.viz"),
    ("shmtensor.serialization",),
    ("shmtensor.multiprocessing",),
    ("shmtensor.queue",),
    ("shmtensor.dataloaders",),
    (
        "shmtensor.distributed.group.operands",
        "shmtensor.distributed.group.cuda_operands",
        "shmtensor.distributed.collectives.reference",
    ),
    ("shmtensor.distributed.rendezvous", "shmtensor.distributed.group.call_signature"),
    ("shmtensor.distributed.backends",),
    ("shmtensor.distributed.group",),
    ("shmtensor.distributed.collectives",),
    ("shmtensor.distributed",),
    ("shmtensor.trainer",),
    ("shmtensor.run", "shmtensor.ray", "shmtensor.cli", "shmtensor.as_torch"),
    ("shmtensor.utils.benchmark", "shmtensor.utils.collect_env"),
    ("shmtensor.__main__",),
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}

# Names that users type, kept for them: these files re-export lazily what lives above them.
FACADES = {
    "shmtensor",
    "shmtensor.utils",
    "shmtensor.utils.checkpoint",
    "shmtensor.utils.data",
    "shmtensor.utils.data._utils",
    "shmtensor.utils.data._utils.collate",
    "shmtensor.utils.data._utils.worker",
    "shmtensor.utils.data.dataloader",
    "shmtensor.utils.data.dataset",
    "shmtensor.utils.data.distributed",
    "shmtensor.utils.data.sampler",
    "shmtensor.utils.dlpack",
    "shmtensor.nn.parallel",
    "shmtensor.distributed.distributed_c10d",
}

# The same for the C++ sources under shmtensor/native: folders, and files (without .h and .cc) whose
# layer is not that of their folder. What gathers the kernels of all rooms for one instruction set
# lies above them.
NATIVE_LAYERS: list[tuple[str, ...]] = [
    ("gil",),
    ("python",),
    ("methods", "precompiled"),
    ("memory", "simd", "half/bfloat16", "half/float16"),
    ("profiler",),
    ("math", "threading", "half/half", "half/half_arithmetic.simd", "half/half_conversion.simd"),
    ("kernels",),
    ("kernels/shape",),
    ("kernels/index",),
    ("kernels/linalg",),
    ("kernels/nn",),
    (
        "kernels/loss",
        "kernels/optim",
        "kernels/pointwise",
        "kernels/random",
        "kernels/reduce",
        "kernels/sort",
    ),
    ("numpy_loops",),
    ("half",),
    (
        "kernels/bind",
        "kernels/nn/nn_kernel_table.simd",
        "math/function_table.simd",
        "simd/kernel_table.simd",
    ),
    ("dispatch", "ipc"),
    ("shared_containers",),
    ("module",),
]
NATIVE_RANK = {name: rank for rank, layer in enumerate(NATIVE_LAYERS) for name in layer}

# Includes that point up, and why.
NATIVE_EXCEPTIONS = {
    ("kernels/shape/flip_roll_tril.cc", "dispatch/views.h"): "flip is a view, copied in order"
}

# Folders of one module whose path PyTorch's users write.
SMALL_FOLDERS = {
    "shmtensor/cpu",
    "shmtensor/signal",
    "shmtensor/nn/attention",
    "shmtensor/nn/parallel",
    "shmtensor/distributed/algorithms/ddp_comm_hooks",
    "shmtensor/distributed/optim",
    "shmtensor/distributed/elastic",
    "shmtensor/distributed/elastic/multiprocessing",
}
LONG = 700  # lines
FULL = 35  # files in a folder
# PyTorch's modules, a distribution each: programs import from them.
FULL_FOLDERS = {"shmtensor/distributions"}


def sources() -> Iterator[tuple[str, Path]]:
    for package in ("shmtensor", "shmtensor/dataloaders"):  # a link, which rglob does not follow
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def layer_of(module: str) -> str | None:
    """The longest listed name that `module` lies in."""
    parts = module.split(".")
    for n in range(len(parts), 0, -1):
        if (name := ".".join(parts[:n])) in RANK:
            return name
    return None


def is_lazy(tree: ast.Module) -> bool:
    """Whether a module imports by names that are strings: tables of what `__getattr__` gives."""
    if any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in tree.body):
        return True
    return any(
        isinstance(node, ast.alias) and node.name == "import_module" for node in ast.walk(tree)
    )


@cache
def imports_of(module: str, path: Path) -> list[tuple[str, int]]:
    """Every module of ours that `path` imports, with its line, but for those for type checkers."""
    found = []
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    skipped: set[ast.AST] = set()
    tree = ast.parse(path.read_text())
    lazy = is_lazy(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            skipped.update(child for part in node.body for child in ast.walk(part))
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            names = [f"{base}.{alias.name}" for alias in node.names]
        elif lazy and isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [name for name in (node.value, f"{package}.{node.value}") if name in KNOWN]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "shmtensor":
                found.append((name, node.lineno))
    return found


FILES = list(sources())
KNOWN = {module for module, _ in FILES} | {f"shmtensor.{name}" for name in MODULES}


def test_imports_point_down() -> None:
    wrong = []
    for module, path in FILES:
        if module in FACADES:
            continue
        own = layer_of(module)
        assert own is not None, f"{path.relative_to(ROOT)} is in no layer: add it to LAYERS"
        for name, line in imports_of(module, path):
            other = layer_of(name)
            where = f"{path.relative_to(ROOT)}:{line}"
            assert other is not None, f"{where} imports {name}, which is in no layer"
            if other != own and RANK[other] >= RANK[own]:
                wrong.append(f"{where}: {own} stands below {other} and imports {name}")
    assert not wrong, "\n".join(wrong)


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    """Some cycle, its first node repeated at the end; empty if there is none."""
    state: dict[str, int] = {}

    def walk(node: str, path: list[str]) -> list[str]:
        state[node] = 1
        for target in sorted(graph.get(node, ())):
            if state.get(target) == 1:
                return [*path[path.index(target) :], target]
            if target not in state and (cycle := walk(target, [*path, target])):
                return cycle
        state[node] = 2
        return []

    for node in sorted(graph):
        if node not in state and (cycle := walk(node, [node])):
            return cycle
    return []


def test_cycles_are_found() -> None:
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert find_cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_import_cycles() -> None:
    graph: dict[str, set[str]] = {}
    for module, path in FILES:
        targets = graph[module] = set()
        for name, _ in () if module in FACADES else imports_of(module, path):
            while name not in KNOWN:
                name = name.rpartition(".")[0]
            if name != module:
                targets.add(name)
    assert not (cycle := find_cycle(graph)), " -> ".join(cycle)


NATIVE = ROOT / "shmtensor" / "native"


def native_layer_of(path: str) -> str | None:
    """The longest listed folder or file that `path` lies in."""
    parts = path.rpartition(".")[0].split("/")
    for n in range(len(parts), 0, -1):
        if (name := "/".join(parts[:n])) in NATIVE_RANK:
            return name
    return None


def native_includes() -> dict[str, set[str]]:
    """What each C++ source includes of ours; all by paths from shmtensor/native."""
    return {
        str(path.relative_to(NATIVE)): set(
            re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE)
        )
        for path in NATIVE.rglob("*")
        if path.suffix in (".cc", ".h")
    }


def test_native_includes_point_down() -> None:
    wrong, excepted = [], set()
    for path, targets in sorted(native_includes().items()):
        own = native_layer_of(path)
        assert own is not None, f"{path} is in no layer: add it to NATIVE_LAYERS"
        for target in sorted(targets):
            other = native_layer_of(target)
            assert other is not None, f"{path} includes {target}, which is in no layer"
            if other != own and NATIVE_RANK[other] >= NATIVE_RANK[own]:
                if (path, target) in NATIVE_EXCEPTIONS:
                    excepted.add((path, target))
                else:
                    wrong.append(f"{path}: {own} stands below {other} and includes {target}")
    assert not wrong, "\n".join(wrong)
    assert excepted == set(NATIVE_EXCEPTIONS), "an exception that is none: take it out"


def test_no_include_cycles() -> None:
    assert not (cycle := find_cycle(native_includes())), " -> ".join(cycle)


def says_why_it_is_long(text: str) -> bool:
    """Whether a sentence of the head, a docstring or the first comment, says "long ... because"."""
    head = re.match(r'\s*(?:"""(.*?)"""|((?://|#)[^\n]*\n)*)', text, re.DOTALL)
    return head is not None and bool(re.search(r"\b[Ll]ong(er)?\b[^.]*\bbecause\b", head[0]))


def test_a_head_says_why() -> None:
    assert says_why_it_is_long('"""Losses.\n\nLong because they share their checks.\n"""\n')
    assert says_why_it_is_long("// Sums.\n//\n// Longer than others\n// because types differ.\n\n")
    assert not says_why_it_is_long('"""Losses of long rows."""\n\n# long because\n')
    assert not says_why_it_is_long("// Sums.\n\n// Long because types differ.\n")


def test_long_files_say_why() -> None:
    for package in ("shmtensor", "dataloaders", "examples", "benchmarks", "tests"):
        for path in sorted((ROOT / package).rglob("*")):
            if path.suffix in (".py", ".cc", ".h"):
                text = path.read_text()
                n = text.count("\n")
                if path.suffix == ".py" and n > LONG:
                    n -= lines_of_docstrings(text)
                assert n <= LONG or says_why_it_is_long(text), (
                    f"{path.relative_to(ROOT)} has more than {LONG} lines without docstrings, and "
                    "its head does not say why it is long"
                )


def lines_of_docstrings(text: str) -> int:
    """Lines below the first of each function's and class's docstring."""
    strings = [
        node.body[0].value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node)
        if isinstance(node.body[0], ast.Expr)
    ]
    return sum((s.end_lineno or s.lineno) - s.lineno for s in strings)


def test_docstrings_do_not_make_a_file_long() -> None:
    assert lines_of_docstrings('def f():\n    """Adds.\n\n    More.\n    """\n    return 1\n') == 3


def test_folders_are_neither_full_nor_single() -> None:
    for package in ("shmtensor", "dataloaders", "examples", "benchmarks", "tests"):
        for folder in sorted({path.parent for path in (ROOT / package).rglob("*.*")}):
            files = [path for path in folder.iterdir() if path.suffix in (".py", ".cc", ".h")]
            name = str(folder.relative_to(ROOT))
            assert (len(files) > FULL) == (name in FULL_FOLDERS), (
                f"{name} has {len(files)} files, {FULL} at most: cut it"
            )
            if package in ("shmtensor", "dataloaders") and "__pycache__" not in folder.parts:
                parts = [path for path in folder.iterdir() if path.name[:2] != "__"]
                assert (len(parts) > 1) != (name in SMALL_FOLDERS), (
                    f"{name}: a folder with one file is a file"
                )


def test_no_catch_all_names() -> None:
    for module, path in FILES:
        for word in ("helper", "helpers", "common", "manager", "misc", "util"):
            assert path.stem != word, f"{path.relative_to(ROOT)}: {word} does not say what is in it"
        if "utils" in module.split("."):
            assert module.startswith(
                (
                    "shmtensor.utils",
                    "shmtensor.nn.utils",
                    "shmtensor.nn.modules.utils",
                    "shmtensor.distributions.utils",
                )
            ), f"{module}: name the noun"
