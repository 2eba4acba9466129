"""Convolutions by cuDNN, through NVIDIA's Python frontend: graphs of one operation each.

```
convolve -- switches, dtype --> Context of this thread and device -- key --> Plan, or None: im2col
                                     handle, plans (PLANS at most)
```

Note [Host time] A small convolution takes less time on the GPU than its call takes on the host. A
call therefore reads what a key consists of, and nothing is derived from it but when a plan is made:
sizes, strides and whether cuDNN takes them are in the plan. The frontend's `execute` checks its
dictionary of tensors each time, which takes as long as all else here; `direct_launch` calls what is
below it.

A context is used by one thread at a time, because plans are not safe for several; when the thread
ends, another one takes it over, with its plans. Everything is queued on CuPy's current stream, and
the workspace is CuPy's memory of that stream.
"""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from array import array
from collections import OrderedDict
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import cupy
import numpy as np

from ... import cudnn_runtime, cupy_runtime
from ...dtypes import bfloat16
from ..nn.sliding_window import Shape, output_sizes

PLANS = 1000  # of a context
ALIGNMENT = 16  # bytes, which the frontend promises cuDNN of each tensor
DTYPES = {
    np.dtype(np.float16): "HALF",
    np.dtype(np.float32): "FLOAT",
    np.dtype(np.float64): "DOUBLE",
    bfloat16: "BFLOAT16",
}
# The names of the operands and of the result in the frontend; the first two are inputs.
OPERANDS = {
    "conv_fprop": ("image", "weight"),
    "conv_dgrad": ("loss", "filter"),
    "conv_wgrad": ("image", "loss"),
}


Pointers = tuple[int, int, int]  # of the two operands and the result


class Key(NamedTuple):
    """What a plan depends on."""

    kind: str
    dtype: Any  # NumPy's
    is_last: bool  # channels_last
    first: Shape
    second: Shape
    out: Shape | None  # None: it follows from the others
    stride: Shape
    padding: Shape
    dilation: Shape
    benchmark: int  # the number of plans to try; 0: the heuristics' choice, -1: all
    deterministic: bool
    allow_tf32: bool


class Plan(NamedTuple):
    """A graph that is built."""

    graph: Any
    number: int  # of the execution plan in the graph; -1: the one that is chosen
    workspace: int  # bytes
    shape: Shape  # of the result
    start: Callable[..., None] | None  # direct_launch's; None: the graph's own
    entry: int  # the number of the execution plan for `start`


class PlanFailed(Exception):
    """cuDNN failed while a plan was made."""


class Context:
    """A handle, and the plans made with it; of one thread at a time.

    Attributes:
        number: the library's own handle, its address.
        plans: the plan of each key, the least recently used first; None: cuDNN cannot compute it.
    """

    def __init__(self, module: ModuleType, device: int) -> None:
        cudnn_runtime.load_cuda_runtime(cupy.cuda.runtime.runtimeGetVersion() // 1000)
        self.device = device
        self.handle = module.create_handle()
        self.number = int(getattr(self.handle, "backend_handle", self.handle))
        self.plans: OrderedDict[Key, Plan | None] = OrderedDict()


class Holder:
    """The contexts of a thread, by device."""

    def __init__(self) -> None:
        self.contexts: dict[int, Context] = {}
        weakref.finalize(self, give_back, self.contexts, os.getpid()).atexit = False


has_several = cupy_runtime.device_count() > 1
current_device: Callable[[], int] = cupy.cuda.runtime.getDevice
current_stream: Callable[[], Any] = cupy.cuda.get_current_stream
local = threading.local()
MISSING = object()  # there is no plan for a key yet
lock = threading.Lock()
unused: dict[int, list[Context]] = {}  # by device; their threads have ended
warned: set[str] = set()


def give_back(contexts: dict[int, Context], pid: int) -> None:
    """A thread has ended: its contexts are free for others."""
    if pid == os.getpid():
        with lock:
            for device, context in contexts.items():
                unused.setdefault(device, []).append(context)


def context_of(module: ModuleType) -> Context:
    """The context of this thread and the current device."""
    holder: Holder | None = getattr(local, "holder", None)
    if holder is None:
        holder = local.holder = Holder()
    device = current_device() if has_several else 0
    context = holder.contexts.get(device)
    if context is None:
        with lock:
            free = unused.get(device)
            context = free.pop() if free else None
        if context is None:
            context = Context(module, device)
        holder.contexts[device] = context
    return context


def plan_count() -> int:
    """The number of plans that this thread keeps, of all devices."""
    holder: Holder | None = getattr(local, "holder", None)
    return sum(len(c.plans) for c in holder.contexts.values()) if holder is not None else 0


# ---------------------------------------------------------------- memory


def is_channels_last(x: Any) -> bool:
    """Whether the elements of images lie channel by channel, and not in order."""
    if x._c_contiguous or x.ndim not in (4, 5):
        return False
    return bool(x.transpose(0, *range(2, x.ndim), 1).flags.c_contiguous)


def strides_of(shape: Shape, is_last: bool) -> list[int]:
    """The strides in elements of dense images."""
    order = (0, *range(2, len(shape)), 1) if is_last else range(len(shape))
    strides, step = [0] * len(shape), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= shape[dim]
    return strides


def dense(x: Any, is_last: bool) -> Any:
    """An array whose memory is in that order, and aligned.

    Copies: none or one.
    """
    if is_last:
        x = x.transpose(0, *range(2, x.ndim), 1)
    if not x._c_contiguous:
        x = cupy.ascontiguousarray(x)
    return x if x.data.ptr % ALIGNMENT == 0 else x.copy()


def empty_images(shape: Shape, dtype: Any, is_last: bool) -> Any:
    """Images without values."""
    if not is_last:
        return cupy.ndarray(shape, dtype)
    strides = [s * dtype.itemsize for s in strides_of(shape, True)]
    memory = cupy.ndarray(shape, dtype).data
    return cupy.ndarray(shape, dtype, memory, strides)


# ---------------------------------------------------------------- plans


def two_inner(shape: Shape) -> Shape:
    """cuDNN has no images of one dimension: (N, C, L) is (N, C, 1, L)."""
    return (*shape[:2], 1, *shape[2:]) if len(shape) == 3 else shape


def two_numbers(values: Shape, fill: int) -> Shape:
    """As `two_inner`, of a stride, padding or dilation."""
    return (fill, *values) if len(values) == 1 else values


def result_shape(key: Key) -> Shape | None:
    """The shape of the result; None if cuDNN knows no such convolution: an array has no elements,
    or the image has some that no window reaches.
    """
    out = key.out
    if out is None:  # conv_fprop
        sizes = key.stride, key.padding, key.dilation
        out = (key.first[0], key.second[0], *output_sizes(key.first[2:], key.second[2:], *sizes))
    if 0 in (*key.first, *key.second, *out):
        return None
    image, filters, result = {
        "conv_fprop": (key.first, key.second, out),
        "conv_dgrad": (out, key.second, key.first),
        "conv_wgrad": (key.first, out, key.second),
    }[key.kind]
    windows = output_sizes(image[2:], filters[2:], key.stride, key.padding, key.dilation)
    return out if tuple(windows) == result[2:] else None


def make_graph(module: ModuleType, handle: Any, key: Key) -> Any:
    """The graph of one convolution, whose result's shape is known; its tensors have the numbers 1,
    2 and 3.
    """
    assert key.out is not None
    data_type = module.data_type
    dtype = getattr(data_type, DTYPES[key.dtype])
    compute = data_type.DOUBLE if key.dtype == np.float64 else data_type.FLOAT
    graph = module.pygraph(
        handle=handle, io_data_type=dtype, intermediate_data_type=compute, compute_data_type=compute
    )
    tensors = {}
    for number, (name, shape) in enumerate(
        zip(OPERANDS[key.kind], map(two_inner, (key.first, key.second)), strict=True), 1
    ):
        strides = strides_of(shape, key.is_last)
        tensors[name] = graph.tensor(dim=list(shape), stride=strides, data_type=dtype, name=name)
        tensors[name].set_uid(number)
    padding = list(two_numbers(key.padding, 0))
    out = getattr(graph, key.kind)(
        **tensors,
        pre_padding=padding,
        post_padding=padding,
        stride=list(two_numbers(key.stride, 1)),
        dilation=list(two_numbers(key.dilation, 1)),
        compute_data_type=compute,
    )
    shape = two_inner(key.out)
    out.set_output(True).set_dim(list(shape)).set_stride(strides_of(shape, key.is_last))
    out.set_data_type(dtype).set_uid(3)
    return graph


def unwanted_notes(module: ModuleType, key: Key) -> list[Any]:
    """What the engines must not do: PyTorch's rules, and no sums in 16 bits."""
    note = module.numerical_note
    found = [note.REDUCED_PRECISION_REDUCTION]
    if key.deterministic:
        found.append(note.NONDETERMINISTIC)
    if key.dtype == np.float32:
        found.append(note.DOWN_CONVERT_INPUTS)
        if not key.allow_tf32:
            found.append(note.TENSOR_CORE)
    return found


def planned_graph(module: ModuleType, handle: Any, key: Key) -> Any:
    """The graph of a key, with cuDNN's plans for it, without those that do what they must not."""
    graph = make_graph(module, handle, key)
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([module.heur_mode.A, module.heur_mode.FALLBACK])
    graph.deselect_numeric_notes(unwanted_notes(module, key))
    graph.check_support()
    return graph


def make_plan(module: ModuleType, context: Context, key: Key, pointers: Pointers) -> Plan | None:
    """A new plan for a key whose result's shape is known; None if no engine can compute it.

    Raises:
        MemoryError: there is no workspace.
        RuntimeError: cuDNN fails.
    """
    assert key.out is not None
    try:
        graph = planned_graph(module, context.handle, key)
        if key.benchmark:
            return fastest_plan(module, context, graph, key, pointers)
        graph.build_plans()
        start, index = direct_launch(graph, -1)
        return Plan(graph, -1, graph.get_workspace_size(), key.out, start, index)
    except module.cudnnGraphNotSupportedError:
        return None


def direct_launch(graph: Any, number: int) -> tuple[Callable[..., None] | None, int]:
    """What the frontend calls, after its checks, to queue a plan: start(address of the tensors'
    addresses by their numbers, their count, workspace, handle, index), and that index. None if this
    version has no such function, or would not call it for this plan.
    """
    try:
        if number < 0:
            if graph.selected_engine is not None:
                return None, -1
            number = graph._plan_index
        lowered = graph._lowered_graph
        index = graph._materialize_backend_plan(number).cpp_index if graph._plans else None
        lowered._prepare_variant_pack_template()
        if list(lowered._get_variant_pack_uids_sorted()) != [1, 2, 3]:
            return None, -1
        start: Callable[..., None] = lowered._execute_with_raw_ptrs
        if "plan_index" not in (start.__doc__ or ""):  # its signature
            return None, -1
    except (AttributeError, IndexError, TypeError):  # another version
        return None, -1
    return start, -1 if index is None else index


def new_plan(module: ModuleType, context: Context, key: Key, pointers: Pointers) -> Plan | None:
    """A new plan for a key whose result's shape is known; None: no engine can compute it.

    Raises:
        MemoryError: there is no workspace.
        PlanFailed: cuDNN fails, of which the first time is a warning.
    """
    try:
        return make_plan(module, context, key, pointers)
    except MemoryError:  # shmtensor's is a RuntimeError, too
        raise
    except RuntimeError as error:
        warn_once(f"cuDNN cannot compute a convolution, which runs without it: {error}: {key}")
        raise PlanFailed from error


def keep(context: Context, key: Key, plan: Plan | None) -> None:
    """Keeps a plan; the least recently used one goes, if they are too many."""
    context.plans[key] = plan
    if len(context.plans) > PLANS:
        context.plans.popitem(last=False)


def warn_once(text: str) -> None:
    """One warning of a process, whatever it says."""
    if not warned:
        warned.add(text)
        warnings.warn(text, stacklevel=2)


def fastest_plan(
    module: ModuleType, context: Context, graph: Any, key: Key, pointers: Pointers
) -> Plan | None:
    """The fastest of the plans, each of which runs once to load its kernels, and once to be timed.

    Waits for the device.

    Raises:
        MemoryError, RuntimeError: none of them ran; the last one's error.
    """
    assert key.out is not None
    best, least = None, float("inf")
    failure: Exception | None = None
    count = graph.get_execution_plan_count()
    tried = 0
    for index in range(count):
        if tried == key.benchmark:
            break
        try:
            graph.build_plan_at_index(index)
            workspace = graph.get_workspace_size_plan_at_index(index)
            plan = Plan(graph, index, workspace, key.out, *direct_launch(graph, index))
        except (module.cudnnGraphNotSupportedError, ValueError, RuntimeError):
            continue  # left out by its notes, or it cannot compute this shape
        try:
            execute(context, plan, pointers)
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record()
            execute(context, plan, pointers)
            end.record()
            end.synchronize()
            time = cupy.cuda.get_elapsed_time(begin, end)
        except (MemoryError, RuntimeError) as error:
            failure = error
            continue
        tried += 1
        if time < least:
            best, least = plan, time
    if best is None and failure is not None:
        raise failure
    return best


def execute(context: Context, plan: Plan, pointers: Pointers) -> None:
    """Queues a plan on the current stream, which is the handle's."""
    workspace = cupy.cuda.alloc(plan.workspace) if plan.workspace else None
    place = workspace.ptr if workspace is not None else 0
    if plan.start is not None:
        addresses = array("Q", pointers)
        plan.start(addresses.buffer_info()[0], 3, place, context.number, plan.entry)
        return
    tensors = dict(enumerate(pointers, 1))
    if plan.number < 0:
        plan.graph.execute(tensors, place, handle=context.handle)
    else:
        plan.graph.execute_plan_at_index(tensors, place, plan.number, handle=context.handle)


def convolve(
    kind: str,
    first: Any,
    second: Any,
    shape: Shape | None,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
) -> Any | None:
    """The result of a convolution of images (N, C, *size) and filters (K, C / groups, *kernel), or
    a gradient of it; None if cuDNN is not there, not enabled, or cannot compute it. See
    Note [Host time].

    The result is channels_last if an operand is.

    Args:
        kind: "conv_fprop": images and filters; "conv_dgrad": results and filters, gives images;
            "conv_wgrad": images and results, gives filters.
        shape: of the result; None for "conv_fprop".

    Copies: operands that are not dense, or not aligned.
    """
    settings = cudnn_runtime.settings
    dtype = first.dtype
    if dtype not in DTYPES or second.dtype != dtype or not settings.enabled:
        return None
    module = cudnn_runtime.state.module or cudnn_runtime.frontend()
    if module is None:
        return None
    context = context_of(module)
    is_dense = first._c_contiguous and second._c_contiguous
    is_last = not is_dense and (is_channels_last(first) or is_channels_last(second))
    shapes = first.shape, second.shape, shape
    key: Any = (kind, dtype, is_last, *shapes, stride, padding, dilation, *settings.choice)
    plan: Any = context.plans.get(key, MISSING)  # a tuple is equal to the Key of its parts
    if plan is None:
        return None
    out_shape = shape
    if plan is MISSING:
        full = Key(*key)
        if (out_shape := result_shape(full)) is None:
            keep(context, full, None)
            return None
    else:
        context.plans.move_to_end(key)
        out_shape = plan.shape
    if not is_dense or (first.data.ptr | second.data.ptr) % ALIGNMENT:
        first, second = dense(first, is_last), dense(second, is_last)
    out = empty_images(out_shape, dtype, is_last)
    pointers = first.data.ptr, second.data.ptr, out.data.ptr
    stream = current_stream().ptr
    if stream != getattr(context.handle, "stream", None):  # this costs a call of the driver
        module.set_stream(handle=context.handle, stream=stream)
    try:
        if plan is MISSING:
            plan = new_plan(module, context, full._replace(out=out_shape), pointers)
            keep(context, full, plan)
            if plan is None:
                return None
        execute(context, plan, pointers)
    except (MemoryError, PlanFailed):
        return None  # of the workspace, this time; im2col takes a part of the batch at a time
    return out
