"""DistributedDataParallel: every rank has a copy of the model; gradients are averaged meanwhile.

```
parameters, last first:   | bucket 0 | bucket 1 | bucket 2 |   a large one, or small ones of a dtype
```

A bucket is reduced as soon as the gradients of all its parameters are there and the buckets before
it are done, so that all ranks reduce in the same order. It is done within backward; with two CPUs
or more for each rank on the group's lane (work.py), while backward goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...autograd import is_grad_enabled, wrap
from ...nn import Module
from ..collectives.reference import ReduceOp
from ..device_mesh import group_along
from ..group.process_group import ProcessGroup
from ..group.work import Future, Work
from ..group.world import group_of
from .arrived_gradients import ArrivedGradients
from .bucket import GradBucket, asked, cut
from .join import Join, Joinable, JoinHook, summed
from .join_shadow_step import ShadowReductions
from .mixed_precision import MixedPrecision, lowered
from .replica import Replica, broadcast_buffers, take_over, verify
from .sparse_bucket import SparseBucket, sparse_parameters
from .torch_private_attributes import PrivateNames
from .unused_parameters import leaves_of, used_anywhere

__all__ = ["DistributedDataParallel"]

FIRST = 1 << 20  # bytes of the first bucket, so that the first reduction begins early
Hook = Callable[[Any, GradBucket], Future]


class DistributedDataParallel(Module, PrivateNames, Joinable):
    """Wraps a module so that after `backward` every rank has the average of all ranks' gradients.

    At construction the shapes of all ranks' parameters are compared, and everybody takes over rank
    0's values. The gradient of an Embedding or EmbeddingBag with sparse=True is a sparse tensor,
    and a bucket of its own: everybody gets everybody's rows, and communication hooks do not see it.

    Args:
        module: the model; its parameters keep their memory, unless several ranks have them in the
            same memory (a model that forked children inherited): those get a copy of their own.
        broadcast_buffers: every forward in training mode begins with rank 0's buffers.
        init_sync: False: ranks neither compare nor take over anything at construction.
        process_group: the default one if None.
        bucket_cap_mb: small gradients that are reduced at once, in MB; or bucket_cap_mb_list, of
            the first bucket, the second, ..., the last of them for all that follow.
        find_unused_parameters: parameters may take no part in a step, different ones on each rank:
            every forward looks for them from its outputs. Without it every parameter has to take
            part.
        gradient_as_bucket_view: accepted, for it is always so: gradients lie in shared memory, in
            the optimizer's flat block or else in the bucket's. Backward writes them there, and the
            ranks reduce them there: nothing is copied in or out.
        static_graph: the same parameters take part in every step: the first backward looks for
            them.
        delay_all_reduce_named_params: (name, parameter) pairs that are reduced last, when the
            gradient of `param_to_hook_all_reduce` comes.
        mixed_precision: see MixedPrecision.
        device_ids, output_device: None: tensors are on the CPU.
        forward_sync_buffers: the new name of broadcast_buffers; None: that one counts.
        device_mesh: of one dimension, whose group is taken; in place of process_group.
        skip_all_reduce_unused_params, batched_grad_copy: accepted; they change nothing here.

    Raises:
        CollectiveMismatch: the ranks' models differ.

    Copies: the parameters once, at construction.
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
        if device_ids or output_device is not None:
            raise ValueError(
                "DistributedDataParallel: device_ids and output_device are for one GPU for each "
                f"rank: {device_ids}, {output_device}; tensors are on the CPU: leave them out"
            )
        if (delay_all_reduce_named_params is None) != (param_to_hook_all_reduce is None):
            raise ValueError(
                "DistributedDataParallel: delay_all_reduce_named_params and "
                "param_to_hook_all_reduce are given together"
            )
        self.module = module
        if device_mesh is not None:
            process_group = group_along(device_mesh, process_group)
        self.process_group = group_of("DistributedDataParallel", process_group)
        self.broadcast_buffers = (
            broadcast_buffers if forward_sync_buffers is None else forward_sync_buffers
        )
        self.require_backward_grad_sync = True
        self.find_unused_parameters = find_unused_parameters
        self.static_graph = static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self._precision = mixed_precision or MixedPrecision()
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = [(n, p) for n, p in module.named_parameters() if n not in ignored]
        self._replica = Replica(
            named, [(n, b) for n, b in module.named_buffers() if n not in ignored]
        )
        self._by_name = named
        trained = [p for _, p in named if p.requires_grad]
        if not trained:
            raise RuntimeError(
                "DistributedDataParallel: the module has no parameter that requires a gradient"
            )
        if self._precision.buffer_dtype is not None:
            for _, buffer in self._replica.buffers:
                if buffer.array.dtype.kind == "f":
                    buffer.data = buffer.data.to(self._precision.buffer_dtype)
        if init_sync:
            verify(self.process_group, self._replica)
            take_over(self.process_group, self._replica, 0)
        self._trained = trained
        cap = 25 if bucket_cap_mb is None else bucket_cap_mb
        caps = bucket_cap_mb_list or [min(FIRST / 2**20, cap), cap]
        self._cut([int(each * 2**20) for each in caps], delay_all_reduce_named_params)
        if delay_all_reduce_named_params:
            self._buckets[-1].trigger = {id(param_to_hook_all_reduce)}
            self._bucket_of.setdefault(id(param_to_hook_all_reduce), []).append(self._buckets[-1])
        self._divisor: int | None = None
        self._divides_by_all = True
        self._looks = find_unused_parameters or static_graph
        self._used: set[int] | None = None  # ids of leaves, of the last forward that looked
        self._unused: list[Any] = []  # that this step's backward has not marked yet
        self._hook: Hook | None = None
        self._hook_state: Any = None
        self._optimizers: dict[int, Any] = {}  # of the buckets, by id
        self._open: list[tuple[Any, Any, list[int] | None, Future]] = []
        share = len(os.sched_getaffinity(0)) // self.process_group.size()
        self._overlaps = share >= 2
        self._n_steps = 0
        self._arrivals = ArrivedGradients(
            {id(p): name for name, p in named}, self._record_static_graph
        )
        self._handles = [p.register_post_accumulate_grad_hook(self._arrived) for p in trained]

    def _cut(self, caps: list[int], delayed: list[tuple[str, Any]] | None) -> None:
        late = {id(p) for _, p in delayed or ()}
        sparse = set(sparse_parameters(self.module)) - late
        early = [p for p in self._trained[::-1] if id(p) not in late | sparse]
        self._buckets: list[Any] = [*cut(early, *caps)] if early else []
        self._buckets += [SparseBucket(p) for p in self._trained[::-1] if id(p) in sparse]
        if delayed:
            self._buckets += cut([p for _, p in delayed][::-1], 1 << 62)
        self._next = len(self._buckets)
        self._bucket_of: dict[int, list[Any]] = {
            id(p): [b] for b in self._buckets for p in b.parameters if id(p) not in late
        }

    # ---------------------------------------------------------------- a step
    def forward(self, *inputs: Any, **named: Any) -> Any:
        """What the module returns."""
        syncs = self.require_backward_grad_sync and is_grad_enabled()
        self._run_shadow_step(syncs)
        if syncs:
            self._begin_step()
        if is_grad_enabled():
            for bucket in self._buckets:
                bucket.settle()
        if self.broadcast_buffers and self.training and self.require_backward_grad_sync:
            self._broadcast_buffers()
        if self._precision.param_dtype is None:
            out = self.module(*inputs, **named)
        else:
            out = lowered(self.module, self._by_name, self._precision.param_dtype, inputs, named)
        if syncs and self._looks:
            self._find_used_parameters(out)
        return out

    def _find_used_parameters(self, out: Any) -> None:
        """Which parameters `out` was made of; of a static graph, its first backward says."""
        if not self.static_graph or self._arrivals.expected is None:
            found = leaves_of(out)
            if found and self.static_graph:
                return
            self._used = found & {id(p.leaf) for p in self._trained}
        used = self._used or ()
        self._unused = [p for p in self._trained if id(p.leaf) not in used]
        self._arrivals.absent = {id(p) for p in self._unused}
        if not used:  # no gradient will come
            self._take(None)

    def _begin_step(self) -> None:
        behind = self._buckets[self._next :]
        if any(0 < len(b.missing) < len(b.trigger) for b in behind):
            missing = {i for b in behind for i in b.missing}
            left = [name for name, p in self._by_name if id(p) in missing]
            raise RuntimeError(
                f"DistributedDataParallel: the last backward left {len(left)} parameters without a "
                "gradient: every parameter has to take part in every step, or "
                f"find_unused_parameters=True: {', '.join(left)}"
            )
        for bucket in self._buckets:
            bucket.reset()
        self._next = 0
        self._arrivals.begin()

    def _broadcast_buffers(self, root: int = 0) -> None:
        group = self.process_group
        if self._joining.enable:
            root = group.rank()
        if self._joining.enable or root < 0:  # the last rank that has not joined
            root = summed(group, root, ReduceOp.MAX)
        broadcast_buffers(group, self._replica, root)

    def _arrived(self, parameter: Any) -> None:
        is_last = self._arrivals.is_last
        if self.require_backward_grad_sync and is_last(id(parameter), self.static_graph):
            self._take(parameter)

    def _record_static_graph(self) -> None:
        """The first backward of a static graph is over."""
        came = self._arrivals.expected or ()
        self._used = {id(p.leaf) for p in self._trained if id(p) in came}
        self._unused = [p for p in self._trained if id(p) not in came]
        for p in [p for p in self._trained if id(p) in came]:
            self._take(p)

    def _take(self, parameter: Any) -> None:
        """A gradient is whole; None: there will be none."""
        for bucket in self._bucket_of.get(id(parameter), ()):
            bucket.missing.discard(id(parameter))
            if not bucket.is_sparse and parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad = parameter.grad.to_dense()
        if self._unused:  # at the first gradient: whoever has some reduces in backward, too
            for p in self._unused:
                for bucket in self._bucket_of.get(id(p), ()):
                    bucket.missing.discard(id(p))
            self._unused = []
        buckets = self._buckets
        while self._next < len(buckets) and not buckets[self._next].missing:
            self._next += 1
            self._launch(buckets[self._next - 1])
            if self._next == len(buckets):
                self._finish()

    def _launch(self, bucket: Any) -> None:
        group = self.process_group
        if not self._looks and self._hook is None and not self._overlaps:
            lane = group.busy_lane("collectives", -1)
            if lane is None:
                bucket.reduce(group, self._divisor, self._precision.reduce_dtype)
                return
        divisor, dtype = self._divisor, self._precision.reduce_dtype
        if bucket.is_sparse:
            x = bucket.own()
            totals: list[Any] = []
            work = Work(lambda: totals.append(bucket.join(group, x, divisor, dtype)), totals)
            self._open.append((bucket, None, None, self._begun(work).get_future()))
            return
        if self._hook is not None:
            offsets, total = bucket.contiguous_offsets()
        else:
            offsets, total = bucket.offsets, bucket.total
        flat, is_own = bucket.collect(offsets, total)
        if self._hook is not None:
            at = self._next - 1
            tensor = GradBucket(at, wrap(flat), bucket.parameters, at + 1 == len(self._buckets))
            future = asked(self._hook, self._hook_state, tensor)
        else:
            work = Work(lambda: bucket.join(group, flat, divisor, dtype), wrap(flat))
            future = self._begun(work).get_future()
        self._open.append((bucket, flat, None if is_own else offsets, future))

    def _begun(self, work: Work) -> Work:
        if self._overlaps or self.process_group.busy_lane("collectives", -1):
            return self.process_group.lane("collectives").put(work)
        work.run()
        return work.finish()

    def _finish(self) -> None:
        """The end of a backward: all reductions are awaited, and their results put in place."""
        opened, self._open = self._open, []
        used = None
        if self._looks:
            for *_, future in opened:
                future.wait()
            used = used_anywhere(self.process_group, self._trained, self._used)
        if self._optimizers:
            late = {id(bucket) for bucket, *_ in opened}
            for bucket in self._buckets:  # what was reduced within backward
                if id(bucket) not in late:
                    self._update(bucket)
        for bucket, flat, offsets, future in opened:
            result = future.wait()
            if bucket.is_sparse:
                bucket.take(result[0], used)
                self._update(bucket)
                continue
            array = result[0].array if isinstance(result, (list, tuple)) else result.array
            if array is not flat:
                np.copyto(flat, array.reshape(-1), casting="unsafe")
            if offsets is not None:
                bucket.copy_to_gradients(flat, offsets, used)
            self._update(bucket)  # while later ones are still under way
        self._n_steps += 1

    def _update(self, bucket: Any) -> None:
        optimizer = self._optimizers.get(id(bucket))
        if optimizer is not None:
            optimizer.step()

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, gradients only add up on each rank; the first forward and backward after it
        averages the sums.
        """
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: object, hook: Hook) -> None:
        """Has `hook(state, bucket)` reduce the buckets; it returns a Future of the averaged buffer.

        Hooks that are ready: shmtensor.distributed.algorithms.ddp_comm_hooks.

        Raises:
            RuntimeError: there is one already.
        """
        if not callable(hook):
            raise TypeError(f"register_comm_hook: the hook cannot be called: {hook!r}")
        if self._hook is not None:
            raise RuntimeError("register_comm_hook: there is a hook already: only one can be")
        self._hook, self._hook_state = hook, state

    # ---------------------------------------------------------------- uneven inputs
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
        """Inside, ranks may have different numbers of inputs; those without go on answering.

        Args:
            divide_by_initial_world_size: sums of gradients are divided by the number of all ranks;
                False: of those that still have inputs.
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, divide_by_initial_world_size: bool = True, **kwargs: Any) -> JoinHook:
        """What a joined rank does meanwhile."""
        self._divides_by_all = divide_by_initial_world_size
        return ShadowReductions(self)

    def _run_shadow_step(self, syncs: bool) -> None:
        self._divisor = None
        if not self._joining.enable:
            return
        group = self.process_group
        Join.notify_join_context(self)
        active = summed(group, 1)
        if not self._divides_by_all:
            self._divisor = active
        sends = self.broadcast_buffers and self.training and self.require_backward_grad_sync
        summed(group, int(syncs) | int(sends) << 1, ReduceOp.MAX)
