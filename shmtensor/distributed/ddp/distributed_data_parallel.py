"""DistributedDataParallel: every rank has a copy of the model; backward averages the gradients.

```
parameters, last first:   | bucket 0 | bucket 1 | bucket 2 |   a large one, or small ones of a dtype
```

A bucket is reduced as soon as the gradients of all its parameters have arrived and the buckets
before it are launched, so that all ranks reduce in the same order. The reduction runs within
backward; if each rank has two CPUs or more, on the group's lane (work.py), while backward goes on.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter, is_
from typing import Any

from ...autograd import is_grad_enabled, wrap
from ...autograd.engine.accumulate_grad import AccumulateGrad
from ...autograd.engine.current_backward import after_backward
from ...cupy_runtime import device_count
from ...device import Device, as_device
from ...nn import Module
from ..collectives.reference import ReduceOp
from ..device_mesh import group_along
from ..group.process_group import ProcessGroup
from ..group.work import Future
from ..group.world import World, group_of, is_initialized
from .bucket import (
    IN_PLACE,
    BuiltinCommHookType,
    GradBucket,
    SparseBucket,
    make_buckets,
    sparse_parameters,
)
from .join import Join, Joinable, JoinHook, JoinState, all_reduce_int
from .mixed_precision import MixedPrecision, forward_in_dtype
from .replica import Replica, broadcast, check_same_model, copy_from_root, current_tensors
from .unused_parameters import reachable_leaves, used_on_any_rank

FIRST = 1 << 20  # bytes of the first bucket, so that the first reduction begins early
Hook = Callable[[Any, GradBucket], Future]
node_of = attrgetter("node")
# What `_start` makes: a copy of the model makes its own.
DERIVED = frozenset(
    {
        "process_group", "_absent", "_bucket_of", "_buckets", "_counts", "_expected",
        "_followed", "_handles", "_hook", "_hook_state", "_joining", "_named_params", "_next",
        "_optimizers", "_pending", "_trainable", "_unused", "_used_leaves",
    }
)  # fmt: skip


def check_device_ids(module: Module, device_ids: Any, output_device: Any) -> None:
    """Checks that a module is on the one GPU that `device_ids` names, if it names one.

    Raises:
        ValueError: it is not.
    """
    if not device_ids and output_device is None:
        return
    find = as_device if device_count() else Device
    named = {find(d) for d in [*(device_ids or ()), output_device] if d is not None}
    found = {p.device for p in module.parameters()}
    if found != named:
        raise ValueError(
            "DistributedDataParallel: device_ids and output_device name the one GPU that the "
            f"module is on: {device_ids}, {output_device}; its parameters are on "
            f"{', '.join(sorted(map(str, found)))}: move it there first, or leave them out"
        )


class DistributedDataParallel(Module, Joinable):
    """Wraps a module so that after `backward` every rank has the average of all ranks' gradients.

    At construction the shapes of all ranks' parameters are compared, and all ranks copy rank 0's
    values. Parameters that are registered later are copied at the next step; those whose
    `requires_grad` changes, on all ranks, are reduced, or not, from then on. The gradient of an
    Embedding or EmbeddingBag with sparse=True is a sparse tensor and has a bucket of its own: each
    rank gathers the rows of all, and communication hooks do not see it.

    Parameters
    ----------
    module : Module
        The model; its parameters keep their memory. If several ranks have them in the same memory
        (a model that forked children inherited), all but one get a copy.
    device_ids, output_device : list of int, int, optional
        The one GPU that the module is on; where it is if None.
    dim : int, optional
        Accepted; has no effect.
    broadcast_buffers : bool, optional
        Whether every forward in training mode begins by broadcasting rank 0's buffers.
    init_sync : bool, optional
        False: at construction ranks compare and copy nothing.
    process_group : ProcessGroup, optional
        The default one if None.
    bucket_cap_mb : float, optional
        The size of a bucket of small gradients, in MB.
    find_unused_parameters : bool, optional
        Whether a step may leave parameters unused, different ones on each rank: every forward finds
        them from its outputs. If False, every step must use every parameter.
    check_reduction : bool, optional
        Accepted; has no effect.
    gradient_as_bucket_view : bool, optional
        Accepted; always the case: gradients are in shared memory, in the optimizer's flat block or
        else in the bucket's. Backward writes them there, and the ranks reduce them there: nothing
        is copied in or out.
    static_graph : bool, optional
        Whether every step uses the same parameters; the first backward finds them.
    delay_all_reduce_named_params : list of (str, Parameter), optional
        Those that are reduced last, when the gradient of `param_to_hook_all_reduce` arrives.
    param_to_hook_all_reduce : Parameter, optional
        Given together with them.
    mixed_precision : MixedPrecision, optional
        The precisions of parameters, buffers and reductions.
    device_mesh : DeviceMesh, optional
        A mesh of one dimension, whose group replaces process_group.
    skip_all_reduce_unused_params, batched_grad_copy : bool, optional
        Accepted; they change nothing here.
    bucket_cap_mb_list : list of float, optional
        The size of the first bucket, the second, ... in the place of bucket_cap_mb; the last one is
        for all further buckets.
    forward_sync_buffers : bool, optional
        The new name of broadcast_buffers, which decides if this is None.

    Raises
    ------
    CollectiveMismatch
        The ranks' models differ.
    ValueError
        device_ids do not name the module's GPU.

    See Also
    --------
    trainer.Trainer, distributed.init_process_group, dataloaders.DistributedSampler

    Notes
    -----
    Copies: the parameters once, at construction.

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> from shmtensor.nn.parallel import DistributedDataParallel
    >>> dist.init_process_group(rank=0, world_size=1)  # each rank does the same
    >>> model = DistributedDataParallel(nn.Linear(2, 1))
    >>> model(st.ones(4, 2)).mean().backward()
    >>> model.module.bias.grad
    tensor([1.])
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        device_ids: list[int] | None = None,
        output_device: int | None = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: list[tuple[str, Any]] | None = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: MixedPrecision | None = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: list[float] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        Module.__init__(self)
        Joinable.__init__(self)
        check_device_ids(module, device_ids, output_device)
        if (delay_all_reduce_named_params is None) != (param_to_hook_all_reduce is None):
            raise ValueError(
                "DistributedDataParallel: delay_all_reduce_named_params and "
                "param_to_hook_all_reduce must be given together"
            )
        self.module = module
        if device_mesh is not None:
            process_group = group_along(device_mesh, process_group)
        group = group_of("DistributedDataParallel", process_group)
        self.broadcast_buffers = (
            broadcast_buffers if forward_sync_buffers is None else forward_sync_buffers
        )
        self.require_backward_grad_sync = True
        self.find_unused_parameters = find_unused_parameters
        self.static_graph = static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self._precision = mixed_precision or MixedPrecision()
        named = [*module.named_parameters(), *module.named_buffers()]
        self._ignored = {
            *getattr(module, "_ddp_params_and_buffers_to_ignore", ()),
            *(name for name, x in named if getattr(x, "_ddp_ignored", False)),
        }
        replica = self._replica()
        if not any(p.requires_grad for _, p in replica.parameters):
            raise RuntimeError(
                "DistributedDataParallel: the module has no parameter that requires a gradient"
            )
        if self._precision.buffer_dtype is not None:
            for _, buffer in replica.buffers:
                if buffer.array.dtype.kind == "f":
                    buffer.data = buffer.data.to(self._precision.buffer_dtype)
        self._init_sync = init_sync
        if init_sync:
            check_same_model(group, replica)
            copy_from_root(group, replica, 0)
        cap = 25 if bucket_cap_mb is None else bucket_cap_mb
        caps = bucket_cap_mb_list or [min(FIRST / 2**20, cap), cap]
        self._caps = [int(each * 2**20) for each in caps]
        self._delayed = delay_all_reduce_named_params, param_to_hook_all_reduce
        self._divisor: int | None = None
        self._divides_by_world_size = True
        self._finds_unused = find_unused_parameters or static_graph
        share = len(os.sched_getaffinity(0)) // group.size()
        self._overlaps = share >= 2
        self._n_steps = 0
        self._start(group)

    def _start(self, group: ProcessGroup) -> None:
        """Makes what belongs to this process: buckets, hooks of the parameters."""
        self.process_group = group
        self._joining = JoinState()
        # The ids of the leaves that the outputs depended on, as last computed.
        self._used_leaves: set[int] | None = None
        self._unused: list[Any] = []  # unused parameters that are not yet marked as ready
        self._hook: Hook | None = None
        self._hook_state: Any = None
        self._optimizers: dict[int, Any] = {}  # of the buckets, by id
        self._pending: list[tuple[Any, Future | None]] = []
        # By the id of a parameter: how often its gradient has arrived in this backward, and in the
        # first one of a static graph; the ids of those that were considered unused.
        self._counts: dict[int, int] = {}
        self._expected: dict[int, int] | None = None
        self._absent: set[int] = set()
        self._handles: dict[int, Any] = {}  # by the id of a parameter
        # The parameters and their nodes when `_follow_parameters` last looked.
        self._followed: tuple[list[Any], list[Any]] = [], []
        self._take_parameters(self._replica().parameters)

    def _replica(self) -> Replica:
        """The parameters and buffers as they are now."""
        ignored = self._ignored
        return Replica(
            [(n, p) for n, p in self.module.named_parameters() if n not in ignored],
            [(n, b) for n, b in self.module.named_buffers() if n not in ignored],
        )

    def _take_parameters(self, named_parameters: list[tuple[str, Any]]) -> None:
        """Makes the buckets of the parameters that require grad."""
        self._named_params = named_parameters
        self._trainable = [p for _, p in named_parameters if p.node.__class__ is AccumulateGrad]
        self._make_buckets()
        for p in self._trainable:
            if id(p) not in self._handles:
                hook = p.register_post_accumulate_grad_hook(self._on_gradient)
                self._handles[id(p)] = hook

    def _follow_parameters(self) -> None:
        """Makes the buckets anew if parameters were registered or replaced, or their requires_grad
        has changed. Called before a backward, on all ranks: no gradient has arrived.

        Raises:
            RuntimeError: an optimizer in backward has the former ones.
            CollectiveMismatch: the ranks' new parameters differ.
        """
        if self._ignored:
            now = [p for n, p in self.module.named_parameters() if n not in self._ignored]
        else:
            now = current_tensors(self.module, "_parameters")
        former, former_nodes = self._followed
        if (
            len(now) == len(former)
            and all(map(is_, now, former))
            and all(map(is_, map(node_of, now), former_nodes))
        ):
            return
        self._followed = now, [p.node for p in now]
        parameters = self._replica().parameters
        trainable = [p for _, p in parameters if p.node.__class__ is AccumulateGrad]
        if len(trainable) == len(self._trainable) and all(map(is_, trainable, self._trainable)):
            return
        ids = {id(p) for p in self._trainable}
        changed = [name for name, p in parameters if p.requires_grad is not (id(p) in ids)]
        if self._optimizers:
            raise RuntimeError(
                "DistributedDataParallel: the parameters that require grad have changed, and "
                f"_register_fused_optim was called for the former ones: {', '.join(changed)}"
            )
        known = {id(p) for _, p in self._named_params}
        new = Replica([(name, p) for name, p in parameters if id(p) not in known], [])
        if new.parameters and self._init_sync:
            check_same_model(self.process_group, new)
            for _, p in new.parameters:
                p.data = p.data.clone()  # this step's backward needs the former values
            copy_from_root(self.process_group, new, 0)
        self._take_parameters(parameters)
        self._used_leaves = self._expected = None
        for bucket in self._buckets:
            bucket.reset()
            bucket.allocate_grad_buffers()
        self._next = 0

    def _make_buckets(self) -> None:
        caps, (delayed, trigger) = self._caps, self._delayed
        delayed_ids = {id(p) for _, p in delayed or ()}
        sparse = set(sparse_parameters(self.module)) - delayed_ids
        dense = [p for p in self._trainable[::-1] if id(p) not in delayed_ids | sparse]
        self._buckets: list[Any] = [*make_buckets(dense, *caps)] if dense else []
        self._buckets += [SparseBucket([p]) for p in self._trainable[::-1] if id(p) in sparse]
        if delayed:
            self._buckets += make_buckets([p for _, p in delayed][::-1], 1 << 62)
        self._next = len(self._buckets)
        self._bucket_of: dict[int, list[Any]] = {
            id(p): [b] for b in self._buckets for p in b.parameters if id(p) not in delayed_ids
        }
        if delayed:
            self._buckets[-1].trigger = {id(trigger)}
            self._bucket_of.setdefault(id(trigger), []).append(self._buckets[-1])

    # ---------------------------------------------------------------- a step
    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The output of the module."""
        syncs = self.require_backward_grad_sync and is_grad_enabled()
        self._announce_step(syncs)
        if syncs:
            self._begin_step()
        if is_grad_enabled():
            for bucket in self._buckets:
                bucket.allocate_grad_buffers()
        if self.broadcast_buffers and self.training and self.require_backward_grad_sync:
            self._broadcast_buffers()
        if self._precision.param_dtype is None:
            out = self.module(*inputs, **kwargs)
        else:
            out = forward_in_dtype(
                self.module, self._replica().parameters, self._precision.param_dtype, inputs, kwargs
            )
        if syncs:
            self._follow_parameters()
        if syncs and self._finds_unused:
            self._find_used_parameters(out)
        return out

    def _find_used_parameters(self, out: Any) -> None:
        """Finds the parameters that `out` depends on. For a static graph the first backward does
        it, unless no gradient will come.
        """
        if not self.static_graph or self._expected is None:
            leaves = reachable_leaves(out)
            if leaves and self.static_graph:
                return
            self._used_leaves = leaves & {id(p.accumulate_grad) for p in self._trainable}
        used = self._used_leaves or ()
        self._unused = [p for p in self._trainable if id(p.accumulate_grad) not in used]
        self._absent = {id(p) for p in self._unused}
        if not used:  # no gradient will come
            self._mark_ready(None)

    def _begin_step(self) -> None:
        unfinished = self._buckets[self._next :]
        if any(len(b.missing) < len(b.trigger) for b in unfinished):
            missing = {i for b in unfinished for i in b.missing}
            names = [name for name, p in self._named_params if id(p) in missing]
            raise RuntimeError(
                f"DistributedDataParallel: the last backward left {len(names)} parameters without "
                "a gradient: every parameter has to take part in every step, or "
                f"find_unused_parameters=True: {', '.join(names)}"
            )
        for bucket in self._buckets:
            bucket.reset()
        self._next = 0
        for each in (self._counts, self._absent, self._pending):  # of a backward that failed
            each.clear()

    def _broadcast_buffers(self, root: int = 0) -> None:
        group = self.process_group
        if self._joining.enable:
            root = group.rank()
        if self._joining.enable or root < 0:  # the last rank that has not joined
            root = all_reduce_int(group, root, ReduceOp.MAX)
        if self._ignored:
            buffers = [b for n, b in self.module.named_buffers() if n not in self._ignored]
        else:
            buffers = list({id(b): b for b in current_tensors(self.module, "_buffers")}.values())
        for buffer in buffers:
            broadcast(group, buffer.array, root)

    def _on_gradient(self, parameter: Any) -> None:
        """Called when the gradient of `parameter` has arrived: once in a backward, but a layer in
        two segments of `checkpoint(use_reentrant=True)`, each with its own backward, gets two.

        Raises:
            RuntimeError: it was considered complete before, and the graph is not static.
        """
        if not self.require_backward_grad_sync:
            return
        key = id(parameter)
        n = self._counts[key] = self._counts.get(key, 0) + 1
        if n == len(self._counts) == 1:  # the first one
            after_backward(self._end_backward)
        if self.static_graph:
            if self._expected is not None and n == self._expected.get(key):
                self._mark_ready(parameter)
            return
        if n > 1 or key in self._absent:
            name = next(name for name, p in self._named_params if p is parameter)
            why = "was considered unused" if n == 1 else f"came {n} times in one backward"
            raise RuntimeError(
                f"DistributedDataParallel: the gradient of {name} {why}: it is in a checkpoint "
                "with use_reentrant=True, or used outside forward; hint: use_reentrant=False, or "
                "static_graph=True if each step is like the first"
            )
        self._mark_ready(parameter)

    def _end_backward(self) -> None:
        """Called when backward has ended: the first one of a static graph reduces now."""
        counts = dict(self._counts)
        self._counts.clear()
        self._absent.clear()
        if not self.static_graph or self._expected is not None:
            return
        self._expected = counts
        used = [p for p in self._trainable if id(p) in counts]
        self._used_leaves = {id(p.accumulate_grad) for p in used}
        self._unused = [p for p in self._trainable if id(p) not in counts]
        for p in used:
            self._mark_ready(p)

    def _mark_ready(self, parameter: Any) -> None:
        """Called when the gradient of `parameter` is complete; None: no gradient will come."""
        for bucket in self._bucket_of.get(id(parameter), ()):
            bucket.missing.discard(id(parameter))
            if not bucket.is_sparse and parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad = parameter.grad.to_dense()
        if self._unused:  # at the first gradient, so that ranks with gradients reduce in backward
            for p in self._unused:
                for bucket in self._bucket_of.get(id(p), ()):
                    bucket.missing.discard(id(p))
            self._unused = []
        buckets = self._buckets
        while self._next < len(buckets) and not buckets[self._next].missing:
            self._next += 1
            self._launch(self._next - 1)
            if self._next == len(buckets):
                self._finish()

    def _launch(self, index: int) -> None:
        """Begins the reduction of a bucket, whose gradients are complete."""
        bucket = self._buckets[index]
        bucket.collect(self._hook is None)
        future = self._reduce(index)
        if future is None and not (self._finds_unused or self._optimizers):
            bucket.store()
        else:
            self._pending.append((bucket, future))

    def _reduce(self, index: int) -> Future | None:
        """Reduces what a bucket has collected: by the communication hook; else on the group's lane,
        or at once, which gives None.
        """
        bucket, group = self._buckets[index], self.process_group
        if self._hook is not None and not bucket.is_sparse:
            tensor, is_last = wrap(bucket.reduced), index + 1 == len(self._buckets)
            future = self._hook(
                self._hook_state, GradBucket(index, tensor, bucket.parameters, is_last)
            )
            if not hasattr(future, "wait"):
                raise TypeError(
                    "DistributedDataParallel: a communication hook returns a Future of the buffer, "
                    f"this one returned {type(future).__name__}: {self._hook!r}"
                )
            return future
        divisor, dtype = self._divisor, self._precision.reduce_dtype
        work = group.issue(
            lambda: bucket.average(group, divisor, dtype),
            self._overlaps,
            IN_PLACE,
            bucket.operands(),
            defers=False,
        )
        return None if work is None else work.get_future()

    def _finish(self) -> None:
        """The end of a backward: waits for all reductions, and writes their results."""
        pending, used = self._pending.copy(), None
        self._pending.clear()
        if self._finds_unused:
            for _, future in pending:
                if future is not None:
                    future.wait()
            used = used_on_any_rank(self.process_group, self._trainable, self._used_leaves)
        for bucket, future in pending:  # the first ones while later reductions still run
            bucket.store(used, IN_PLACE if future is None else future.wait())
            if (optimizer := self._optimizers.get(id(bucket))) is not None:
                optimizer.step()
        self._n_steps += 1

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, gradients only accumulate on each rank; the first forward and backward after it
        averages the sums.
        """
        previous = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = previous

    def register_comm_hook(self, state: object, hook: Hook) -> None:
        """Makes a function reduce the buckets; shmtensor.distributed.algorithms.ddp_comm_hooks has
        some.

        Parameters
        ----------
        state : object
            The hook's first argument.
        hook : callable
            `hook(state, bucket)` returns a Future of the averages.

        Raises
        ------
        RuntimeError
            There is a hook already.
        """
        if not callable(hook):
            raise TypeError(f"register_comm_hook: the hook cannot be called: {hook!r}")
        if self._hook is not None:
            raise RuntimeError("register_comm_hook: there is a hook already: only one is possible")
        self._hook, self._hook_state = hook, state

    # ---------------------------------------------------------------- uneven inputs
    @property
    def join_device(self) -> Device:
        """The device of the parameters."""
        return next(self.module.parameters()).device

    @property
    def join_process_group(self) -> ProcessGroup:
        """The group of the gradients."""
        return self.process_group

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """A block inside which ranks may have different numbers of inputs; ranks without inputs
        take part in the others' collectives.

        Parameters
        ----------
        divide_by_initial_world_size : bool, optional
            Whether sums of gradients are divided by the number of all ranks; False: by the number
            of ranks that still have inputs.
        enable : bool, optional
            False makes the block do nothing.
        throw_on_early_termination : bool, optional
            Whether all ranks raise RuntimeError as soon as one has no more inputs.

        Returns
        -------
        Join
            A context manager.
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, divide_by_initial_world_size: bool = True, **kwargs: Any) -> JoinHook:
        """The hook of a joined rank."""
        self._divides_by_world_size = divide_by_initial_world_size
        return ShadowReductions(self)

    def _announce_step(self, syncs: bool) -> None:
        """Tells the joined ranks that a step begins, and which collectives it has."""
        self._divisor = None
        if not self._joining.enable:
            return
        group = self.process_group
        Join.notify_join_context(self)
        active = all_reduce_int(group, 1)
        if not self._divides_by_world_size:
            self._divisor = active
        sends = self.broadcast_buffers and self.training and self.require_backward_grad_sync
        all_reduce_int(group, int(syncs) | int(sends) << 1, ReduceOp.MAX)

    # ---------------------------------------------------------------- copies
    # A group belongs to its process: a deepcopy is of the same group, a model that is loaded of the
    # default group of the process that loads it. Communication hooks and optimizers in backward are
    # not copied.
    def _state(self) -> dict[str, Any]:
        return {name: x for name, x in self.__dict__.items() if name not in DERIVED}

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        cls = type(self)
        copied = memo[id(self)] = cls.__new__(cls)
        copied.__dict__.update(copy.deepcopy(self._state(), memo))
        copied._start(self.process_group)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        if self.process_group is not World.default:
            raise RuntimeError(
                "DistributedDataParallel: a model of another group than the default one cannot be "
                f"pickled or saved: group {self.process_group.name()!r}, hint: pickle or save its "
                ".module (or its state_dict()), and wrap it again"
            )
        return self._state()

    def __setstate__(self, state: dict[str, Any]) -> None:
        group = World.default
        if group is None or not is_initialized():
            raise RuntimeError(
                "DistributedDataParallel: a model that was pickled or saved is loaded into the "
                "default group, and there is none: hint: call init_process_group first, or save "
                "its .module (or its state_dict()), and wrap it again"
            )
        self.__dict__.update(state)
        self._start(group)

    # ---------------------------------------------------------------- PyTorch's private methods
    # that scripts call
    def _register_builtin_comm_hook(self, comm_hook_type: BuiltinCommHookType) -> None:
        """Registers the built-in hook, over the model's group."""
        from ..algorithms.ddp_comm_hooks import default_hooks

        is_allreduce = comm_hook_type is BuiltinCommHookType.ALLREDUCE
        hook = default_hooks.allreduce_hook if is_allreduce else default_hooks.fp16_compress_hook
        self.register_comm_hook(self.process_group, hook)

    def _register_fused_optim(
        self, optim: Any, *args: Any, optim_params: Any = None, **kwargs: Any
    ) -> None:
        """Makes the end of each backward update the parameters: each bucket is updated while later
        ones are still being reduced. A backward inside `no_sync` updates nothing.

        Args:
            optim: class of the optimizers, one for each bucket: `optim(parameters, *args,
                **kwargs)`.
            optim_params: the parameters to update; None: all.

        Raises:
            RuntimeError: there is an optimizer already.
        """
        if self._optimizers:
            raise RuntimeError("_register_fused_optim: there is an optimizer already")
        optimized_ids = {id(p) for p in (self._trainable if optim_params is None else optim_params)}
        for bucket in self._buckets:
            parameters = [p for p in bucket.parameters if id(p) in optimized_ids]
            if parameters:
                self._optimizers[id(bucket)] = optim(parameters, *args, **kwargs)

    def _set_static_graph(self) -> None:
        """As static_graph=True at construction."""
        self.static_graph = self._finds_unused = True

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Any, names: list[str]) -> None:
        """Sets the parameters and buffers that a later DistributedDataParallel ignores."""
        module._ddp_params_and_buffers_to_ignore = names
        ignored = set(names)
        for name, x in [*module.named_parameters(), *module.named_buffers()]:
            if name in ignored:
                x._ddp_ignored = True

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """Values for logging, by PyTorch's names."""
        return {
            "world_size": self.process_group.size(),
            "rank": self.process_group.rank(),
            "backend_name": self.process_group.name(),
            "bucket_sizes": [b.size() * b.dtype().itemsize for b in self._buckets],
            "num_buckets_reduced": len(self._buckets),
            "iteration": self._n_steps,
            "find_unused_parameters": self.find_unused_parameters,
            "gradient_as_bucket_view": self.gradient_as_bucket_view,
            "gradient_bytes_copied": sum(b.n_copied for b in self._buckets),
            "static_graph": self.static_graph,
            "overlaps": self._overlaps,
        }


class ShadowReductions(JoinHook):
    """The hook of a joined rank: it contributes zeros to every reduction of the others."""

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self.ddp = ddp

    def main_hook(self) -> None:
        ddp, group = self.ddp, self.ddp.process_group
        active = all_reduce_int(group, 0)
        flags = all_reduce_int(group, 0, ReduceOp.MAX)
        if flags & 2:
            ddp._broadcast_buffers(-1)
        if not flags & 1:
            return
        ddp._follow_parameters()
        ddp._divisor = None if ddp._divides_by_world_size else active
        for index, bucket in enumerate(ddp._buckets):
            bucket.allocate_grad_buffers()
            bucket.zeros(ddp._hook is None)
            future = ddp._reduce(index)
            # a ZeroRedundancyOptimizer goes on updating this rank's part of the parameters
            bucket.store(None, IN_PLACE if future is None else future.wait())
        if ddp._finds_unused:
            used_on_any_rank(group, ddp._trainable, None)

    def post_hook(self, is_last_joiner: bool) -> None:
        group = self.ddp.process_group
        root = all_reduce_int(group, group.rank() if is_last_joiner else -1, ReduceOp.MAX)
        copy_from_root(group, self.ddp._replica(), root)
