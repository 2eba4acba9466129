"""Nothing is compiled, and the first use says so."""

from __future__ import annotations

import warnings

import pytest

import shmtensor as st
from shmtensor import compiler, jit


@pytest.fixture(autouse=True)
def not_yet_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "said", set())


def test_compile_returns_the_model_and_warns_once() -> None:
    model = st.nn.Linear(2, 3)
    with pytest.warns(UserWarning, match="compile: models are not compiled, they run as they are"):
        assert st.compile(model) is model
    assert st.compile(model, mode="max-autotune", fullgraph=True, backend="inductor") is model
    model.compile()


def test_model_compile_warns_too() -> None:
    model = st.nn.Linear(2, 3)
    model.compile(disable=True)
    with pytest.warns(UserWarning, match="compile: ") as records:
        model.compile(mode="reduce-overhead")
    assert records[0].filename == __file__
    assert compiler.compile(model) is model


def test_compile_is_a_decorator() -> None:
    with pytest.warns(UserWarning, match="compile: "):

        @st.compile
        def double(x: st.Tensor) -> st.Tensor:
            return x * 2

    @st.compile(dynamic=True)
    def triple(x: st.Tensor) -> st.Tensor:
        return x * 3

    assert double(st.ones(1)).item() == 2
    assert triple(st.ones(1)).item() == 3
    compiler.said.clear()
    assert st.compile(len, disable=True) is len


def test_other_names_of_the_compiler() -> None:
    assert compiler.disable(len) is len
    assert compiler.disable(recursive=False)(len) is len
    assert compiler.allow_in_graph(len) is compiler.assume_constant_result(len) is len
    assert not compiler.is_compiling()
    assert not compiler.is_dynamo_compiling()
    assert not compiler.is_exporting()
    assert compiler.list_backends() == []
    compiler.reset()
    compiler.cudagraph_mark_step_begin()
    with compiler.set_stance("force_eager"):
        pass
    assert not compiler.said
    with pytest.warns(UserWarning, match="x: models"):
        compiler.say_once("x")


def test_jit_says_so_once_for_all_its_names() -> None:
    with pytest.warns(UserWarning, match="jit: models are not compiled, they run as they are"):
        assert jit.ignore(len) is len
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jit.script(len) is len
        assert jit.script(st.nn.ReLU) is st.nn.ReLU
        assert jit.ignore(drop=True)(len) is jit.export(len) is jit.unused(len) is len
        assert jit.script_method(len) is jit.script_if_tracing(len) is jit.interface(len) is len
        model = st.nn.Linear(2, 3)
        assert jit.script(model) is jit.trace(model, st.ones(1, 2)) is jit.freeze(model) is model
        assert jit.trace_module(model, {"forward": st.ones(1, 2)}) is model
        assert jit.optimize_for_inference(model) is model
        assert jit.wait(jit.fork(max, 1, 2)) == 2
        assert jit.fork(max, 1, 2).value() == 2
        assert isinstance(jit.fork(max, 1, 2), jit.Future)
        assert jit.fork(max, 1, 2).done()


def test_a_script_module_is_a_module() -> None:
    class Net(jit.ScriptModule):
        __constants__ = ("n",)
        n: jit.Final[int]

        def __init__(self) -> None:
            super().__init__()
            self.n = jit.annotate(int, 2)
            self.layer = st.nn.Linear(2, 2)

        def forward(self, x: st.Tensor) -> st.Tensor:
            if jit.is_scripting() or jit.is_tracing():
                raise AssertionError
            return self.layer(x) * self.n

    with pytest.warns(UserWarning, match="jit: "):
        net = Net()
    Net.forward = jit.script_method(Net.forward)  # type: ignore[method-assign]
    assert net(st.ones(1, 2)).shape == (1, 2)
    assert len(net.state_dict()) == 2
    assert not isinstance(st.nn.Linear(2, 2), jit.ScriptModule)
    assert jit.Attribute(3, int).value == 3
    with pytest.raises(TypeError, match="functions are not compiled"):
        jit.ScriptFunction()


def test_isinstance_of_generic_types() -> None:
    cases: list[tuple[object, object, bool]] = [
        ([1, 2], list[int], True),
        ([1, "a"], list[int], False),
        ({"a": 1}, dict[str, int], True),
        ({"a": 1}, dict[str, str], False),
        ((1, "a"), tuple[int, str], True),
        ((1,), tuple[int, str], False),
        ((1, 2, 3), tuple[int, ...], True),
        (None, int | None, True),
        ("a", int | None, False),
        (3, (str, int), True),
        (3, int, True),
        (None, None, True),
    ]
    for value, kind, expected in cases:
        assert jit.isinstance(value, kind) is expected, (value, kind)


def test_switches_of_jit_have_no_effect() -> None:
    with jit.optimized_execution(True), jit.fuser("fuser1"):
        assert jit.set_fusion_strategy([("STATIC", 2)]) == [("STATIC", 2)]
    jit.enable_onednn_fusion(True)
    assert not jit.onednn_fusion_enabled()
    jit.TracerWarning.ignore_lib_warnings()
    assert issubclass(jit.ScriptWarning, Warning)
    assert issubclass(jit.Error, RuntimeError)


def test_compiled_programs_are_not_there() -> None:
    for call in (jit.load, jit.save):
        with pytest.raises(NotImplementedError, match=r"jit: models .* save\(model.state_dict"):
            call("model.pt")
