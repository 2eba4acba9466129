"""The attributes that a file gives to what it constructs: no protocol that reads memory."""

from __future__ import annotations

import pickle
import types
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.dataloaders import TensorDataset
from shmtensor.serialization import safe_globals
from tests.attacks import survives
from tests.pickle_programs import attempt, number, word

HERE = __name__
PROTOCOLS = (
    "__array_interface__", "__array_struct__", "__array__", "__cuda_array_interface__",
    "__dlpack__", "__dlpack_device__", "__buffer__", "__index__", "__len__", "__torch_function__",
    "__reduce__", "__setstate__", "__class__", "__dict__", "__x__",
)  # fmt: skip
ORDERED = b"ccollections\nOrderedDict\n)R"


class Plain:
    pass


class Slotted:
    __slots__ = ("__dict__", "x")


class Restored:
    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)


class Names(dict[str, int]):
    pass


def interface() -> bytes:
    """{"shape": (8,), "typestr": "<f4", "data": (4096, False), "version": 3}"""
    return (
        b"}(" + word("shape") + b"K\x08\x85" + word("typestr") + word("<f4")
        + word("data") + number(4096) + b"\x89\x86" + word("version") + b"K\x03u"
    )  # fmt: skip


def state_of(name: str) -> bytes:
    return b"}" + word(name) + interface() + b"s"


@pytest.mark.parametrize(
    "target",
    [ORDERED, *(f"c{HERE}\n{kind}\n)\x81".encode("latin1")
                for kind in ("Plain", "Slotted", "Restored", "Names"))],
    ids=["OrderedDict", "Plain", "Slotted", "Restored", "Names"],
)  # fmt: skip
def test_no_protocol_is_set(target: bytes) -> None:
    def attack() -> None:
        for name in PROTOCOLS:
            state = state_of(name)
            for form in (state, state + b"N\x86", b"N" + state + b"\x86"):
                with safe_globals([Plain, Slotted, Restored, Names]):
                    with pytest.raises(pickle.UnpicklingError, match=r"^load: "):
                        np.asarray(attempt(target + form + b"b"))

    assert survives(attack)


@pytest.mark.parametrize(
    ("state", "match"),
    [
        (b"}" + word("keys") + b"Ns", "hides a method .*'keys'"),
        (b"N}" + word("keys") + b"Ns\x86", "the state of an OrderedDict is a tuple"),
        (b"}" + word("_as_parameter_") + b"Ns", "no plain attribute: '_as_parameter_'"),
        (b"}" + word("_") + b"Ns", "no plain attribute"),
        (b"}" + word("") + b"Ns", "no plain attribute: ''"),
        (b"}" + word("a b") + b"Ns", "no plain attribute: 'a b'"),
        (b"}" + word("\x1b[2J") + b"Ns", r"no plain attribute: '\\x1b\[2J'"),
        (b"}K\x01Ns", "no plain attribute: 1"),
        (b"]", "the state of an OrderedDict is a list"),
        (b"N", "the state of an OrderedDict is None"),
    ],
)
def test_an_ordered_dict_takes_plain_names_only(state: bytes, match: str) -> None:
    with pytest.raises(pickle.UnpicklingError, match=match):
        attempt(ORDERED + state + b"b")


def test_the_metadata_of_a_state_dict_is_set() -> None:
    state = b"}(" + word("_metadata") + ORDERED + word("epoch") + b"K\x03u"
    value = attempt(ORDERED + state + b"b")
    assert vars(value) == {"_metadata": OrderedDict(), "epoch": 3}


@pytest.mark.parametrize(
    "target",
    [
        b"}", b"]", b")", b"\x8f", b"N", b"K\x01", word("x"), b"ccollections\nCounter\n)R",
        b"ccollections\ndefaultdict\n)R", b"ccollections\ndeque\n)R", b"ctorch\nSize\n)\x85R",
        b"(\x91", b"cbuiltins\nslice\nN\x85R", b"cbuiltins\nrange\nK\x01\x85R",
        b"cshmtensor.device\nDevice\n" + word("cpu") + b"\x85R",
        b"ctorch\nfloat32\n", b"ctorch\nFloatStorage\n", b"cnumpy\nndarray\n",
        b"ctorch._utils\n_rebuild_tensor_v2\n",
    ],
)  # fmt: skip
def test_nothing_else_that_any_file_constructs_has_a_state(target: bytes) -> None:
    with pytest.raises(pickle.UnpicklingError, match="sets attributes of something"):
        attempt(target + state_of("__array_interface__") + b"b")


def test_keyword_arguments_of_a_class_name_no_protocol() -> None:
    kind = f"c{HERE}\nPlain\n)".encode() + state_of("__array_interface__") + b"\x92"
    with safe_globals([Plain]), pytest.raises(pickle.UnpicklingError, match="looks up"):
        attempt(kind)


# ------------------------------------------------------------------ what looks protocols up
def forged(kind: Any) -> Any:
    """A container whose instance says that it has memory: at address 4096, which nothing maps."""
    class_of = types.new_class(kind.__name__, (kind,))  # so that it takes attributes
    value = class_of()
    memory = {"shape": (8,), "typestr": "<f4", "data": (4096, False), "version": 3}
    value.__array_interface__ = value.__cuda_array_interface__ = memory
    value.__dlpack_device__ = lambda: (1, 0)
    value.__dlpack__ = lambda **_: pytest.fail("__dlpack__ was looked up")
    return value


USES: dict[str, Callable[[Any], Any]] = {
    "tensor": st.tensor,
    "tensor of a dtype": lambda value: st.tensor(value, dtype=st.float32),
    "tensor of a list": lambda value: st.tensor([[value]]),
    "as_tensor": st.as_tensor,
    "asarray": st.asarray,
    "new_tensor": lambda value: st.zeros(2).new_tensor(value),
    "new_tensor of a list": lambda value: st.zeros(2).new_tensor([0.0, value]),
    "Tensor": st.Tensor,
    "FloatTensor": st.FloatTensor,
    "TensorDataset": TensorDataset,
    "index": lambda value: st.zeros(8)[value],
    "index of a tuple": lambda value: st.zeros(8, 8)[0, value],
    "index of a list": lambda value: st.zeros(8)[[value]],
    "setitem": lambda value: st.zeros(8).__setitem__(0, value),
    "from_dlpack": st.from_dlpack,
    "sparse_coo_tensor": lambda value: st.sparse_coo_tensor(value, st.zeros(8)),
    "set_rng_state": st.set_rng_state,
    "cuda.set_rng_state": st.cuda.set_rng_state,
    "Generator.set_state": st.Generator().set_state,
}


@pytest.mark.parametrize("use", USES)
def test_protocols_are_not_looked_up_in_containers(use: str) -> None:
    def attack() -> None:
        for kind in (OrderedDict, dict, set, frozenset, Counter, defaultdict):
            with pytest.raises((TypeError, RuntimeError, IndexError, ValueError)):
                USES[use](forged(kind))

    assert survives(attack)


@pytest.mark.parametrize("state", [OrderedDict(), 3, None, np.zeros(16, np.uint8), bytes(16)])
def test_the_state_of_a_generator_is_a_tensor(state: Any) -> None:
    for use in (st.set_rng_state, st.cuda.set_rng_state, st.Generator().set_state):
        with pytest.raises(TypeError, match=r"set_.*state: expected a uint8 tensor, but got"):
            use(state)
    with pytest.raises(RuntimeError, match="16 bytes are needed: float32"):
        st.set_rng_state(st.zeros(16))


# ------------------------------------------------------------------ classes with `__getattr__`
class Config:
    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(name) from None


@pytest.mark.parametrize("name", ["__array_interface__", "__cuda_array_interface__", "__array__"])
@pytest.mark.parametrize("form", ["s", "d", "u", "call"])
def test_a_trusted_class_finds_no_protocol_in_a_dict_of_the_file(name: str, form: str) -> None:
    items = word(name) + interface()
    values = {
        "s": b"}" + items + b"s",
        "d": b"(" + items + b"d",
        "u": b"}(" + items + b"u",
        "call": b"ccollections\nOrderedDict\n](" + items + b"\x86e\x85R",
    }[form]
    stream = f"c{HERE}\nConfig\n)\x81".encode("latin1") + b"}" + word("values") + values + b"sb"
    with safe_globals([Config]), pytest.raises(pickle.UnpicklingError, match="a key is an attrib"):
        attempt(stream)
