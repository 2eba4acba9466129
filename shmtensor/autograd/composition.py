"""The text of a composite's public function: who takes it over, its short way, `out=`, and which
argument an error means.
"""

from __future__ import annotations

import inspect
from typing import Any

from ..ops.table import Composite
from .explain import guarded, mistaken
from .into import composite_receives, put
from .overriding import taken_over

__all__ = ["written"]


def written(made: Composite, shared: dict[str, Any], on_tensors: bool) -> str:
    """`def f(input, dim): return _compute(_ops, input, dim)`; what it names is put into `shared`.

    Args:
        on_tensors: not on plain arrays, whose callers are pullbacks and know what they give.
    """
    shared |= {"_compute": made.compute, "_put": put, "_mistaken": mistaken}
    parameters = list(inspect.signature(made.compute).parameters.values())[1:]
    shown: list[str] = []
    passed: list[str] = []
    for p in parameters:
        default = ""
        if p.default is not p.empty:
            shared[f"_d_{p.name}"] = p.default
            default = f"=_d_{p.name}"
        stars = "*" * ((p.kind is p.VAR_POSITIONAL) + 2 * (p.kind is p.VAR_KEYWORD))
        if p.kind is p.KEYWORD_ONLY and not any(s.startswith("*") for s in shown):
            shown.append("*")
        shown.append(stars + p.name + default)
        name = f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else stars + p.name
        passed.append(name)
    call = f"_compute({', '.join(['_ops', *passed])})"
    text = usual_way(made, shared)
    if composite_receives(made):
        if text:
            text = text.replace("    if ", "    if out is None and ", 1)
        at = next((i for i, s in enumerate(shown) if s.startswith("**")), len(shown))
        shown[at:at] = ["out=None"] if any(s.startswith("*") for s in shown) else ["*", "out=None"]
        text += f"    if out is not None:\n        return _put(out, {made.name!r}, {call})\n"
    text += f"    return {call}\n"
    if on_tensors:
        text = taken_over(parameters, shared) + text
        text = guarded(made.name, [p.name for p in parameters], text)
    return f"def {made.name}({', '.join(shown)}):\n{text}"


def usual_way(made: Composite, shared: dict[str, Any]) -> str:
    """The lines of a composite's short way, if it has one."""
    if made.usual is None:
        return ""
    function, arguments, condition = made.usual
    shared["_usual"] = function
    called = f"_ops.{function}" if isinstance(function, str) else "_usual"
    return (
        f"    if {condition}:\n        _found = {called}({arguments})\n"
        "        if _found is not None:\n            return _found\n"
    )
