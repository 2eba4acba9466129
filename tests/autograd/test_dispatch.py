"""Ops as callables: signatures, calls by name, identity, stubs that are up to date."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
import re
import sys
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import shmtensor as st
from shmtensor.autograd.dispatch import generate_stubs as stubs
from shmtensor.autograd.dispatch.op_function import RULES, fill, rule_of, table
from shmtensor.ops.table.op_table import ROWS, op


def test_every_form_of_every_row_has_a_plan() -> None:
    for name in ROWS:
        rule = rule_of(name)
        forms = (rule.public, rule.method, rule.operator, rule.reflected, rule.inplace)
        for form in (*forms, rule.on_array):
            if form is not None:
                assert form.kernel is not None or fill(form) is None, name
                assert form.kernel is rule.kernel, name
                assert inspect.signature(form), name
        if rule.row.pullbacks:
            assert rule.arrays.event == rule.tensors.event, name


def test_forms_say_which_they_are() -> None:
    rule = rule_of("add")
    for name in ("function", "method", "operator", "reflected", "inplace", "array"):
        assert rule.form(name).form in (name, "function")  # a method may be the function itself
    assert rule.inplace.form == "inplace"


def test_names_that_the_core_does_not_know_are_errors() -> None:
    new, rule = st.native.OpFunction, rule_of("add")
    with pytest.raises(ValueError, match="OpFunction: no such name: 'reversed'"):
        new(rule, "add", "add", "", "reversed", 0, {}, None)
    with pytest.raises(ValueError, match=r"Composite: no such flag among: \{'takes_in': True\}"):
        st.native.Composite("f", "", len, None, 0, {}, {"takes_in": True})
    with pytest.raises(ValueError, match="Gradients: no such name: 'inputs'"):
        st.native.Gradients("f", (), (("inputs", 0, 0),), (), 1, -1, 0, {}, None, None, None)


def test_functions_keep_their_identity() -> None:
    before = st.exp
    st.exp(st.ones(1))
    assert st.exp is before is RULES["exp"].public
    assert list(inspect.signature(st.exp).parameters) == ["input", "out"]


@pytest.mark.parametrize(
    ("function", "doc"),
    [
        (st.add, "The sum of two tensors, element by element."),
        (st.Tensor.add, "The sum of two tensors, element by element."),
        (st.addmm, "A product of two matrices added to a third."),
    ],
    ids=["row", "method", "composite"],
)
def test_the_doc_of_a_function_is_its_own(function: Any, doc: str) -> None:
    assert function.__doc__.startswith(doc)
    assert inspect.getdoc(function).startswith(doc)
    assert doc in pydoc.render_doc(function)


def test_arguments_by_name() -> None:
    x = st.ones(2, 3)
    assert st.sum(input=x, dim=1, keepdim=True).shape == (2, 1)
    assert x.sum(axis=0, keepdims=True).shape == (1, 3)
    assert st.add(x, other=2, alpha=3)[0, 0].item() == 7
    assert x.reshape(3, 2).shape == x.reshape((3, 2)).shape == x.reshape([3, -1]).shape == (3, 2)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'dim'"):
        x.unsqueeze()


def test_calls_by_name_that_the_parser_does_not_know() -> None:
    x = st.ones(2, 3)
    split = "".join(["di", "m"])  # is not interned
    assert x.sum(**{split: 1}).shape == (2,)
    assert x.reshape(shape=(3, 2)).shape == (3, 2)
    assert st.max(input=x, **{split: 0}).values.shape == (3,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: st.exp(), r"exp\(\) missing 1 required positional argument: 'input'"),
        (lambda x: st.add(x), r"add\(\) missing 1 required positional argument: 'other'"),
        (lambda x: st.exp(x, x), r"exp\(\) takes 1 positional argument but 2 were given"),
        (lambda x: x.exp(wrong=1), r"exp\(\) got an unexpected keyword argument 'wrong'"),
        (lambda x: st.sum(x, 0, dim=1), r"sum\(\) got multiple values for argument 'dim'"),
        (lambda x: st.sum(x, dim=0, axis=1), r"sum\(\) got multiple values for argument 'dim'"),
        (lambda x: st.prod(), r"prod\(\) missing 1 required positional argument: 'input'"),
        (lambda x: st.prod(x, 0, True, 3), r"prod\(\) takes 3 positional arguments but 4"),
        (lambda x: st.prod(x, wrong=1), r"prod\(\) got an unexpected keyword argument 'wrong'"),
    ],
)
def test_wrong_calls_are_refused_as_python_does(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call(st.ones(2, 3))


def test_rare_arguments_in_every_form() -> None:
    x, y = st.full((3,), 2.0), st.ones(3)
    out = st.empty(3)
    assert st.add(x, y, alpha=3, out=out) is out
    assert out.tolist() == st.add(x, y, alpha=3).tolist() == x.add(y, alpha=3).tolist() == [5, 5, 5]
    assert x.clone().sub_(y, alpha=3).tolist() == [-1, -1, -1]
    assert x.clone().div_(y * 4, rounding_mode="floor").tolist() == [0, 0, 0]
    assert st.add(x, y, **{"".join(["al", "pha"]): 3}).tolist() == [5, 5, 5]


def test_a_pullback_with_an_unknown_argument() -> None:
    from shmtensor.ops.table import op_table as module

    @op(method=False, function=False, name="only_here")
    def only_here(xp, x, /):  # type: ignore[no-untyped-def]
        """x."""
        return x

    try:
        with pytest.raises(TypeError, match=r"x has parameters unknown to the op: \['z'\]"):
            only_here.pullback(x=lambda g, z: g)
        with pytest.raises(TypeError, match="no such input: 'q'"):
            only_here.pullback(q=lambda g: g)
        with pytest.raises(TypeError, match="declared twice"):
            op(name="only_here")(only_here.forward)
    finally:
        del module.ROWS["only_here"]


def test_unknown_ops_are_named() -> None:
    with pytest.raises(AttributeError, match="there is no op 'nonsense'"):
        _ = table.nonsense


def test_stubs_have_the_functions_and_the_methods() -> None:
    texts = stubs.texts()
    functions, methods = texts["functions.pyi"], texts["autograd/dispatch/tensor_methods.pyi"]
    assert "def exp(input: Tensor, *, out: Tensor | None = ...) -> Tensor: ..." in functions
    assert (
        "def equal(input: Tensor, other: Tensor, *, out: Any = ...) -> builtins.bool" in functions
    )
    assert "    def exp(self) -> Tensor: ..." in methods
    assert "    def __radd__(self, other: _Operand) -> Tensor: ..." in methods
    for text in texts.values():
        compile(text, "stub", "exec")


def test_the_build_wrote_the_stubs() -> None:
    package = Path(st.__file__).parent
    for name, text in stubs.texts().items():
        assert (package / name).read_text() == text, name


PICKLED = "exp add max where zeros nn.functional.cross_entropy nn.functional.linear special.i1e"
PICKLED += " linalg.cholesky fft.fft masked.softmax nn.functional.avg_pool2d"


@pytest.mark.parametrize("name", PICKLED.split())
def test_public_functions_are_pickled_by_name(name: str) -> None:
    function = attrgetter(name)(st)
    assert pickle.loads(pickle.dumps(function)) is function
    assert copy.deepcopy(function) is function
    assert copy.copy(function) is function


def test_functions_describe_themselves() -> None:
    assert st.exp.__name__ == "exp"
    assert st.exp.__module__ == "shmtensor"
    assert inspect.isroutine(st.exp)
    assert list(inspect.signature(st.add).parameters) == ["input", "other", "alpha", "out"]
    assert list(inspect.signature(st.Tensor.reshape).parameters) == ["input", "shape"]
    assert [*inspect.signature(st.prod).parameters][1:] == ["dim", "keepdim", "dtype", "out"]
    assert (st.Tensor.add_.__name__, repr(st.exp)) == ("add_", "<function exp>")
    assert st.Tensor.exp is st.exp


def test_attributes_may_be_hung_on_functions() -> None:
    st.exp.noted = 1  # type: ignore[attr-defined]
    assert st.exp.noted == 1  # type: ignore[attr-defined]
    del st.exp.noted  # type: ignore[attr-defined]


def test_the_files_of_a_call_are_those_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "design" / "ops.md").read_text()
    section = page.partition("## A call, step by step")[2].partition("\n## ")[0]
    named = {name.rpartition("/")[2] for name in re.findall(r"`([\w/]+\.py)`", section)}
    x, y = (st.ones(4, requires_grad=True) for _ in range(2))
    package = str(Path(st.__file__).parent)
    files = set()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(package):
            files.add(Path(frame.f_code.co_filename).name)

    former = sys.getprofile()
    for profile in (former, note):  # the first call makes the plans
        x.grad = y.grad = None
        sys.setprofile(profile)
        try:
            (x * y).sum().backward()
        finally:
            sys.setprofile(former)
    assert {"backward.py", "arithmetic.py"} <= files
    assert files <= named
