"""Generated functions: natural signatures, readable tracebacks, stubs that are up to date."""

from __future__ import annotations

import inspect
import pickle
import traceback

import pytest

import shmtensor as st
from shmtensor.autograd import stubs
from shmtensor.autograd.dispatch import RULES, rule_of, table
from shmtensor.ops.table import ROWS, op


@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_form_of_every_row_compiles(name: str) -> None:
    rule = rule_of(name)
    forms = ["function", "method", "operator", "array"]
    forms += ["reflected"] if rule.reflected is not None else []
    forms += ["inplace"] if rule.inplace is not None else []
    forms += ["arrays", "tensors"] if rule.row.pullbacks else []
    for form in forms:
        assert callable(rule.compiled(name, form))


def test_functions_keep_their_identity() -> None:
    before = st.exp
    st.exp(st.ones(1))
    assert st.exp is before is RULES["exp"].public
    assert list(inspect.signature(st.exp).parameters) == ["input", "out"]
    assert st.exp.__doc__


def test_arguments_by_name() -> None:
    x = st.ones(2, 3)
    assert st.sum(input=x, dim=1, keepdim=True).shape == (2, 1)
    assert x.sum(axis=0, keepdims=True).shape == (1, 3)
    assert st.add(x, other=2, alpha=3)[0, 0].item() == 7
    assert x.reshape(3, 2).shape == x.reshape((3, 2)).shape == x.reshape([3, -1]).shape == (3, 2)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'dim'"):
        x.unsqueeze()


def test_a_traceback_shows_the_generated_line() -> None:
    try:
        st.ones(2).requires_grad_() + object()
    except TypeError:
        pass
    try:
        st.add(st.ones(2), object())
    except TypeError as error:
        text = "".join(traceback.format_tb(error.__traceback__))
    assert "return _sorted(_rule" in text


def test_a_pullback_that_names_what_the_op_does_not_have() -> None:
    from shmtensor.ops import table as module

    @op(method=False, function=False, name="only_here")
    def only_here(xp, x, /):  # type: ignore[no-untyped-def]
        """x."""
        return x

    try:
        with pytest.raises(TypeError, match=r"x names what the op does not have: \['z'\]"):
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


def test_stubs_are_up_to_date() -> None:
    for path, text in stubs.texts().items():
        assert path.read_text() == text, "run python -m shmtensor.autograd.stubs"


def test_public_functions_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(st.exp)) is st.exp
