"""The double of cuDNN under NVIDIA's own frontend: values, lateness, engines, misuse."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from tests.cuda.standin.build import CUDNN_SONAME, LIBRARIES
from tests.cuda.standin.doubles import cudnn as double
from tests.cuda.standin.doubles.cudnn_names import Kind, Note, Status, Type
from tests.cuda.standin.fixtures import Misuses

ROUNDS = 40
RNG = np.random.default_rng(0)
SHAPES = {1: (2, 4, 6, 5), 2: (6, 2, 3, 2), 3: (2, 6, 3, 3)}
STRIDES, PADDING, DILATION = (2, 2), (1, 1), (1, 2)


class Program:
    """A forward convolution as the frontend builds it, on the current device.

    Attributes:
        arrays: the tensors by number: image, filters, result.
    """

    def __init__(self, cp: Any, cudnn: ModuleType, unwanted: tuple[str, ...] = ()) -> None:
        self.cp, self.cudnn = cp, cudnn
        self.handle = cudnn.create_handle()
        data = cudnn.data_type.FLOAT
        self.graph = cudnn.pygraph(
            handle=self.handle,
            io_data_type=data,
            intermediate_data_type=data,
            compute_data_type=data,
        )
        self.arrays = {
            n: cp.asarray(RNG.standard_normal(shape, np.float32)) for n, shape in SHAPES.items()
        }
        image, weight = (
            self.graph.tensor(dim=list(x.shape), stride=[s // 4 for s in x.strides], data_type=data)
            for x in (self.arrays[1], self.arrays[2])
        )
        image.set_uid(1)
        weight.set_uid(2)
        out = self.graph.conv_fprop(
            image=image,
            weight=weight,
            pre_padding=PADDING,
            post_padding=PADDING,
            stride=STRIDES,
            dilation=DILATION,
        )
        strides = [s // 4 for s in self.arrays[3].strides]
        out.set_output(True).set_dim(SHAPES[3]).set_stride(strides).set_data_type(data).set_uid(3)
        self.graph.validate()
        self.graph.build_operation_graph()
        self.graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        notes = [getattr(cudnn.numerical_note, name) for name in unwanted]
        self.graph.deselect_numeric_notes(notes)
        self.graph.check_support()
        self.graph.build_plans()
        self.workspace = cp.empty(self.graph.get_workspace_size(), np.uint8)

    def pointers(self) -> dict[int, int]:
        return {n: x.data.ptr for n, x in self.arrays.items()}

    def run(self, **changes: int) -> None:
        """Queues it; `_1=` is another address of tensor 1, `workspace=` one of the workspace."""
        pointers = self.pointers()
        workspace = changes.pop("workspace", self.workspace.data.ptr)
        pointers |= {int(name[1:]): place for name, place in changes.items()}
        self.graph.execute(pointers, workspace, handle=self.handle)

    def expected(self) -> Any:
        x, w = (st.tensor(self.arrays[n].get()) for n in (1, 2))
        return st.nn.functional.conv2d(x, w, None, STRIDES, PADDING, DILATION, 2).numpy()

    def difference(self) -> float:
        return float(abs(self.arrays[3].get() - self.expected()).max())


EXACT = ("TENSOR_CORE", "DOWN_CONVERT_INPUTS")


def test_the_frontend_s_graph_gives_the_cpu_s_values(cp: Any, cudnn: ModuleType) -> None:
    program = Program(cp, cudnn, EXACT)
    program.run()
    assert program.difference() < 1e-5
    assert double.executed[-1].engine.notes == ()


def test_engines_round_as_their_notes_say(cp: Any, cudnn: ModuleType) -> None:
    tf32 = Program(cp, cudnn, ("DOWN_CONVERT_INPUTS",))
    tf32.run()
    assert double.executed[-1].engine.notes == (Note.TENSOR_CORE,)
    assert 1e-5 < tf32.difference() < 0.02
    half = Program(cp, cudnn)
    half.run()
    assert Note.DOWN_CONVERT_INPUTS in double.executed[-1].engine.notes
    assert 1e-5 < half.difference() < 0.02


def test_a_plan_is_late(cp: Any, cudnn: ModuleType, no_background: None) -> None:
    program = Program(cp, cudnn, EXACT)
    cp.cuda.runtime.deviceSynchronize()
    stream = cp.cuda.Stream(non_blocking=True)
    cudnn.set_stream(handle=program.handle, stream=stream.ptr)
    program.run()
    assert not stream.done
    stream.synchronize()
    assert program.difference() < 1e-5


# ---------------------------------------------------------------- misuse

RUNS: dict[str, Callable[[Program], None]] = {
    "address that is not aligned": lambda p: p.run(_1=p.arrays[1].data.ptr + 4),
    "host memory": lambda p: p.run(_2=np.zeros(1 << 10, np.float32).ctypes.data & -16),
    "no pointer": lambda p: p.run(_3=0),
    "memory that is too small": lambda p: p.run(_1=p.cp.cuda.alloc(512).ptr + 256),
    "no workspace": lambda p: p.run(workspace=0),
    "workspace over the image": lambda p: p.run(workspace=p.arrays[1].data.ptr),
    "result over the image": lambda p: p.run(_3=p.arrays[1].data.ptr),
}


@pytest.mark.parametrize("name", RUNS)
def test_operands_are_checked(cp: Any, cudnn: ModuleType, misuses: Misuses, name: str) -> None:
    before = len(double.misuses)
    with cp.cuda.using_allocator(None):  # allocations of their own: no neighbours
        program = Program(cp, cudnn, ("DOWN_CONVERT_INPUTS",))
        count = len(double.executed)
        with pytest.raises((RuntimeError, ValueError)):
            RUNS[name](program)
    assert len(double.executed) == count
    misuses.expected += len(double.misuses) - before
    program.run()
    assert len(double.executed) == count + 1


def test_another_device_s_stream_and_handle(
    cp: Any, cudnn: ModuleType, misuses: Misuses, two: ModuleType
) -> None:
    program = Program(cp, cudnn, EXACT)
    with cp.cuda.Device(1):
        stream = cp.cuda.Stream(non_blocking=True)
        with pytest.raises(RuntimeError):
            program.run()
    with pytest.raises(RuntimeError):
        cudnn.set_stream(handle=program.handle, stream=stream.ptr)
    misuses.expected += 2


class Raw:
    """The library's functions, without the frontend."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(str(LIBRARIES / CUDNN_SONAME))

    def make(self, kind: int) -> Any:
        out = ctypes.c_void_p()
        assert not self.library.cudnnBackendCreateDescriptor(kind, ctypes.byref(out))
        return out

    def set(self, item: Any, name: int, kind: int, *values: int) -> int:
        array = (Type(kind).c_type * len(values))(*values)
        count = ctypes.c_int64(len(values))
        return int(self.library.cudnnBackendSetAttribute(item, name, kind, count, array))

    def tensor(self, **changes: Any) -> int:
        """The status of finalizing a tensor."""
        item = self.make(Kind.TENSOR)
        values = {
            900: (Type.INT64, changes.get("alignment", (16,))),
            901: (Type.DATA_TYPE, changes.get("dtype", (0,))),
            902: (Type.INT64, changes.get("dimensions", (2, 3, 4, 5))),
            903: (Type.INT64, changes.get("strides", (60, 20, 5, 1))),
            906: (Type.INT64, (1,)),
        }
        for name, (kind, numbers) in values.items():
            if numbers and (status := self.set(item, name, kind, *numbers)):
                return status
        return int(self.library.cudnnBackendFinalize(item))


def test_descriptors_are_checked(cp: Any, misuses: Misuses) -> None:
    raw = Raw()
    assert raw.tensor() == Status.SUCCESS
    tensor = raw.make(Kind.TENSOR)
    wrong = [
        (raw.tensor(dimensions=()), Status.BAD_PARAM),
        (raw.tensor(dimensions=(2, 0, 4, 5)), Status.BAD_PARAM),
        (raw.tensor(strides=(60, 20, 5)), Status.BAD_PARAM),
        (raw.tensor(strides=(60, 20, 1, 1)), Status.BAD_PARAM),
        (raw.tensor(alignment=(2,)), Status.BAD_PARAM),
        (raw.set(tensor, 100, Type.DATA_TYPE, 0), Status.NOT_SUPPORTED),
        (raw.set(tensor, 900, Type.INT32, 16), Status.ATTRIBUTE_TYPE),
        (raw.set(tensor, 906, Type.INT64, 1, 2), Status.BAD_PARAM),
        (raw.library.cudnnBackendFinalize(ctypes.c_void_p(4)), Status.NULL_POINTER),
    ]
    assert [got for got, _ in wrong] == [status for _, status in wrong]
    misuses.expected += len(wrong) - 1  # what is not supported may be asked for


def test_a_finalized_descriptor_does_not_change(cp: Any, misuses: Misuses) -> None:
    raw = Raw()
    item = raw.make(Kind.KNOB_CHOICE)
    assert not raw.set(item, 600, Type.KNOB_TYPE, 1)
    assert raw.library.cudnnBackendFinalize(item) == Status.BAD_PARAM  # without a value
    assert not raw.set(item, 601, Type.INT64, 1)
    assert raw.library.cudnnBackendFinalize(item) == Status.SUCCESS
    assert raw.set(item, 601, Type.INT64, 2) == Status.BAD_PARAM
    assert raw.library.cudnnBackendFinalize(item) == Status.BAD_PARAM
    assert raw.library.cudnnBackendDestroyDescriptor(item) == Status.SUCCESS
    assert raw.library.cudnnBackendDestroyDescriptor(item) == Status.NULL_POINTER
    misuses.expected += 4


@pytest.mark.parametrize("defect", [False, True])
def test_one_workspace_for_two_streams(
    cp: Any, cudnn: ModuleType, misuses: Misuses, no_background: None, defect: bool
) -> None:
    first, second = (Program(cp, cudnn, ("DOWN_CONVERT_INPUTS",)) for _ in range(2))
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(2)]
    cp.cuda.runtime.deviceSynchronize()
    for program, stream in zip((first, second), streams):
        cudnn.set_stream(handle=program.handle, stream=stream.ptr)
    before = len(double.misuses)
    for _ in range(ROUNDS):
        first.run()
        if not defect:
            streams[1].wait_event(streams[0].record())
        second.run(workspace=first.workspace.data.ptr)
        if not defect:
            streams[0].wait_event(streams[1].record())
    cp.cuda.runtime.deviceSynchronize()
    noticed = len(double.misuses) - before
    assert (noticed > 0) == defect
    misuses.expected += noticed
