"""What all functions generated from one row share: signature, operands, kernel call, what is saved.

`source.py` puts the pieces together.
"""

from __future__ import annotations

import re
from inspect import Parameter

from ..ops import precision
from ..ops.table import Input, Row
from .into import receiving

__all__ = ["EMPTY", "Writer"]

EMPTY = Parameter.empty
NUMPY_NAMES = {"dim": "axis", "dims": "axes", "keepdim": "keepdims"}


class Writer:
    """Lines of one function."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.lines: list[str] = []
        self.differentiable = [x for x in row.inputs if x.name in row.pullbacks]
        needs = {n for p in row.pullbacks.values() for n in p.needs} - {"ops", "into"}
        self.needs = sorted(n for n in needs if not self.is_gradient(n))
        self.gradients = sorted(n for n in needs if self.is_gradient(n))

    def is_gradient(self, name: str) -> bool:
        return name == "g" or (name.startswith("g_") and name[2:] in self.row.outputs)

    def add(self, depth: int, *lines: str) -> None:
        self.lines += ["    " * depth + line for line in lines]

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    # ------------------------------------------------------------ signature

    def signature(self, name: str, variant: str) -> str:
        row = self.row
        inputs = [f"{x.public}=None" if x.optional else x.public for x in row.inputs]
        if variant == "reflected":
            inputs[0], inputs[1] = inputs[1], inputs[0]
        named = {a.name for a in row.attributes}
        parameters = inputs
        keywords: list[str] = []
        operator = variant in ("operator", "reflected")
        for a in row.attributes:
            if a.kind == "sizes" and variant in ("method", "inplace") and not a.keyword_only:
                parameters.append(f"*_s_{a.name}")
                keywords.append(f"{a.name}=_missing")
                continue
            other = NUMPY_NAMES.get(a.name)
            default = "" if a.default is EMPTY else f"=_d_{a.name}"
            if a.default is EMPTY and other and a.name in self.aliased(named) and not operator:
                default = "=_missing"
            starred = any(p.startswith("*") for p in parameters)
            (keywords if a.keyword_only or starred else parameters).append(f"{a.name}{default}")
        if variant not in ("operator", "reflected"):
            keywords += [f"{k}=_d_{k}" for k in row.rarely]
            keywords += [f"{NUMPY_NAMES[n]}=_missing" for n in self.aliased(named)]
        if variant == "function" and receiving(row):
            keywords.append("out=None")
        star = ["*"] if keywords and not any(p.startswith("*") for p in parameters) else []
        return f"def {name}({', '.join([*parameters, *star, *keywords])}):"

    def aliased(self, named: set[str]) -> list[str]:
        """Attributes that may be given by NumPy's name as well."""
        if not (self.row.method or self.row.function):
            return []
        required = [a.name for a in self.row.attributes if a.default is EMPTY]
        return [
            n
            for n in NUMPY_NAMES
            if n in named and NUMPY_NAMES[n] not in named and n not in required[:-1]
        ]

    def preamble(self, variant: str, name: str) -> None:
        """Rare keywords, NumPy's argument names, sizes given one by one, indices and dtypes."""
        row = self.row
        attributes = {a.name: a for a in row.attributes}
        if variant == "function" and receiving(row):
            self.received(name)
        for a in row.attributes:
            if a.kind == "sizes" and variant in ("method", "inplace") and not a.keyword_only:
                self.add(1, f"if {a.name} is _missing:", f"    {a.name} = _s_{a.name}")
                self.add(1, f"if len({a.name}) == 1 and {a.name}[0].__class__ is not _int:")
                self.add(2, f"{a.name} = {a.name}[0]")
        if variant not in ("operator", "reflected"):
            for n in self.aliased(set(attributes)):
                self.add(1, f"if {NUMPY_NAMES[n]} is not _missing:", f"    {n} = {NUMPY_NAMES[n]}")
                if attributes[n].default is EMPTY:
                    self.add(1, f"if {n} is _missing:", f"    raise _needs({name!r}, {n!r})")
            if row.rarely:
                given = " or ".join(f"{k} is not _d_{k}" for k in row.rarely)
                passed = [x.public for x in row.inputs]
                passed += [f"{a.name}={a.name}" for a in row.attributes]
                passed += [f"{k}={k}" for k in row.rarely]
                ops = "_array_ops" if variant == "array" else "_ops"
                call = f"_diverted({ops}, {', '.join(passed)})"
                if variant == "inplace" and row.diverted_in_place:
                    call = f"_diverted_in_place({ops}, {', '.join(passed)})"
                elif variant == "inplace":
                    call = f"_stored({row.inputs[0].public}, {call})"
                self.add(1, f"if {given}:", f"    return {call}")
        for a in row.attributes:
            if a.kind == "index":
                self.add(
                    1, f"if {a.name}.__class__ is not _int and {a.name}.__class__ is not _slice:"
                )
                self.add(2, f"{a.name} = _as_index({a.name}, {row.inputs[0].public})")
            elif a.kind == "dtype":
                self.add(1, f"if {a.name} is not None:", f"    {a.name} = _as_dtype({a.name})")

    def received(self, name: str) -> None:
        """`out=`: a kernel that can writes there; else the same call without it, copied in."""
        row = self.row
        named = {a.name for a in row.attributes}
        other = [NUMPY_NAMES[n] for n in self.aliased(named)]
        given = [x.public for x in row.inputs]
        given += [f"{n}={n}" for n in [*(a.name for a in row.attributes), *row.rarely, *other]]
        self.add(1, "if out is not None:")
        if self.writes_straight():
            usual = "".join(f"{k} is _d_{k} and " for k in row.rarely)
            operands = ", ".join(x.public for x in row.inputs)
            self.add(2, f"if {usual}_straight(out, _kernel, {operands}):", "    return out")
        self.add(2, f"return _put(out, {name!r}, _rule.public({', '.join(given)}))")

    def writes_straight(self) -> bool:
        """Whether the kernel takes the inputs alone, as autocast leaves them, and the result."""
        row = self.row
        return (
            row.out
            and callable(row.numpy)
            and not row.attributes
            and len(row.outputs) == 1
            and not row.keeps
            and not precision.kind(row.name)
        )

    # ------------------------------------------------------------ operands

    def operands(self, variant: str) -> None:
        """Arrays and nodes of the inputs; `_odd` where this call is not the usual kind."""
        row = self.row
        anchor = self.anchor(variant)
        self.add(1, "_odd = False", "try:")
        ordered = sorted(row.inputs, key=lambda x: x is not anchor)
        for x in ordered:
            written = variant == "inplace" and x is row.inputs[0]
            self.operand(x, anchor, written or x in self.differentiable)
        if row.promote == "float" and anchor is not None:
            array = f"_a_{anchor.name}[0]" if anchor.listed else f"_a_{anchor.name}"
            self.add(2, f'if {array}.dtype.kind not in "fc":', "    _odd = True")
        if not row.inputs:
            self.add(2, "pass")
        self.add(1, "except (AttributeError, TypeError, IndexError):", "    _odd = True")
        inputs = self.comma(x.public for x in row.inputs)
        attributes = self.comma(a.name for a in row.attributes)
        self.add(
            1, "if _odd:", f"    return _sorted(_rule, {variant!r}, ({inputs}), ({attributes}))"
        )

    def anchor(self, variant: str) -> Input | None:
        """The input that must be a tensor and sets the dtype."""
        promoted = [x for x in self.row.inputs if x.name in self.row.promoted]
        if variant == "reflected":
            promoted = promoted[1:]
        return promoted[0] if promoted else None

    def operand(self, x: Input, anchor: Input | None, tracked: bool) -> None:
        row, name, t = self.row, x.name, x.public
        promoted = row.promote is not None and name in row.promoted
        if x.listed:
            self.add(2, f"_a_{name} = [_t._operand for _t in {t}]")
            if tracked:
                self.add(
                    2, f"_n_{name} = [_t.node if _t.base is None else _history(_t) for _t in {t}]"
                )
            if promoted:
                self.add(2, f"_d = _a_{name}[0].dtype", f"for _t in _a_{name}:")
                self.add(3, "if _t.dtype is not _d:", "    _odd = True")
            return
        depth = 2
        branch = "if"
        if x.optional:
            self.add(2, f"if {t} is None:", f"    _a_{name} = _n_{name} = None")
            branch = "elif"
        number_fits = row.broadcast and promoted and name not in row.tensors
        if number_fits and x is not anchor and anchor is not None:
            array = f"_a_{anchor.name}"
            self.add(2, f"{branch} {t}.__class__ is _float:", f"    _a_{name} = {t}")
            self.add(
                3, f"_n_{name} = None", f'if {array}.dtype.kind not in "fc":', "    _odd = True"
            )
            self.add(2, f"elif {t}.__class__ is _int:", f"    _a_{name} = {t}")
            self.add(3, f"_n_{name} = None", f'if {array}.dtype.kind == "b":', "    _odd = True")
            branch = "elif"
        if branch == "elif":
            self.add(2, "else:")
            depth = 3
        self.add(depth, f"_a_{name} = {t}._operand")
        if tracked:
            self.add(depth, f"_n_{name} = {t}.node", f"_b = {t}.base")
            self.add(depth, f"if _b is not None and _b[1] != {t}.version.count:")
            self.add(depth + 1, f"_n_{name} = _history({t})")
        if promoted and x is not anchor and anchor is not None:
            self.add(depth, f"if _a_{name}.dtype is not _a_{anchor.name}.dtype:", "    _odd = True")

    @staticmethod
    def comma(names: object) -> str:
        """The inside of a tuple display."""
        listed = list(names)  # type: ignore[call-overload]
        return ", ".join(listed) + ("," if len(listed) == 1 else "")

    # ------------------------------------------------------------ the kernel and what is kept

    def kernel_call(self, prefix: str = "_a_") -> str:
        """The kernel and its arguments, as the arguments of `_call`."""
        row = self.row
        if isinstance(row.numpy, tuple):
            text = str(row.numpy[1])
            for x in row.inputs:
                text = re.sub(rf"\b{x.name}(_a)?\b", f"{prefix}{x.name}", text)
            return f"_kernel, {text}"
        first = "_forward, _np" if row.numpy is None else "_kernel"
        return ", ".join(
            [first, *(f"{prefix}{x.name}" for x in row.inputs), *(a.name for a in row.attributes)]
        )

    def untracked(self, written: Input | None = None) -> str:
        """The condition under which no history is recorded; a written tensor's own history counts
        too.
        """
        inputs = list(self.differentiable)
        if written is not None and written not in inputs:
            inputs.append(written)
        tests = [
            f"_n_{x.name}.count(None) == len(_n_{x.name})" if x.listed else f"_n_{x.name} is None"
            for x in inputs
        ]
        return f"{' and '.join(tests)} or not _mode()"

    def edges(self) -> str:
        return (
            "("
            + self.comma(
                f"*_n_{x.name}" if x.listed else f"_n_{x.name}" for x in self.differentiable
            )
            + ")"
        )

    def saved(self, inplace: bool = False) -> list[str]:
        """What `_record` keeps, as expressions, in the order of `needs`; a listed input comes
        last.
        """
        row = self.row
        inputs = {x.name: x for x in row.inputs}
        kept, last = [], []
        for n in self.needs:
            base = n.removesuffix("_shape").removesuffix("_dtype")
            if n in inputs:
                x = inputs[n]
                if x.listed:
                    last.append(f"*{x.public}")
                    continue
                value = "_old" if inplace and x is row.inputs[0] else x.public
                kept.append(self.only_if_needed(n, value))
            elif base in inputs and n != base:
                x = inputs[base]
                what = n[len(base) + 1 :]
                if x.listed:
                    kept.append(f"[_t.{what} for _t in _a_{base}]")
                elif x.optional or row.broadcast:
                    kept.append(f"_{what}_of(_a_{base})")
                else:
                    kept.append(f"_a_{base}.{what}")
            elif n in row.outputs or n in row.keeps:
                kept.append(f"_o_{n}")
            else:
                kept.append(n)
        if row.listed:
            kept.append("[(_t.shape, _t.dtype) for _t in _o_out]")
        elif len(self.gradients) > 1:
            kept += [
                f"(_o_{self.output(n)}.shape, _o_{self.output(n)}.dtype)" for n in self.gradients
            ]
        return kept + last

    def output(self, gradient: str) -> str:
        return self.row.outputs[0] if gradient == "g" else gradient[2:]

    def only_if_needed(self, name: str, value: str) -> str:
        """An input is kept only if an input whose pullback names it has a node."""
        users = [x for x in self.differentiable if name in self.row.pullbacks[x.name].needs]
        if len(users) == len(self.differentiable) or any(x.listed for x in users):
            return value
        test = " or ".join(f"_n_{x.name} is not None" for x in users)
        return f"{value} if {test} else None"

    def unpacked(self) -> list[str]:
        """Names for what `saved` keeps, in the same order."""
        listed = [x.name for x in self.row.inputs if x.listed]
        names = [n for n in self.needs if n not in listed]
        if self.row.listed:
            names.append("_z_out")
        elif len(self.gradients) > 1:
            names += [f"_z_{n}" for n in self.gradients]
        return names + [f"*{n}" for n in self.needs if n in listed]

    def failed(self, variant: str) -> None:
        inputs = self.comma(x.public for x in self.row.inputs)
        attributes = self.comma(a.name for a in self.row.attributes)
        self.add(1, "except Exception as _error:")
        self.add(2, f"return _failed(_rule, {variant!r}, _error, ({inputs}), ({attributes}))")
