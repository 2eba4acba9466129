"""The house of docs/design/README.md: who may import whom, no cycles, no file that just grows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Lowest first. A file imports only its own layer and those above it in this list; layers on one
# line do not know each other.
LAYERS: list[tuple[str, ...]] = [
    ("shmtensor.version", "shmtensor.errors", "shmtensor.multiprocessing.exit_on_exception"),
    ("shmtensor.device", "shmtensor.native"),
    ("shmtensor.dtypes",),
    ("shmtensor.tensor.printing", "shmtensor.tensor.torch_constants"),
    ("shmtensor.memory", "shmtensor.storage"),
    ("shmtensor.ops",),
    ("shmtensor.autograd",),
    ("shmtensor.tensor",),
    (
        "shmtensor.tensor.from_data",
        "shmtensor.functions",
        "shmtensor.tensor.global_settings",
        "shmtensor.__future__",
    ),
    ("shmtensor.accelerator", "shmtensor.backends", "shmtensor.overrides"),
    ("shmtensor.hub", "shmtensor.__config__"),
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
    ("shmtensor.func", "shmtensor.amp", "shmtensor.testing", "shmtensor.utils.tensorboard"),
    ("shmtensor.cuda",),
    ("shmtensor.nn",),
    ("shmtensor.optim", "shmtensor.viz"),
    ("shmtensor.serialization",),
    ("shmtensor.multiprocessing",),
    ("shmtensor.queue",),
    ("dataloaders",),
    ("shmtensor.distributed",),
    ("shmtensor.trainer",),
    ("shmtensor.run", "shmtensor.cli"),
    ("shmtensor.__main__",),
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}

# Names that users type, kept for them: these files re-export lazily what lives above them.
DOORS = {
    "shmtensor",
    "shmtensor.utils",
    "shmtensor.utils.checkpoint",
    "shmtensor.utils.data",
    "shmtensor.utils.dlpack",
    "shmtensor.nn.parallel",
}

# Past 400 lines a file says why in its first paragraph, and has its budget here.
LARGE: dict[str, int] = {
    "benchmarks/trials.py": 460,
    "shmtensor/ops/nn/activation.py": 440,
    "shmtensor/ops/index/gather_scatter.py": 420,
    "shmtensor/ops/shape/view_expand_flip.py": 430,
    "shmtensor/ops/reduce/sum_mean_var.py": 410,
    "shmtensor/ops/table/op_definition.py": 430,
    "shmtensor/nn/modules/conv.py": 540,
    "shmtensor/nn/modules/pooling.py": 480,
    "shmtensor/nn/modules/rnn.py": 450,
    "shmtensor/native/dispatch/op_result.cc": 440,
    "shmtensor/native/kernels/shape/memory_format.cc": 450,
    "shmtensor/native/kernels/reduce/sum.cc": 440,
    "shmtensor/nn/modules/container.py": 440,
    "shmtensor/nn/modules/loss.py": 630,
    "shmtensor/nn/utils/prune.py": 510,
    "shmtensor/tensor/tensor.py": 850,
}


def sources() -> Iterator[tuple[str, Path]]:
    for package in ("shmtensor", "dataloaders"):
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


def imports_of(module: str, path: Path, only_top_level: bool = False) -> Iterator[tuple[str, int]]:
    """Every module of ours that `path` imports, with its line, but for those for type checkers."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    skipped: set[ast.AST] = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            skipped.update(child for part in node.body for child in ast.walk(part))
        if only_top_level and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            skipped.update(ast.walk(node))
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
        else:
            continue
        for name in names:
            if name.split(".")[0] in ("shmtensor", "dataloaders"):
                yield name, node.lineno


FILES = list(sources())


@pytest.mark.parametrize(("module", "path"), FILES, ids=[module for module, _ in FILES])
def test_imports_point_down(module: str, path: Path) -> None:
    if module in DOORS:
        return
    own = layer_of(module)
    assert own is not None, f"{path.relative_to(ROOT)} is in no layer: add it to LAYERS"
    for name, line in imports_of(module, path):
        other = layer_of(name)
        where = f"{path.relative_to(ROOT)}:{line}"
        assert other is not None, f"{where} imports {name}, which is in no layer"
        if other != own:
            assert RANK[other] < RANK[own], (
                f"{where}: {own} stands below {other} and imports {name}"
            )


def test_no_import_cycles() -> None:
    known = {module for module, _ in FILES}
    graph: dict[str, set[str]] = {module: set() for module in known}
    for module, path in FILES:
        for name, _ in imports_of(module, path, only_top_level=True):
            while name not in known:
                name = name.rpartition(".")[0]
            # a package that its own files name is no cycle: it is being imported already
            if name != module and not module.startswith(name + "."):
                graph[module].add(name)
    state: dict[str, int] = {}

    def walk(module: str, path: list[str]) -> None:
        state[module] = 1
        for target in sorted(graph[module]):
            if state.get(target) == 1:
                pytest.fail("import cycle: " + " -> ".join([*path[path.index(target) :], target]))
            if target not in state:
                walk(target, [*path, target])
        state[module] = 2

    for module in sorted(graph):
        if module not in state:
            walk(module, [module])


def test_files_stay_small() -> None:
    for package in ("shmtensor", "dataloaders", "examples", "benchmarks"):
        for path in sorted((ROOT / package).rglob("*")):
            if path.suffix in (".py", ".cc", ".h"):
                name, lines = str(path.relative_to(ROOT)), len(path.read_text().splitlines())
                budget = LARGE.get(name, 400)
                assert lines <= budget, (
                    f"{name} has {lines} lines, its budget is {budget}: split it"
                )


def test_no_catch_all_names() -> None:
    for module, path in FILES:
        for word in ("helper", "helpers", "common", "manager", "misc", "util"):
            assert path.stem != word, f"{path.relative_to(ROOT)}: {word} does not say what is in it"
        if "utils" in module.split("."):
            assert module.startswith(
                ("shmtensor.utils", "shmtensor.nn.utils", "shmtensor.nn.modules.utils")
            ), f"{module}: name the noun"
