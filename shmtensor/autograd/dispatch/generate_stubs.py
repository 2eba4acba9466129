"""Writes the types of what comes from the op table:
`python -m shmtensor.autograd.dispatch.generate_stubs [PACKAGE]`.

The build runs it; the files are not committed. PACKAGE is the folder `shmtensor` to write to,
by default that of the imported package.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

from ...ops.table.op_definition import COMPOSITES, ROWS, Composite, Row
from .composite import signature
from .op_function import table
from .plan import is_sized, numpy_names, takes_out
from .tensor_methods import COMPARISONS, OPERATORS, UNARY

__all__ = ["texts", "write"]

WIDTH = 100
HEAD = '''"""Written by `python -m shmtensor.autograd.dispatch.generate_stubs` from the op table."""

import builtins
from collections.abc import Sequence
from typing import Any

{imports}
_Operand = Tensor | builtins.complex
'''


def result_type(row: Row) -> str:
    if row.listed:
        return "tuple[Tensor, ...]"
    return "Tensor" if len(row.outputs) == 1 else "Any"


def sized(name: str) -> list[str]:
    """The parameters of `*size`, which is also a keyword."""
    return [f"*_{name}: Any", f"{name}: Any = ..."]


def row_parameters(row: Row, form: str) -> list[str]:
    """The parameters of a row's function, typed."""
    parameters: list[str] = []
    for x in row.inputs:
        type_ = "Sequence[Tensor]" if x.listed else "_Operand" if row.broadcast else "Tensor"
        parameters.append(
            f"{x.public}: {type_} | None = ..." if x.optional else f"{x.public}: {type_}"
        )
    spellings = numpy_names(row)
    keywords: list[str] = []
    for a in row.attributes:
        if is_sized(row, form, a):
            parameters += sized(a.name)
            continue
        text = f"{a.name}: Any" + ("" if a.default is inspect.Parameter.empty else " = ...")
        has_star = any(p.startswith("*") for p in parameters)
        if a.name in spellings:
            text = f"{a.name}: Any = ..."
        (keywords if a.keyword_only or has_star else parameters).append(text)
    keywords += [f"{k}: Any = ..." for k in row.rare_defaults]
    keywords += [f"{other}: Any = ..." for other in spellings.values()]
    if form == "function" and takes_out(row):
        keywords.append("out: Any = ...")
    if keywords and not any(p.startswith("*") for p in parameters):
        parameters.append("*")
    return parameters + keywords


def composite_parameters(composite: Composite, form: str) -> list[str]:
    """The parameters of a composite's function, typed."""
    parameters: list[str] = []
    for p in signature(getattr(table, composite.name)).parameters.values():
        if p.name == "out" and form != "function" and p.kind is p.KEYWORD_ONLY:
            continue
        if p.kind is p.VAR_POSITIONAL:
            parameters += sized(p.name)
            continue
        stars = "**" if p.kind is p.VAR_KEYWORD else ""
        if p.kind is p.KEYWORD_ONLY and not any(s.startswith("*") for s in parameters):
            parameters.append("*")
        parameters.append(f"{stars}{p.name}: Any" + ("" if p.default is p.empty else " = ..."))
    return parameters


def definition(name: str, parameters: list[str], returns: str, depth: int) -> str:
    if depth:
        parameters = ["self", *parameters[1:]]
    indent = "    " * depth
    line = f"{indent}def {name}({', '.join(parameters)}) -> {returns}: ..."
    if len(line) <= WIDTH:
        return line
    inner = f"{indent}    {', '.join(parameters)}"
    if len(inner) > WIDTH:
        inner = "\n".join(f"{indent}    {p}," for p in parameters)
    return f"{indent}def {name}(\n{inner}\n{indent}) -> {returns}: ..."


def public_functions(form: str) -> list[tuple[str, list[str], str]]:
    """(name, parameters, result) of all public functions, or methods."""
    entries = []
    for name, row in ROWS.items():
        if not (row.method if form == "method" else row.function):
            continue
        parameters = row_parameters(row, form)
        for public in (name, *row.aliases):
            entries.append((public, parameters, result_type(row)))
            if row.inplace:
                entries.append((f"{public}_", row_parameters(row, "method"), "Tensor"))
    for name, composite in COMPOSITES.items():
        if not (composite.method if form == "method" else composite.function):
            continue
        for public in (name, *composite.aliases):
            entries.append((public, composite_parameters(composite, form), "Any"))
            if composite.inplace and form == "method":
                entries.append((f"{public}_", composite_parameters(composite, "method"), "Tensor"))
    return sorted(entries, key=lambda entry: entry[0])


def functions_text() -> str:
    lines = [HEAD.format(imports="from .tensor import Tensor\n")]
    lines += [definition(*entry, 0) for entry in public_functions("function")]
    return file_text(lines)


def file_text(lines: list[str]) -> str:
    """The text of a file, without the import of Sequence if it is unused."""
    text = "\n".join(lines) + "\n"
    if "Sequence[" not in text:
        text = text.replace("from collections.abc import Sequence\n", "")
    return text


def methods_text() -> str:
    imports = "from ...native import TensorBase\nfrom ...tensor import Tensor\n"
    lines = [
        HEAD.format(imports=imports),
        "def functions() -> dict[str, Any]: ...\n",
        "OPERATORS: dict[str, str]",
        "UNARY: dict[str, str]",
        "COMPARISONS: set[str]\n",
        "class Methods(TensorBase):",
    ]
    lines += [definition(*entry, 1) for entry in public_functions("method")]
    declared = {**ROWS, **COMPOSITES}
    for name, special in OPERATORS.items():
        if name not in declared:
            continue
        row: Any = declared[name]
        ignore = "  # type: ignore[override]" if name in ("eq", "ne") else ""
        lines.append(f"    def __{special}__(self, other: Any) -> Tensor: ...{ignore}")
        if isinstance(row, Row) and name not in COMPARISONS:
            if row.broadcast and len(row.inputs) == 2:
                lines.append(f"    def __r{special}__(self, other: Any) -> Tensor: ...")
            if row.inplace:
                lines.append(f"    def __i{special}__(self, other: Any) -> Tensor: ...")
    lines += [f"    def __{special}__(self) -> Tensor: ..." for special in UNARY.values()]
    lines.append("    def __getitem__(self, index: Any) -> Tensor: ...")
    return file_text(lines)


def texts() -> dict[str, str]:
    """The texts of the files, by their paths in the package."""
    return {
        "functions.pyi": functions_text(),
        "autograd/dispatch/tensor_methods.pyi": methods_text(),
    }


def write(package: Path) -> None:
    for name, text in texts().items():
        path = package / name
        if not path.exists() or path.read_text() != text:  # a newer file would cause another build
            path.write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2])
