"""Convolutions by cuDNN, through NVIDIA's Python frontend: graphs of one operation each.

```
convolve -- switches, dtype --> Context of this thread and device -- key --> Plan, or None: im2col
                                     handle, plans (PLANS at most)
```

A context is used by one thread at a time, because plans are not safe for several; when the thread
ends, another one takes it over, with its plans. Everything is queued on CuPy's current stream, and
the workspace is CuPy's memory of that stream.
"""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections import OrderedDict
from types import ModuleType
from typing import Any, NamedTuple

import cupy
import numpy as np

from ... import cudnn_runtime
from ...dtypes import bfloat16
from ..nn.sliding_window import Shape, output_sizes

__all__ = ["convolve", "has_cudnn", "plan_count"]

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


class Key(NamedTuple):
    """What a plan depends on."""

    kind: str
    dtype: str
    is_last: bool  # channels_last
    first: Shape
    second: Shape
    out: Shape
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


class Context:
    """A handle, and the plans made with it; of one thread at a time.

    Attributes:
        plans: the plan of each key, the least recently used first; None: no engine can compute it.
    """

    def __init__(self, module: ModuleType, device: int) -> None:
        cudnn_runtime.load_cuda_runtime(cupy.cuda.runtime.runtimeGetVersion() // 1000)
        self.device = device
        self.handle = module.create_handle()
        self.plans: OrderedDict[Key, Plan | None] = OrderedDict()


class Holder:
    """The contexts of a thread, by device."""

    def __init__(self) -> None:
        self.contexts: dict[int, Context] = {}
        weakref.finalize(self, give_back, self.contexts, os.getpid()).atexit = False


local = threading.local()
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
    device = cupy.cuda.runtime.getDevice()
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


def has_cudnn() -> bool:
    """Whether convolutions are to be computed by cuDNN: it is there, and enabled."""
    return cudnn_runtime.settings.enabled and cudnn_runtime.frontend() is not None


# ---------------------------------------------------------------- memory


def is_channels_last(x: Any) -> bool:
    """Whether the elements of images lie channel by channel, and not in order."""
    if x.ndim not in (4, 5) or x.flags.c_contiguous:
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
    x = cupy.ascontiguousarray(x)
    return x if x.data.ptr % ALIGNMENT == 0 else x.copy()


def empty_images(shape: Shape, dtype: Any, is_last: bool) -> Any:
    """Images without values."""
    if not is_last:
        return cupy.empty(shape, dtype)
    strides = [s * dtype.itemsize for s in strides_of(shape, True)]
    memory = cupy.empty(shape, dtype).data
    return cupy.ndarray(shape, dtype, memory, strides)


# ---------------------------------------------------------------- plans


def two_inner(shape: Shape) -> Shape:
    """cuDNN has no images of one dimension: (N, C, L) is (N, C, 1, L)."""
    return (*shape[:2], 1, *shape[2:]) if len(shape) == 3 else shape


def make_graph(module: ModuleType, handle: Any, key: Key) -> Any:
    """The graph of one convolution; its tensors have the numbers 1, 2 and 3."""
    data_type = module.data_type
    dtype = getattr(data_type, key.dtype)
    compute = data_type.DOUBLE if key.dtype == "DOUBLE" else data_type.FLOAT
    graph = module.pygraph(
        handle=handle,
        io_data_type=dtype,
        intermediate_data_type=compute,
        compute_data_type=compute,
    )
    tensors = {}
    for number, (name, shape) in enumerate(
        zip(OPERANDS[key.kind], (key.first, key.second), strict=True), 1
    ):
        strides = strides_of(shape, key.is_last)
        tensors[name] = graph.tensor(dim=list(shape), stride=strides, data_type=dtype, name=name)
        tensors[name].set_uid(number)
    out = getattr(graph, key.kind)(
        **tensors,
        pre_padding=list(key.padding),
        post_padding=list(key.padding),
        stride=list(key.stride),
        dilation=list(key.dilation),
        compute_data_type=compute,
    )
    out.set_output(True).set_dim(list(key.out)).set_stride(strides_of(key.out, key.is_last))
    out.set_data_type(dtype).set_uid(3)
    return graph


def unwanted_notes(module: ModuleType, key: Key) -> list[Any]:
    """What the engines must not do: PyTorch's rules, and no sums in 16 bits."""
    note = module.numerical_note
    found = [note.REDUCED_PRECISION_REDUCTION]
    if key.deterministic:
        found.append(note.NONDETERMINISTIC)
    if key.dtype == "FLOAT":
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


def make_plan(
    module: ModuleType, context: Context, key: Key, pointers: dict[int, int]
) -> Plan | None:
    """A new plan for a key; None if no engine can compute it.

    Raises:
        MemoryError: there is no workspace.
        RuntimeError: cuDNN fails.
    """
    try:
        graph = planned_graph(module, context.handle, key)
        if key.benchmark:
            return fastest_plan(module, context, graph, key.benchmark, pointers)
        graph.build_plans()
        return Plan(graph, -1, graph.get_workspace_size())
    except module.cudnnGraphNotSupportedError:
        return None


def plan_of(
    module: ModuleType, context: Context, key: Key, pointers: dict[int, int]
) -> Plan | None:
    """The plan of a key, which is kept; None if no engine can compute it, or if cuDNN fails, in
    which case it is tried again the next time.

    Raises:
        MemoryError: there is no workspace.
    """
    if key not in context.plans:
        try:
            context.plans[key] = make_plan(module, context, key, pointers)
        except MemoryError:  # shmtensor's is a RuntimeError, too
            raise
        except RuntimeError as error:
            warn_once(f"cuDNN cannot compute a convolution, which runs without it: {error}: {key}")
            return None
        if len(context.plans) > PLANS:
            context.plans.popitem(last=False)
    context.plans.move_to_end(key)
    return context.plans[key]


def warn_once(text: str) -> None:
    """One warning of a process, whatever it says."""
    if not warned:
        warned.add(text)
        warnings.warn(text, stacklevel=2)


def fastest_plan(
    module: ModuleType, context: Context, graph: Any, limit: int, pointers: dict[int, int]
) -> Plan | None:
    """The fastest of the plans, each of which runs once to load its kernels, and once to be timed.

    Waits for the device.

    Raises:
        MemoryError, RuntimeError: none of them ran; the last one's error.
    """
    best, least = None, float("inf")
    failure: Exception | None = None
    count = graph.get_execution_plan_count()
    tried = 0
    for index in range(count):
        if tried == limit:
            break
        try:
            graph.build_plan_at_index(index)
            plan = Plan(graph, index, graph.get_workspace_size_plan_at_index(index))
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


def execute(context: Context, plan: Plan, pointers: dict[int, int]) -> None:
    """Queues a plan on the current stream."""
    workspace = cupy.cuda.alloc(plan.workspace) if plan.workspace else None
    place = workspace.ptr if workspace is not None else 0
    if plan.number < 0:
        plan.graph.execute(pointers, place, handle=context.handle)
    else:
        plan.graph.execute_plan_at_index(pointers, place, plan.number, handle=context.handle)


def convolve(
    kind: str,
    first: Any,
    second: Any,
    shape: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
) -> Any | None:
    """The result of a convolution of images (N, C, *size) and filters (K, C / groups, *kernel), or
    a gradient of it; None if cuDNN is not there, not enabled, or cannot compute it.

    The result is channels_last if an operand is.

    Args:
        kind: "conv_fprop": images and filters; "conv_dgrad": results and filters, gives images;
            "conv_wgrad": images and results, gives filters.
        shape: of the result.

    Copies: operands that are not dense, or not aligned.
    """
    dtype = first.dtype
    if dtype not in DTYPES or second.dtype != dtype or 0 in (*first.shape, *second.shape, *shape):
        return None
    if not has_cudnn():
        return None
    module = cudnn_runtime.frontend()
    assert module is not None
    image, filters, result = {
        "conv_fprop": (first.shape, second.shape, shape),
        "conv_dgrad": (shape, second.shape, first.shape),
        "conv_wgrad": (first.shape, shape, second.shape),
    }[kind]
    if tuple(output_sizes(image[2:], filters[2:], stride, padding, dilation)) != result[2:]:
        return None  # an image with elements that no window reaches: cuDNN knows none such
    context = context_of(module)
    module.set_stream(handle=context.handle, stream=cupy.cuda.get_current_stream().ptr)
    settings = cudnn_runtime.settings
    is_last = is_channels_last(first) or is_channels_last(second)
    is_line = len(stride) == 1
    key = Key(
        kind,
        DTYPES[dtype],
        is_last,
        two_inner(first.shape),
        two_inner(second.shape),
        two_inner(shape),
        (1, *stride) if is_line else stride,
        (0, *padding) if is_line else padding,
        (1, *dilation) if is_line else dilation,
        (settings.benchmark_limit or -1) if settings.benchmark else 0,
        settings.deterministic or settings.all_deterministic,
        settings.allow_tf32,
    )
    if key in context.plans and context.plans[key] is None:
        return None
    first, second = dense(first, is_last), dense(second, is_last)
    out = empty_images(shape, dtype, is_last)
    pointers = {1: first.data.ptr, 2: second.data.ptr, 3: out.data.ptr}
    try:
        plan = plan_of(module, context, key, pointers)
        if plan is None:
            return None
        execute(context, plan, pointers)
    except MemoryError:
        return None  # for the workspace, this time; im2col takes a part of the batch at a time
    return out
