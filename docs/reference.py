"""Writes the reference pages of the site from docstrings and from the library's own tables."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import shmtensor as st
from shmtensor.ops.table.constants import zero_gradient

# Page -> module.
MODULES = {
    "linalg": "shmtensor.linalg",
    "fft": "shmtensor.fft",
    "special": "shmtensor.special",
    "sparse": "shmtensor.sparse",
    "masked": "shmtensor.masked",
    "windows": "shmtensor.signal.windows",
    "autograd": "shmtensor.autograd",
    "func": "shmtensor.func",
    "nn": "shmtensor.nn",
    "nn.functional": "shmtensor.nn.functional",
    "nn.init": "shmtensor.nn.init",
    "nn.utils": "shmtensor.nn.utils",
    "nn.attention": "shmtensor.nn.attention",
    "optim": "shmtensor.optim",
    "optim.lr_scheduler": "shmtensor.optim.lr_scheduler",
    "dataloaders": "shmtensor.dataloaders",
    "dataloaders.datasets": "shmtensor.dataloaders.datasets",
    "dataloaders.transforms": "shmtensor.dataloaders.transforms",
    "multiprocessing": "shmtensor.multiprocessing",
    "queue": "shmtensor.queue",
    "shared_containers": "shmtensor.shared_containers",
    "memory": "shmtensor.memory",
    "distributed": "shmtensor.distributed",
    "trainer": "shmtensor.trainer",
    "trainer.callbacks": "shmtensor.trainer.callbacks",
    "serialization": "shmtensor.serialization",
    "amp": "shmtensor.amp",
    "cuda": "shmtensor.cuda",
    "distributions": "shmtensor.distributions",
    "viz": "shmtensor.viz",
    "profiler": "shmtensor.profiler",
    "testing": "shmtensor.testing",
    "checkpoint": "shmtensor.utils.checkpoint",
    "random": "shmtensor.random",
    "errors": "shmtensor.errors",
}
SECTION = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}$\n?", flags=re.M)


def write_reference(folder: Path) -> None:
    """Writes all pages into `folder`, those that have changed: Sphinx reads only these again."""
    folder.mkdir(exist_ok=True)
    pages = {name: module_page(module) for name, module in MODULES.items()}
    pages |= {"shmtensor": module_page("shmtensor"), "Tensor": tensor_page()}
    pages |= {"ops": ops_page(), "collectives": collectives_page()}
    pages["index"] = index_page(sorted(pages))
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    for path in folder.glob("*.md"):
        if path.stem not in pages:
            path.unlink()


def index_page(names: list[str]) -> str:
    special = ["shmtensor", "Tensor", *MODULES, "ops", "collectives"]
    assert sorted(special) == names, (special, names)
    lines = "\n".join(special)
    return f"""# API reference

Every public name with its arguments, its result, and an example. `st` is `import shmtensor as st`.

```{{toctree}}
:maxdepth: 1

{lines}
```
"""


def public(module: Any) -> dict[str, Any]:
    names = getattr(module, "__all__", None) or [n for n in vars(module) if n[:1] != "_"]
    values = {name: getattr(module, name) for name in sorted(names)}
    return {n: v for n, v in values.items() if not inspect.ismodule(v) and is_ours(v)}


def is_ours(value: Any) -> bool:
    return (getattr(value, "__module__", None) or "shmtensor").partition(".")[0] == "shmtensor"


def module_page(name: str) -> str:
    module = importlib.import_module(name)
    prefix = name.replace("shmtensor", "st", 1)
    parts = [f"# {prefix}\n\n{first_sentence(module)}\n\n```{{py:currentmodule}} {name}\n```\n"]
    for member, value in public(module).items():
        if not callable(value) or is_elsewhere(name, member, value):
            continue
        parts.append(entry(member, value))
    return "\n".join(parts)


def tensor_page() -> str:
    """The methods of Tensor that are not functions of the package, and a list of those that are."""
    methods = {n: v for n, v in inspect.getmembers(st.Tensor) if n[:1] != "_" and n[-1] != "_"}
    same = [n for n in methods if callable(getattr(st, n, None))]
    parts = [
        "# Tensor\n\n" + markdown(st.Tensor),
        "```{py:currentmodule} shmtensor\n```\n",
        "## Functions, too\n",
    ]
    parts.append(", ".join(f"{{py:obj}}`{n} <{home(getattr(st, n))}.{n}>`" for n in same) + ".\n")
    parts.append(
        "A name with an underscore behind it, as `add_`, writes its result into the tensor.\n"
    )
    parts.append("## Methods only\n")
    for name, value in methods.items():
        if name not in same and inspect.getdoc(value):
            parts.append(entry(f"Tensor.{name}", value, "method"))
    return "\n".join(parts)


def home(value: Any) -> str:
    """The module whose page has the entry of a name at the package's top."""
    for module in MODULES.values():
        if any(member is value for member in public(importlib.import_module(module)).values()):
            return module
    return "shmtensor"


def is_elsewhere(module: str, name: str, value: Any) -> bool:
    """Whether a name of the package's top has its entry on another module's page."""
    in_place = name.endswith("_") and hasattr(st.Tensor, name)
    return module == "shmtensor" and (in_place or home(value) != module)


def entry(name: str, value: Any, kind: str = "") -> str:
    kind = kind or ("class" if inspect.isclass(value) else "function")
    if not callable(value):
        kind = "attribute"
    return f"`````{{py:{kind}}} {name}{signature(value)}\n\n{markdown(value)}\n`````\n"


def signature(value: Any) -> str:
    if not callable(value):
        return ""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    plain = [
        p.replace(
            annotation=p.empty, default=Written(p.default) if p.default is not p.empty else p.empty
        )
        for p in found.parameters.values()
        if p.name != "self"
    ]
    return str(found.replace(parameters=plain, return_annotation=found.empty))


class Written:
    """A default as a program writes it: without the address that `repr` gives a function."""

    def __init__(self, value: Any) -> None:
        text = repr(value)
        self.text = getattr(value, "__name__", "...") if text.startswith("<") else text

    def __repr__(self) -> str:
        return self.text


def first_sentence(value: Any) -> str:
    return (inspect.getdoc(value) or "").partition("\n\n")[0]


def markdown(value: Any) -> str:
    """A docstring in Markdown: NumPy's sections become definition lists and code."""
    text = inspect.getdoc(value) or ""
    opening, *parts = SECTION.split(text)
    lines = [escape(opening)]
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        lines += ["", f"**{title}**", "", SECTIONS.get(title, escape)(body.strip("\n"))]
    return "\n".join(lines)


def definitions(body: str) -> str:
    """`name : type` and its indented text, as a definition list."""
    items: list[tuple[str, list[str]]] = []
    for line in body.splitlines():
        if line[:1].strip():
            items.append((line, []))
        elif items:
            items[-1][1].append(line[4:])
    lines = []
    for head, texts in items:
        name, _, kind = head.partition(" : ")
        text = "\n".join(texts).strip() or "\u00a0"
        lines += [
            f"`{name}`" + (f" : {kind}" if kind else ""),
            ": " + text.replace("\n", "\n  "),
            "",
        ]
    return "\n".join(lines)


def results(body: str) -> str:
    """As `definitions`; a plain sentence stays one."""
    return definitions(body) if re.search(r"^ {4}", body, flags=re.M) else escape(body)


def escape(text: str) -> str:
    """Plain text of a docstring as Markdown: examples and indented formulas become code."""
    parts: list[tuple[str, list[str]]] = []  # language, paragraphs
    for fenced in re.split(r"(^ *```.*?^ *```$)", text.strip("\n"), flags=re.M | re.S):
        for paragraph in [fenced] if "```" in fenced else re.split(r"\n[ \t]*\n", fenced):
            language = "" if "```" in paragraph else language_of(paragraph.strip("\n"))
            if not (language and parts and parts[-1][0] == language):
                parts.append((language, []))
            parts[-1][1].append(paragraph.strip("\n"))
    return "\n\n".join(
        f"```{language}\n{inspect.cleandoc(body)}\n```" if language else body
        for language, body in ((name, "\n\n".join(bodies)) for name, bodies in parts)
    )


def language_of(paragraph: str) -> str:
    if paragraph.lstrip().startswith(">>> "):
        return "pycon"
    return "text" if paragraph.startswith("    ") else ""


def see_also(body: str) -> str:
    names = [n for n in re.split(r"[,\s]+", re.sub(r" :.*", "", body)) if n]
    return ", ".join(f"{{py:obj}}`{n}`" for n in names)


SECTIONS: dict[str, Callable[[str], str]] = {
    "Parameters": definitions,
    "Attributes": definitions,
    "Raises": definitions,
    "Returns": results,
    "Yields": results,
    "See Also": see_also,
}


def rows() -> Iterator[Any]:
    from shmtensor.ops import ROWS

    return iter(sorted(ROWS.values(), key=lambda row: row.name))


def ops_page() -> str:
    """The table of ops: what each promises."""
    lines = [
        "# Table of ops\n",
        "Each op is one row of a table.\n",
        "| op | inputs | gradient | in place | complex |",
        "|---|---|---|---|---|",
    ]
    for row in rows():
        if row.name.startswith("_"):
            continue
        is_zero = {p.function for p in row.pullbacks.values()} == {zero_gradient}
        gradient = "zero" if is_zero else "of any order" if row.pullbacks else "none"
        lines.append(
            f"| `{row.name}` | {', '.join(x.name for x in row.inputs)} | {gradient} | "
            f"{'yes' if hasattr(st.Tensor, row.name + '_') else ''} | "
            f"{'yes' if row.complex_gradients else ''} |"
        )
    return "\n".join(lines) + "\n"


def collectives_page() -> str:
    import shmtensor.distributed as dist

    names = [
        n
        for n in public(dist)
        if re.match(
            r"(all_|broadcast|reduce|gather|scatter|barrier|send|recv|isend|irecv|batch_)", n
        )
    ]
    lines = ["# Table of collectives\n", "| function | what it does |", "|---|---|"]
    for name in names:
        text = first_sentence(getattr(dist, name)).replace("\n", " ")
        lines.append(f"| {{py:obj}}`{name} <shmtensor.distributed.{name}>` | {text} |")
    return "\n".join(lines) + "\n"
