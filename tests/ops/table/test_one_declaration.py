"""What is true of one op alone is a column of its row: nothing else names rows to say it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from shmtensor.ops import ROWS, Row, load

load()
ROOT = Path(__file__).resolve().parents[3]
CODE = ("shmtensor/autograd", "shmtensor/func", "shmtensor/ops/table")
# Tests that take rows from the table, and so may ask their columns.
TESTS = ("tests/ops", "tests/autograd", "tests/amp", "tests/cuda", "tests/func", "tests/surface")

# Strings that are names of rows and of something else.
OTHER_MEANINGS = {
    "shmtensor/autograd/graph.py": {"all", "any"},  # modes of register_multi_grad_hook
    "shmtensor/func/batching_rules/losses.py": {"mean"},  # a reduction
    "shmtensor/ops/table/memory_format.py": {"all"},  # a rule of the column `layout`
}
# Lists of rows in tests, and why no column says it.
LISTS_IN_TESTS = {
    # What one test leaves out, with the reason beside it: no code of the package depends on it.
    ("tests/ops/test_rows.py", "SYMMETRIC"): "how the test perturbs a matrix",
    ("tests/ops/test_rows.py", "BARE"): "that no other row lacks samples",
    ("tests/ops/test_rows.py", "REAL_ONLY"): "errors of kernels, or samples that are no integers",
    ("tests/ops/test_rows.py", "NO_BOOL"): "errors of kernels, which the test would get",
    ("tests/ops/test_half_precision.py", "OTHERS"): "exceptions of the column `halves`",
    ("tests/ops/test_half_precision.py", "REFUSED"): "exceptions of the column `halves`",
    ("tests/ops/test_meta.py", "REFUSED_GRADIENTS"): "gradients of composites that read values",
    ("tests/ops/test_meta.py", "FLOATS_ONLY"): "errors of PyTorch's kernels that ours lack",
    ("tests/cuda/table/device_rows.py", "FLOATS_ONLY"): "errors of PyTorch's kernels",
    ("tests/cuda/table/device_rows.py", "UP_TO_SIGNS"): "how the test compares vectors",
    ("tests/cuda/table/test_cuda_complex_order.py", "PAIRS"): "cases: what CuPy would order",
    ("tests/cuda/table/test_cuda_nan.py", "WITHOUT_INFINITIES"): "what the test cannot compare",
    ("tests/cuda/table/test_cuda_special.py", "UNARY"): "cases: functions with forms of their own",
    ("tests/cuda/table/test_cuda_special.py", "POLES"): "cases: functions with poles",
    ("tests/cuda/table/test_cuda_special.py", "OSCILLATING"): "cases: functions compared closer",
}


def modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def names_in(node: ast.AST) -> list[str]:
    """The names of rows among the strings of a comparison or a table; [] of other nodes."""
    parts: list[ast.AST] = []
    if isinstance(node, ast.Compare):
        parts = [node.left, *node.comparators]
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        parts = list(node.elts)
    elif isinstance(node, ast.Dict):
        parts = [key for key in node.keys if key is not None]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        words = node.value.split()
        return words if len(words) > 1 and all(word in ROWS for word in words) else []
    return [p.value for p in parts if isinstance(p, ast.Constant) and p.value in ROWS]


def test_dispatch_and_engine_ask_columns_not_names() -> None:
    found = []
    for file, tree in modules(*CODE):
        for node in ast.walk(tree):
            for name in names_in(node):
                if name not in OTHER_MEANINGS.get(file, ()):
                    found.append(f"{file}:{node.lineno}: {name!r}")  # type: ignore[attr-defined]
    assert not found, "declare a column of `op` instead of asking for the name of a row"


def test_nothing_compares_the_name_of_a_row() -> None:
    """Also where strings such as "exp" are names of NumPy's functions, as in `ops/cuda`."""
    found = [
        f"{file}:{node.lineno}: {ast.unparse(node)}"
        for file, tree in modules("shmtensor")
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        and ast.unparse(node.comparators[0]) not in ("ROWS", "COMPOSITES")  # is it declared?
        and any(ast.unparse(part) == "row.name" for part in (node.left, *node.comparators))
    ]
    assert not found, "declare a column of `op` instead of asking for the name of a row"


def lists_of_rows(tree: ast.Module) -> Iterator[tuple[str, set[str]]]:
    """Constants of a module that hold the names of three rows or more and nothing else."""
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        strings = [
            word
            for part in ast.walk(node.value)
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
            for word in part.value.split()
        ]
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if len(strings) > 1 and all(word in ROWS for word in strings):
            yield ast.unparse(target), set(strings)


def test_lists_of_rows_in_tests_have_a_reason() -> None:
    found = {(file, name) for file, tree in modules(*TESTS) for name, _ in lists_of_rows(tree)}
    assert found == LISTS_IN_TESTS.keys()


def is_row(node: ast.AST) -> bool:
    """Whether an expression is a row: `mul`, `row`, `rule.row`, `ROWS["mul"]`."""
    if isinstance(node, ast.Name):
        return node.id in ROWS or node.id == "row"
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Name) and node.value.id == "ROWS"
    return isinstance(node, ast.Attribute) and node.attr == "row"


def test_rows_are_complete_at_their_declaration() -> None:
    """No attribute of a row, or of a kernel for it, is assigned later."""
    columns = set(Row.__annotations__)
    found = []
    for file, tree in modules("shmtensor"):
        for node in ast.walk(tree):  # also in `a, row.numpy = ...`
            if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
                continue
            is_kernel = ast.unparse(node.value).endswith("_kernel")
            if node.attr in columns and (is_row(node.value) or is_kernel):
                found.append(f"{file}:{node.lineno}: {ast.unparse(node)}")
    assert not found, "make it a column of `op`"
