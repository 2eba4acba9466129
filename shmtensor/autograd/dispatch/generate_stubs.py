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

from ...ops import LATER, load
from ...ops.table.op_table import COMPOSITES, ROWS, Composite, Row
from ...refused_names import MODULES, is_class, is_question, names_of
from .composite import signature
from .op_function import table
from .plan import is_sized, numpy_names, takes_out
from .stub_types import ALIASES, ARGUMENTS, FIELDS, IN_FUNCTIONS, OVERLOADS, RESULTS, SPARSE_METHODS

WIDTH = 100
HEAD = '"""Written by `python -m shmtensor.autograd.dispatch.generate_stubs`."""\n'
IMPORTS = """
import builtins
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, Literal, SupportsIndex, TypeAlias, overload

import numpy as np
from typing_extensions import Self

from {root} import _return_types
from {root}device import Device
from {root}dtypes import Dtype
from {root}native import dtype as _OwnDtype
from {root}ops.random.philox import Generator
from {root}tensor import Size, Tensor
from {root}tensor.torch_constants import layout as _Layout
from {root}tensor.torch_constants import memory_format as _MemoryFormat
"""
FACADES = (
    "fft",
    "linalg",
    "masked",
    "special",
)  # modules whose functions are looked up in the table
SIZES = ("dims", "shape", "size")
EMPTY = inspect.Parameter.empty

# What functions return whose results have names: those of rows, and FIELDS.
NAMED = {
    **{
        r.label: r.outputs for r in ROWS.values() if len(r.outputs) > 1 and (r.function or r.method)
    },
    **FIELDS,
}


def result_type(declared: Row | Composite) -> str:
    """What a function returns whose result does not depend on its arguments."""
    if isinstance(declared, Row):
        if declared.listed:
            return "tuple[Tensor, ...]"
        return "Tensor" if len(declared.outputs) == 1 else f"_return_types.{declared.label}"
    if declared.name in FIELDS:
        return f"_return_types.{declared.name}"
    return RESULTS.get(declared.name, "Tensor")


def argument_type(function: str, name: str, default: Any) -> str:
    """The type of an argument, by its name, or by its default."""
    type_ = IN_FUNCTIONS.get(f"{function}.{name}") or ARGUMENTS.get(name)
    if isinstance(default, bool):
        type_ = "builtins.bool"
    elif type_ in (None, "SupportsIndex") and isinstance(default, float):
        type_ = "builtins.float"
    elif type_ is None and isinstance(default, str):
        type_ = "builtins.str"
    if type_ is None or type_ == "Any":
        return "Any"
    return f"{type_} | None" if default is None and "None" not in type_ else type_


def argument(function: str, name: str, default: Any) -> str:
    text = f"{name}: {argument_type(function, name, default)}"
    return text if default is EMPTY else f"{text} = ..."


def out_argument(result: str) -> str:
    return f"out: {'Tensor | None' if result == 'Tensor' else 'Any'} = ..."


def sized(name: str, type_: str) -> list[str]:
    """The parameters of `*size`, which may be one argument by its name, too."""
    return [f"*_{name}: {type_}", f"{name}: {type_} = ..."]


def row_parameters(row: Row, form: str) -> list[str]:
    """The parameters of a row's function, typed."""
    parameters: list[str] = []
    for i, x in enumerate(row.inputs):
        is_written = form == "inplace" and i == 0
        takes_numbers = row.broadcast and x.name not in row.tensors and not is_written
        type_ = "Sequence[Tensor]" if x.listed else "_Operand" if takes_numbers else "Tensor"
        type_ = IN_FUNCTIONS.get(f"{row.name}.{x.public}", type_)
        parameters.append(
            f"{x.public}: {type_} | None = ..." if x.optional else f"{x.public}: {type_}"
        )
    spellings = numpy_names(row)
    keywords: list[str] = []
    for a in row.attributes:
        if is_sized(row, form, a):
            parameters += sized(a.name, "_Dims")
            continue
        default = None if a.name in spellings and a.default is EMPTY else a.default
        text = argument(row.name, a.name, default)
        has_star = any(p.startswith("*") for p in parameters)
        (keywords if a.keyword_only or has_star else parameters).append(text)
    keywords += [argument(row.name, k, default) for k, default in row.rare_defaults.items()]
    for name, other in spellings.items():
        keywords.append(f"{other}: {argument_type(row.name, name, None)} = ...")
    if form == "function" and takes_out(row):
        keywords.append(out_argument(result_type(row)))
    if keywords and not any(p.startswith("*") for p in parameters):
        parameters.append("*")
    return parameters + keywords


def composite_parameters(composite: Composite, form: str) -> list[str]:
    """The parameters of a composite's function, typed."""
    parameters: list[str] = []
    for p in signature(getattr(table, composite.name)).parameters.values():
        if p.name == "out" and form != "function" and p.kind is p.KEYWORD_ONLY:
            continue
        stars = "*" * ((p.kind is p.VAR_POSITIONAL) + 2 * (p.kind is p.VAR_KEYWORD))
        if p.kind is p.KEYWORD_ONLY and not any(s.startswith("*") for s in parameters):
            parameters.append("*")
        if p.name == "out":
            parameters.append(out_argument(result_type(composite)))
        elif p.name in SIZES and stars == "*":
            parameters += sized(p.name, argument_type(composite.name, p.name, EMPTY))
        elif p.name in ("tensors", "matrices") and stars:
            parameters.append(f"*{p.name}: Tensor | Sequence[Tensor]")
        else:
            parameters.append(stars + argument(composite.name, p.name, p.default))
    return parameters


def definition(name: str, parameters: list[str], returns: str, depth: int) -> str:
    if depth:
        parameters = ["self", *parameters[1:]]
        if parameters[1:2] == ["/"]:
            del parameters[1]
    indent = "    " * depth
    line = f"{indent}def {name}({', '.join(parameters)}) -> {returns}: ..."
    if len(line) <= WIDTH:
        return line
    inner = f"{indent}    {', '.join(parameters)}"
    if len(inner) > WIDTH:
        inner = "\n".join(f"{indent}    {p}," for p in parameters)
    return f"{indent}def {name}(\n{inner}\n{indent}) -> {returns}: ..."


def overloads(name: str, forms: list[tuple[str, str]], takes_out: bool, depth: int) -> str:
    """The definitions of a function whose result depends on the arguments."""
    lines = []
    for text, returns in forms:
        parameters = [p for p in split_parameters(text) if p]
        if takes_out:
            parameters += ([] if any(p.startswith("*") for p in parameters) else ["*"]) + [
                out_argument(returns)
            ]
        lines.append(f"{'    ' * depth}@overload")
        lines.append(definition(name, parameters, returns, depth))
    return "\n".join(lines)


def split_parameters(text: str) -> list[str]:
    """The parameters of a signature's text: split at the commas outside of brackets."""
    parts, level = [""], 0
    for c in text:
        level += (c in "[(") - (c in "])")
        if c == "," and not level:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts]


def definitions(name: str, declared: Row | Composite, form: str) -> str:
    """The function of a row or composite under a name, as a function or a method."""
    depth = int(form == "method")
    if declared.name in OVERLOADS and isinstance(declared, Composite):
        has_out = (
            form == "function" and "out" in signature(getattr(table, declared.name)).parameters
        )
        return overloads(name, OVERLOADS[declared.name], has_out, depth)
    make: Any = row_parameters if isinstance(declared, Row) else composite_parameters
    return definition(name, make(declared, form), result_type(declared), depth)


def public_functions(form: str) -> list[str]:
    """The definitions of all public functions, or methods."""
    entries: list[tuple[str, str]] = []
    in_place = "Self" if form == "method" else "Tensor"
    depth = int(form == "method")
    for name, row in ROWS.items():
        if not (row.method if form == "method" else row.function):
            continue
        for public in (name, *row.aliases):
            entries.append((public, definitions(public, row, form)))
            if row.inplace:
                parameters = row_parameters(row, "inplace")
                text = definition(f"{public}_", parameters, in_place, depth)
                entries.append((f"{public}_", text))
    for name, composite in COMPOSITES.items():
        if not (composite.method if form == "method" else composite.function):
            continue
        for public in (name, *composite.aliases):
            entries.append((public, definitions(public, composite, form)))
            if composite.inplace and form == "method":
                parameters = composite_parameters(composite, "method")
                text = definition(f"{public}_", parameters, in_place, depth)
                entries.append((f"{public}_", text))
    return [text for _, text in sorted(entries)]


def functions_text() -> str:
    return file_text([head("."), *public_functions("function")])


def head(root: str) -> str:
    """The imports and names of types of a stub whose package is `root`, as dots."""
    return HEAD + IMPORTS.format(root=root) + ALIASES


def file_text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def methods_text() -> str:
    lines = [
        head("..."),
        "from ...native import TensorBase",
        "from ...sparse import SparseCompressedTensor, SparseTensor\n",
        "class Methods(TensorBase):",
    ]
    lines += public_functions("method")
    lines.append("    def where(self, condition: Tensor, other: _Operand) -> Tensor: ...")
    table: dict[str, Row | Composite] = {**ROWS, **COMPOSITES}
    for declared in table.values():
        if declared.operator:
            lines += operator_lines(declared)
    lines += ["    def __getitem__(self, index: _Index) -> Tensor: ...", SPARSE_METHODS]
    return file_text(lines)


def operator_lines(declared: Row | Composite) -> list[str]:
    """The forms of an operator."""
    name = declared.operator
    if not isinstance(declared, Row) or len(declared.inputs) == 1:
        return [f"    def __{name}__(self) -> Tensor: ..."]
    if f"__{name}__" in ("__eq__", "__ne__"):  # object has them, too
        return [f"    def __{name}__(self, other: Any) -> Tensor: ...  # type: ignore[override]"]
    other = "_Operand" if declared.broadcast else "Tensor"
    lines = [f"    def __{name}__(self, other: {other}) -> Tensor: ..."]
    if not declared.comparison:
        lines.append(f"    def __r{name}__(self, other: {other}) -> Tensor: ...")
        if declared.inplace:
            lines.append(f"    def __i{name}__(self, other: {other}) -> Self: ...")
    return lines


def return_types_text() -> str:
    """The classes of results with names."""
    lines = [HEAD, "from typing import NamedTuple\n", "from .tensor import Tensor"]
    for name, fields in sorted(NAMED.items()):
        lines += ["", f"class {name}(NamedTuple):", *(f"    {f}: Tensor" for f in fields)]
    return file_text(lines)


def facade_text(module: Any) -> str:
    """A module whose functions are the table's, such as `shmtensor.linalg`."""
    lines = [head("."), f"__all__ = {module.__all__!r}\n"]
    for name in module.__all__:
        value = getattr(module, name)
        if isinstance(value, type):
            lines.append(f"from .{value.__module__.rpartition('.')[2]} import {name} as {name}")
        else:
            lines.append(definitions(name, declared_as(value.__name__), "function"))
    return file_text(lines)


def declared_as(name: str) -> Row | Composite:
    return ROWS[name] if name in ROWS else COMPOSITES[name]


def functional_text() -> str:
    """The functions of the table that `nn.functional` alone makes public."""
    lines = [head("..."), "from ...functions import *"]
    everything: dict[str, Row | Composite] = {**ROWS, **COMPOSITES}
    for name, declared in sorted(everything.items()):
        is_namespaced = name.partition("_")[0] in LATER
        if not (name.startswith("_") or declared.function or declared.method or is_namespaced):
            lines.append(definitions(name, declared, "function"))
    private = [name for name in everything if name.startswith("_")]
    lines += [f"{name}: Any" for name in sorted(private)]
    return file_text(lines)


def lazy_text(package: Any) -> str:
    """The names that `shmtensor` imports at first use, and the methods that are functions, too."""
    lines = [HEAD]
    for name, (module, member) in sorted(package._LATER.items()):
        if member is None:
            lines.append(f"from . import {module} as {name}")
        else:
            lines.append(f"from .{module} import {member} as {name}")
    lines.append("from .tensor import Tensor\n")
    lines += [f"{name} = Tensor.{name}" for name in sorted(package._METHODS.split())]
    return file_text(lines)


def array_api_text(module: Any) -> str:
    """The names of the array API that are functions under PyTorch's other name, or in its files."""
    lines = [HEAD, "from .. import functions"]
    for part in module.MODULES:
        lines.append(f"from .{part.__name__.rpartition('.')[2]} import *")
    lines += [f"from ..dtypes import {name} as {name}" for name in module.info.DTYPES]
    lines.append("")
    for name, pytorch_name in module.PYTORCH_NAMES.items():
        lines.append(f"{name} = functions.{pytorch_name}")
    return file_text(lines)


def refused_text(module: str) -> str:
    """The names of a module of `refused_names`."""
    lines = [HEAD, "from typing import Any\n"]
    for name in names_of(module):
        if is_class(name):
            lines.append(f"class {name}:\n    def __init__(self, *_: Any, **__: Any) -> None: ...")
        else:
            result = "bool" if is_question(name) else "Any"
            lines.append(f"def {name}(*_: Any, **__: Any) -> {result}: ...")
    return file_text(lines + ["tqdm: Any"] * (module == "hub"))


def texts() -> dict[str, str]:
    """The texts of the files, by their paths in the package."""
    load()
    package = sys.modules["shmtensor"]  # whose names above this layer are written, too
    facades = {name: getattr(package, name) for name in FACADES}
    return {
        "_lazy_names.pyi": lazy_text(package),
        "array_api/_names.pyi": array_api_text(package.array_api),
        "_return_types.pyi": return_types_text(),
        "functions.pyi": functions_text(),
        "autograd/dispatch/tensor_methods.pyi": methods_text(),
        "nn/functional/from_table.pyi": functional_text(),
        **{f"{name}.pyi": facade_text(module) for name, module in facades.items()},
        **{f"{name.replace('.', '/')}.pyi": refused_text(name) for name in MODULES},
    }


def write(package: Path) -> None:
    for name, text in texts().items():
        path = package / name
        if not path.exists() or path.read_text() != text:  # a newer file would cause another build
            path.write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2])
