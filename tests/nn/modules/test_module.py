"""Module: attributes that register themselves, casting, printing, pickling."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2, bias=False)
        self.scale = nn.Parameter(st.ones(1))
        self.register_buffer("steps", st.zeros(1, dtype=st.int64))
        self.register_buffer("cache", st.zeros(2), persistent=False)

    def forward(self, x):
        return self.second(self.first(x).relu()) * self.scale


def test_attributes_register_themselves() -> None:
    model = Model()
    assert [n for n, _ in model.named_parameters()] == [
        "scale",
        "first.weight",
        "first.bias",
        "second.weight",
    ]
    assert [n for n, _ in model.named_buffers()] == ["steps", "cache"]
    assert [n for n, _ in model.named_modules()] == ["", "first", "second"]
    model.extra = nn.Buffer(st.ones(1), persistent=False)
    assert "extra" in model._non_persistent_buffers_set
    del model.scale
    assert not hasattr(model, "scale")


def test_another_type_under_the_same_name_replaces_all_but_a_parameter() -> None:
    model = Model()
    model.first = nn.Parameter(st.ones(2))
    assert "first" in dict(model.named_parameters())
    assert "first" not in model._modules
    with pytest.raises(TypeError, match="as parameter 'first'"):
        model.first = nn.Identity()
    del model.first
    model.first = nn.Identity()
    assert "first" in model._modules
    assert "first" not in model._parameters


def test_wrong_assignments_say_what_was_expected() -> None:
    model = Model()
    with pytest.raises(TypeError, match="cannot assign 'int' as parameter 'scale'"):
        model.scale = 3
    with pytest.raises(TypeError, match="as child module 'first'"):
        model.first = 3
    with pytest.raises(TypeError, match="as buffer 'steps'"):
        model.steps = 3
    with pytest.raises(KeyError, match="already exists"):
        model.register_buffer("first", st.ones(1))
    with pytest.raises(KeyError, match="contain"):
        model.add_module("a.b", nn.Identity())
    with pytest.raises(ValueError, match="non-leaf"):
        w = nn.Parameter(st.ones(2))
        object.__setattr__(w, "node", (w * 2).node)
        model.register_parameter("w", w)
    with pytest.raises(AttributeError, match="has no attribute 'nowhere'"):
        model.nowhere  # noqa: B018


def test_assigning_before_init_is_refused() -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Identity()

    with pytest.raises(
        AttributeError, match=r"Early: .*before Module.__init__\(\) call, .*super\(\)"
    ):
        Early()


def test_module_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match='missing the required "forward"'):
        nn.Module()(1)


def test_train_eval_apply_and_requires_grad() -> None:
    model = Model()
    model.eval()
    assert not any(m.training for m in model.modules())
    model.train()
    assert all(m.training for m in model.modules())
    names = []
    assert model.apply(lambda m: names.append(type(m).__name__)) is model
    assert names == ["Linear", "Linear", "Model"]
    model.requires_grad_(False)
    assert not any(p.requires_grad for p in model.parameters())
    with pytest.raises(ValueError, match="boolean"):
        model.train("yes")


def test_to_casts_floats_and_gradients_only() -> None:
    model = Model()
    x = st.ones(5, 3)
    model(x).sum().backward()
    before = model.first.weight
    assert model.double() is model
    assert model.first.weight is before
    assert all(p.dtype == st.float64 and p.grad.dtype == st.float64 for p in model.parameters())
    assert model.steps.dtype == st.int64
    model.to(st.float32)
    assert model.cache.dtype == st.float32
    model.half().float()
    assert model(x).dtype == st.float32
    with pytest.raises(TypeError, match="only accepts floating point"):
        model.to(st.int64)


def test_zero_grad_forgets_or_fills() -> None:
    model = Model()
    model(st.ones(1, 3)).sum().backward()
    model.zero_grad(set_to_none=False)
    assert all((p.grad.numpy() == 0).all() for p in model.parameters())
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())


def test_repr_is_pytorchs() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.ModuleList([nn.Dropout(0.1)]))
    assert repr(model) == (
        "Sequential(\n"
        "  (0): Linear(in_features=3, out_features=4, bias=True)\n"
        "  (1): ReLU()\n"
        "  (2): ModuleList(\n"
        "    (0): Dropout(p=0.1, inplace=False)\n"
        "  )\n"
        ")"
    )
    assert repr(nn.Identity()) == "Identity()"


@pytest.mark.parametrize("method", ["deepcopy", "pickle"])
def test_copies_are_equal_and_independent(method: str) -> None:
    model = Model()
    x = st.ones(2, 3)
    copied = copy.deepcopy(model) if method == "deepcopy" else pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(model(x).detach().numpy(), copied(x).detach().numpy())
    with st.no_grad():
        copied.scale.mul_(2)
    assert model.scale.item() == 1
    assert isinstance(copied.scale, nn.Parameter)


def test_old_pickles_get_their_tables() -> None:
    model = nn.Linear(2, 2)
    state = {k: v for k, v in model.__dict__.items() if "hooks" not in k}
    fresh = nn.Linear.__new__(nn.Linear)
    fresh.__setstate__(state)
    assert fresh(st.ones(1, 2)).shape == (1, 2)


def test_share_memory_keeps_the_parameters() -> None:
    model = Model()
    before = list(model.parameters())
    model.share_memory()
    assert all(p is q and p.is_shared() for p, q in zip(model.parameters(), before, strict=True))


def test_arguments_reach_the_next_class_that_asks_for_them() -> None:
    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

    class Layer(nn.Module, Named):
        call_super_init = True

    assert Layer("a").name == "a"
    with pytest.raises(TypeError, match="unexpected arguments"):
        nn.Identity.__mro__[1]("a")


def test_buffers_are_registered_by_the_modules_method() -> None:
    class Layer(nn.Module):
        def register_buffer(self, name, tensor):
            super().register_buffer(name, tensor * 2)

    layer = Layer()
    layer.a = nn.Buffer(st.ones(1))
    assert layer.a.item() == 2
    with pytest.raises(RuntimeError, match="no argument persistent"):
        layer.b = nn.Buffer(st.ones(1), persistent=False)
    layer.c = 5
    with pytest.raises(KeyError, match="already exists"):
        layer.c = nn.Buffer(st.ones(1))


def test_to_refuses_unknown_arguments() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="does not accept copy"):
        layer.to("cpu", copy=True)
    for args in (("cpu", True), (st.float64, True, False, 1), (st.ones(1), 0, 0, 0)):
        with pytest.raises(TypeError, match="invalid combination"):
            layer.to(*args)
    assert layer.to(st.ones(1, dtype=st.float64), True).weight.dtype == st.float64
    before = layer.weight
    assert layer.to_empty(device="cpu").weight is before


def test_switches_of_the_conversion_of_parameters() -> None:
    future = st.__future__
    layer = nn.Linear(2, 2)
    layer.weight.grad = st.ones(2, 2)
    first = layer.weight
    future.set_overwrite_module_params_on_conversion(True)
    try:
        assert future.get_overwrite_module_params_on_conversion()
        second = layer.double().weight
        assert second is not first
        assert first.dtype == st.float32
        assert second.grad.dtype == st.float64
        future.set_swap_module_params_on_conversion(True)
        assert future.get_swap_module_params_on_conversion()
        assert layer.float().weight is second
        state = {"weight": st.ones(2, 2), "bias": st.zeros(2)}
        layer.load_state_dict(state, assign=True)
        assert layer.weight is second
        assert layer.weight.data_ptr() == state["weight"].data_ptr()
    finally:
        future.set_overwrite_module_params_on_conversion(False)
        future.set_swap_module_params_on_conversion(False)


def test_submodules_are_replaced_only_by_modules_for_modules() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    model.set_submodule("1", nn.Tanh(), strict=True)
    model.set_submodule("0.extra", nn.ReLU())
    assert isinstance(model[1], nn.Tanh)
    assert isinstance(model.get_submodule("0.extra"), nn.ReLU)
    with pytest.raises(AttributeError, match=r"`weight` is not an nn.Module"):
        model.set_submodule("0.weight", nn.ReLU())
    with pytest.raises(AttributeError, match="no attribute `9`"):
        model.set_submodule("9", nn.ReLU(), strict=True)
    with pytest.raises(ValueError, match="target"):
        model.set_submodule("", nn.Tanh())
    with pytest.raises(ValueError, match=r"`module` is not an nn.Module: int"):
        model.set_submodule("1", 3)  # type: ignore[arg-type]
    tied = nn.Sequential(model[1], model[1])
    assert len(list(tied.modules())) == 2
    assert len(list(tied.modules(remove_duplicate=False))) == 3


def test_other_devices_are_refused_and_compile_changes_nothing() -> None:
    layer = nn.Linear(2, 1)
    for name in ("ipu", "xpu", "mtia"):
        with pytest.raises(RuntimeError, match=f"'{name}'"):
            getattr(layer, name)()
    layer.compile(mode="max-autotune", disable=True)  # else it warns once
    assert layer(st.ones(1, 2)).shape == (1, 1)


def test_missing_init_call_is_an_error() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            pass

    with pytest.raises(AttributeError, match=r"cannot call Model before Module\.__init__\(\)"):
        Model()(1)
    with pytest.raises(AttributeError, match="_parameters"):
        list(Model().parameters())


def test_no_protocol_is_looked_up_in_the_tables() -> None:
    """A file fills the tables of a module that it may construct; NumPy would read the address."""
    memory = {"shape": (8,), "typestr": "<f4", "data": (4096, False), "version": 3}
    for table in ("_parameters", "_buffers", "_modules"):
        module = nn.Linear(2, 2)
        getattr(module, table)["__array_interface__"] = memory
        assert not hasattr(module, "__array_interface__")
        assert np.asarray(module).shape == ()
