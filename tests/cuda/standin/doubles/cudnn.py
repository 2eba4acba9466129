"""A double of cuDNN's backend library, below NVIDIA's own Python frontend (`import cudnn`).

Descriptors are checked when they are set and finalized, operands when a plan is executed; the
convolution is queued on the handle's stream. `refused`, `executed` and `misuses` are for tests.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import json
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.cuda.standin.build import CUDNN_SONAME, LIBRARIES
from tests.cuda.standin.doubles.cudnn_convolution import (
    DTYPES,
    ENGINES,
    Engine,
    Operation,
    Spec,
    engines_for,
)
from tests.cuda.standin.doubles.cudnn_names import ATTRIBUTES, Attribute, Kind, Mode, Status, Type
from tests.cuda.standin.doubles.library import (
    Misuse,
    array,
    create,
    current_device,
    destroy,
    device_library,
    handle_of,
    queue,
    store,
)

VERSION = 92801
OPERATIONS = (Kind.FORWARD, Kind.BACKWARD_DATA, Kind.BACKWARD_FILTER)


class Refusal(Exception):
    """A call that the library answers with a status other than success."""

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass
class Executed:
    """A plan that was queued."""

    operation: Operation
    engine: Engine
    stream: int
    device: int


def refuses_none(operation: Operation) -> bool:
    return False


executed: list[Executed] = []
# Operations for which there is no engine; a test replaces the function.
refused: Callable[[Operation], bool] = refuses_none
misuses: list[str] = []
last_error = ""


@dataclass
class Descriptor:
    """A descriptor of the backend: its attributes by their names."""

    kind: Kind
    values: dict[str, list[Any]] = field(default_factory=dict)
    is_final: bool = False
    content: Any = None  # what finalizing made of the attributes

    def value(self, name: str) -> Any:
        return self.values[name][0]


descriptors: dict[int, Descriptor] = {}
numbers = itertools.count(0x100, 8)


def descriptor_of(number: int, kind: Kind | None = None, is_final: bool = False) -> Descriptor:
    """The descriptor of an address.

    Raises:
        Refusal: there is none, it is of another kind, or it is not finalized.
    """
    found = descriptors.get(number)
    if found is None:
        raise Refusal(Status.NULL_POINTER, f"not a descriptor: {number:#x}")
    if kind is not None and found.kind != kind:
        raise Refusal(Status.DESCRIPTOR_TYPE, f"{found.kind.name} where {kind.name} is needed")
    if is_final and not found.is_final:
        raise Refusal(Status.NOT_FINALIZED, f"{found.kind.name} is not finalized")
    return found


def attribute_of(descriptor: Descriptor, name: int, kind: int, count: int) -> Attribute:
    """What an attribute of a descriptor is.

    Raises:
        Refusal: the descriptor has none of that number, type and count.
    """
    found = ATTRIBUTES[descriptor.kind].get(name)
    if found is None:
        raise Refusal(Status.NOT_SUPPORTED, f"{descriptor.kind.name} has no attribute {name}")
    where = f"{descriptor.kind.name}.{found.name}"
    if kind not in found.types:
        raise Refusal(Status.ATTRIBUTE_TYPE, f"{where} has the type {found.types}, not {kind}")
    if not 0 <= count <= found.most:
        raise Refusal(Status.BAD_PARAM, f"{where} has at most {found.most} elements: {count}")
    return found


# ---------------------------------------------------------------- finalizing


def make_tensor(item: Descriptor) -> Spec:
    dimensions, strides = tuple(item.values["dimensions"]), tuple(item.values["strides"])
    dtype = DTYPES.get(item.value("dtype"))
    if dtype is None:
        raise Refusal(Status.NOT_SUPPORTED, f"tensors of dtype {item.value('dtype')}")
    if len(dimensions) != len(strides) or not 3 <= len(dimensions) <= 8:
        raise Refusal(Status.BAD_PARAM, f"a tensor {dimensions} with strides {strides}")
    if min(dimensions) < 1 or min(strides) < 1:
        raise Refusal(Status.BAD_PARAM, f"a tensor {dimensions} with strides {strides}")
    ordered = sorted((s, n) for n, s in zip(dimensions, strides) if n > 1)
    if any(s < inner_s * inner_n for (inner_s, inner_n), (s, _) in itertools.pairwise(ordered)):
        raise Refusal(Status.BAD_PARAM, f"overlapping elements: {dimensions}, strides {strides}")
    alignment = item.value("alignment")
    if alignment < dtype.itemsize or alignment & (alignment - 1):
        raise Refusal(Status.BAD_PARAM, f"an alignment of {alignment} bytes for {dtype}")
    for name in ("is_virtual", "is_by_value", "reordering", "vector_count"):
        if item.values.get(name, [0])[0] not in (0, 1 if name == "vector_count" else 0):
            raise Refusal(Status.NOT_SUPPORTED, f"a tensor with {name}")
    return Spec(item.value("uid"), dtype, dimensions, strides, alignment)


def make_operation(item: Descriptor) -> Operation:
    convolution = descriptor_of(item.value("convolution"), Kind.CONVOLUTION, True).values
    x, w, y = (descriptor_of(item.value(t), Kind.TENSOR, True).content for t in ("x", "w", "y"))
    if (item.value("alpha"), item.value("beta")) != (1, 0):
        raise Refusal(Status.NOT_SUPPORTED, "alpha other than 1, or beta other than 0")
    operation = Operation(
        item.kind,
        x,
        w,
        y,
        DTYPES[convolution["compute_type"][0]],
        convolution["mode"][0] == 0,
        *(
            tuple(convolution[name])
            for name in ("pre_paddings", "post_paddings", "strides", "dilations")
        ),
    )
    try:
        operation.check()
    except Misuse as error:
        raise Refusal(Status.SHAPE_MISMATCH, str(error)) from None
    if operation.compute != (np.float64 if x.dtype == np.float64 else np.float32):
        raise Refusal(Status.NOT_SUPPORTED, f"{x.dtype} computed in {operation.compute}")
    return operation


def make_graph(item: Descriptor) -> Operation:
    if handle := item.values.get("handle"):
        handle_of(handle[0])
    operations = item.values["operations"]
    if len(operations) != 1:
        raise Refusal(Status.NOT_SUPPORTED, f"graphs of {len(operations)} operations")
    operation: Operation = descriptor_of(operations[0], None, True).content
    if not isinstance(operation, Operation):
        raise Refusal(Status.DESCRIPTOR_TYPE, "the operation of a graph")
    item.values["engines"] = [len(ENGINES)]
    return operation


def make_heuristics(item: Descriptor) -> list[Descriptor]:
    """The results: finalized engine configurations."""
    graph = descriptor_of(item.value("graph"), Kind.OPERATIONGRAPH, True)
    if refused(graph.content):
        return []
    found = engines_for(graph.content, Mode(item.value("mode")))
    return [config(engine(item.value("graph"), number)) for number in found]


def engine(graph: int, number: int) -> Descriptor:
    item = Descriptor(Kind.ENGINE, {"graph": [graph], "index": [number]})
    return finalized(item)


def make_engine(item: Descriptor) -> tuple[Operation, Engine]:
    operation = descriptor_of(item.value("graph"), Kind.OPERATIONGRAPH, True).content
    index = item.value("index")
    if not 0 <= index < len(ENGINES):
        raise Refusal(Status.BAD_PARAM, f"engine {index} of {len(ENGINES)}")
    if index not in engines_for(operation, Mode.A) or refused(operation):
        raise Refusal(Status.NOT_SUPPORTED, f"engine {index} cannot compute {operation}")
    item.values["numerical_notes"] = list(map(int, ENGINES[index].notes))
    item.values["behavior_notes"] = []
    item.values["knobs"] = []
    return operation, ENGINES[index]


def config(of: Descriptor) -> Descriptor:
    return finalized(Descriptor(Kind.ENGINECFG, {"engine": [of]}))


def make_config(item: Descriptor) -> tuple[Operation, Engine]:
    content: tuple[Operation, Engine]
    engine = item.value("engine")  # the heuristics' own, or an address
    if not isinstance(engine, Descriptor):
        engine = descriptor_of(engine, Kind.ENGINE, True)
    content = engine.content
    item.values["workspace"] = [content[1].workspace]
    item.values["shared_memory"] = [0]
    item.values["intermediates"] = []
    return content


def make_plan(item: Descriptor) -> tuple[Operation, Engine, int]:
    content = descriptor_of(item.value("config"), Kind.ENGINECFG, True).content
    item.values["workspace"] = [content[1].workspace]
    if handle := item.values.get("handle"):
        handle_of(handle[0])
    return (*content, current_device())


def make_pack(item: Descriptor) -> dict[int, int]:
    uids, pointers = item.values["uids"], item.values["pointers"]
    if len(set(uids)) != len(uids) or len(uids) != len(pointers):
        raise Refusal(Status.DUPLICATED_ENTRIES, f"pointers {pointers} for {uids}")
    return dict(zip(uids, pointers))


MAKERS: dict[Kind, Callable[[Descriptor], Any]] = {
    Kind.TENSOR: make_tensor,
    **dict.fromkeys(OPERATIONS, make_operation),
    Kind.OPERATIONGRAPH: make_graph,
    Kind.ENGINEHEUR: make_heuristics,
    Kind.ENGINE: make_engine,
    Kind.ENGINECFG: make_config,
    Kind.EXECUTION_PLAN: make_plan,
    Kind.VARIANT_PACK: make_pack,
}


def finalized(item: Descriptor) -> Descriptor:
    if item.is_final:
        raise Refusal(Status.BAD_PARAM, f"{item.kind.name} is finalized already")
    for attribute in ATTRIBUTES[item.kind].values():
        if attribute.required and not item.values.get(attribute.name):
            raise Refusal(Status.BAD_PARAM, f"{item.kind.name}.{attribute.name} is not set")
    if maker := MAKERS.get(item.kind):
        item.content = maker(item)
    item.is_final = True
    return item


# ---------------------------------------------------------------- executing


def operands(operation: Operation, pack: dict[int, int], device: int) -> dict[str, Any]:
    """The tensors of an operation as arrays, checked.

    Raises:
        Refusal, Misuse: one is missing, not aligned, not in the device's memory, or overlaps the
            result.
    """
    found, ranges = {}, {}
    for name, spec in operation.tensors.items():
        pointer = pack.get(spec.uid)
        if not pointer:
            raise Refusal(Status.NULL_POINTER, f"no pointer for {name}, tensor {spec.uid}")
        if pointer % spec.alignment:
            text = f"{name} is at {pointer:#x}, and said to be aligned to {spec.alignment} bytes"
            raise Refusal(Status.MISALIGNED_POINTER, text)
        found[name] = spec.view(array(pointer, spec.dtype, spec.span, device))
        ranges[name] = range(pointer, pointer + spec.span * spec.dtype.itemsize)
    check_apart(ranges, operation.result)
    return found


def check_apart(ranges: dict[str, range], written: str) -> None:
    a = ranges[written]
    for name, b in ranges.items():
        if name != written and a.start < b.stop and b.start < a.stop:
            raise Misuse(f"{written}, which is written, and {name} share memory")


def execute(handle: int, plan: int, pack: int) -> None:
    """Queues a plan.

    Raises:
        Refusal, Misuse: what the library refuses, or leaves undefined.
    """
    operation, engine, device = descriptor_of(plan, Kind.EXECUTION_PLAN, True).content
    variant = descriptor_of(pack, Kind.VARIANT_PACK, True)
    holder = handle_of(handle)
    if holder.device != device:
        raise Misuse(f"a plan of device {device} with a handle of device {holder.device}")
    owner = device_library().standin_stream_device(holder.stream)
    if owner != device:
        raise Misuse(f"the handle's stream {holder.stream:#x} is of device {owner}, not {device}")
    pointers: dict[int, int] = variant.content
    arrays = operands(operation, pointers, device)
    scratch = np.empty(0, np.uint8)
    if engine.workspace:
        workspace = (variant.values.get("workspace") or [0])[0]
        if not workspace:
            raise Refusal(Status.NULL_POINTER, f"no workspace, of {engine.workspace} bytes")
        scratch = array(workspace, np.uint8, engine.workspace, device)
        for name, spec in operation.tensors.items():
            nbytes = spec.span * spec.dtype.itemsize
            start = pointers[spec.uid]
            used = {name: range(start, start + nbytes)}
            used["workspace"] = range(workspace, workspace + engine.workspace)
            check_apart(used, "workspace")

    # Two pieces of work, between which other streams' work is done: nobody else may write the
    # workspace.
    mark = 1 + len(executed) % 250

    def begin() -> None:
        scratch[...] = mark

    def end() -> None:
        if (scratch != mark).any():
            note("cudnnBackendExecute: the workspace was used by others before the plan had ended")
        operation.compute_into(arrays, engine)

    queue(holder.stream, begin)
    queue(holder.stream, end)
    executed.append(Executed(operation, engine, holder.stream, device))


# ---------------------------------------------------------------- C entries


def set_attribute(number: int, name: int, kind: int, count: int, elements: int) -> None:
    item = descriptor_of(number)
    attribute = attribute_of(item, name, kind, count)
    where = f"{item.kind.name}.{attribute.name}"
    if attribute.read:
        raise Refusal(Status.BAD_PARAM, f"{where} cannot be set")
    if item.is_final:
        raise Refusal(Status.BAD_PARAM, f"{where}: the descriptor is finalized")
    if count and not elements:
        raise Refusal(Status.NULL_POINTER, f"{where} is set to nothing")
    if attribute.required and not count:
        raise Refusal(Status.BAD_PARAM, f"{where} is set to no element")
    values = (Type(kind).c_type * count).from_address(elements) if count else ()
    item.values[attribute.name] = [0 if value is None else value for value in values]


def get_attribute(
    number: int, name: int, kind: int, requested: int, count: int, elements: int
) -> None:
    item = descriptor_of(number)
    attribute = attribute_of(item, name, kind, min(requested, 0))
    if not item.is_final:
        raise Refusal(Status.NOT_FINALIZED, f"{item.kind.name} is not finalized")
    if item.kind == Kind.ENGINEHEUR and attribute.name == "results":
        values: list[Any] = item.content
    else:
        values = item.values.get(attribute.name, [])
    if count:
        store(count, len(values), ctypes.c_int64)
    if not elements:
        return
    taken = values[: max(requested, 0)]
    if kind != Type.DESCRIPTOR:
        target = (Type(kind).c_type * len(taken)).from_address(elements)
        target[:] = taken
        return
    places = (ctypes.c_void_p * len(taken)).from_address(elements)
    for place, value in zip(places, taken):
        found = value if isinstance(value, Descriptor) else descriptors[value]
        target_item = descriptor_of(place or 0, found.kind)
        if target_item.is_final:
            raise Refusal(Status.BAD_PARAM, f"{found.kind.name} to be filled is finalized")
        descriptors[place] = Descriptor(found.kind, found.values, True, found.content)


def create_descriptor(kind: int, pointer: int) -> None:
    try:
        item = Descriptor(Kind(kind))
    except ValueError:
        raise Refusal(Status.NOT_SUPPORTED, f"descriptors of the kind {kind}") from None
    number = next(numbers)
    descriptors[number] = item
    store(pointer, number, ctypes.c_void_p)


def destroy_descriptor(number: int) -> None:
    descriptor_of(number)
    del descriptors[number]


def set_stream(handle: int, stream: int) -> None:
    holder = handle_of(handle)
    owner = device_library().standin_stream_device(stream)
    if owner != holder.device:
        raise Misuse(f"a stream of device {owner} for a handle of device {holder.device}")
    holder.stream = stream


def last_error_string(buffer: int, size: int) -> None:
    text = last_error.encode()[: max(size - 1, 0)] + b"\0"
    ctypes.memmove(buffer, text, len(text))


P, I, L = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
# Function, its parameters' types, and what is behind it.
ENTRIES: dict[str, tuple[tuple[Any, ...], Callable[..., None]]] = {
    "cudnnCreate": ((P,), create),
    "cudnnDestroy": ((P,), lambda handle: (handle_of(handle), destroy(handle))),
    "cudnnSetStream": ((P, P), set_stream),
    "cudnnGetStream": (
        (P, P),
        lambda handle, out: store(out, handle_of(handle).stream, ctypes.c_void_p),
    ),
    "cudnnBackendCreateDescriptor": ((I, P), create_descriptor),
    "cudnnBackendDestroyDescriptor": ((P,), destroy_descriptor),
    "cudnnBackendFinalize": ((P,), lambda number: finalized(descriptor_of(number))),
    "cudnnBackendSetAttribute": ((P, I, I, L, P), set_attribute),
    "cudnnBackendGetAttribute": ((P, I, I, L, P, P), get_attribute),
    "cudnnBackendExecute": ((P, P, P), execute),
}


def guarded(name: str, function: Callable[..., None]) -> Callable[..., int]:
    def call(*arguments: Any) -> int:
        global last_error
        try:
            function(*(0 if value is None else value for value in arguments))
        except Refusal as refusal:
            last_error = f"{name}: {refusal}"
            if refusal.status < Status.NOT_SUPPORTED:
                note(last_error)
            return refusal.status
        except Misuse as misuse:
            last_error = f"{name}: {misuse}"
            note(last_error)
            return Status.BAD_PARAM
        except Exception:
            traceback.print_exc()
            note(name)
            return Status.BAD_PARAM
        return Status.SUCCESS

    return call


def note(text: str) -> None:
    """What a library may refuse with an error, but no right program asks for."""
    print(f"stand-in device: {text}", file=sys.stderr)
    misuses.append(text)


def install() -> None:
    """Loads the shell as `libcudnn.so.9`, and fills it. At exit its functions do nothing."""
    manifest = json.loads((LIBRARIES / "functions.json").read_text())["cudnn"]
    shell = ctypes.CDLL(str(LIBRARIES / CUDNN_SONAME))
    slots = (ctypes.c_void_p * len(manifest["functions"])).in_dll(shell, "slots")
    texts = {Status.SUCCESS: "success", Status.NOT_SUPPORTED: "not supported"}
    strings = {int(s): ctypes.c_char_p(texts.get(s, s.name).encode()) for s in Status}
    unknown = ctypes.c_char_p(b"an error")

    def error_string(status: int) -> int:
        return ctypes.cast(strings.get(status, unknown), ctypes.c_void_p).value or 0

    entries: dict[str, Any] = {
        name: ctypes.CFUNCTYPE(ctypes.c_int, *types)(guarded(name, function))
        for name, (types, function) in ENTRIES.items()
    }
    size = ctypes.c_size_t
    entries["cudnnGetVersion"] = ctypes.CFUNCTYPE(size)(lambda: VERSION)
    entries["cudnnGetCudartVersion"] = ctypes.CFUNCTYPE(size)(lambda: 13000)
    entries["cudnnGetErrorString"] = ctypes.CFUNCTYPE(P, I)(error_string)
    entries["cudnnGetLastErrorString"] = ctypes.CFUNCTYPE(None, P, size)(last_error_string)
    for i, name in enumerate(manifest["functions"]):
        if entry := entries.get(name):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(entry))  # for ever: C calls it until exit
            slots[i] = ctypes.cast(entry, ctypes.c_void_p).value
    end = ctypes.cast(shell.succeed, ctypes.c_void_p).value
    atexit.register(lambda: [slots.__setitem__(i, end) for i in range(len(slots))])
