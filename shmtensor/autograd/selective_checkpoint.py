"""Selective checkpointing: a policy decides for each op whether its results are kept.

The first run stores the results of kept ops, and all that their nodes save. The recomputation takes
them from there instead of calling the op, and records the ops that depend on them as usual.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from .. import native
from ..ops.random.generators import read_states, write_states
from .checkpoint import placeholder_log
from .dispatch.observers import call_through
from .dispatch.op_function import table
from .engine.views_and_inplace import requires_grad

Policy = Callable[..., Any]


class CheckpointPolicy(enum.Enum):
    """What a policy returns: SAVE and CPU_OFFLOAD keep an op's results, RECOMPUTE does not; MUST
    and PREFER mean the same here.

    See Also
    --------
    create_selective_checkpoint_contexts

    Examples
    --------
    >>> from shmtensor.utils.checkpoint import CheckpointPolicy
    >>> CheckpointPolicy.MUST_SAVE.name
    'MUST_SAVE'
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


RECOMPUTE = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)


class SelectiveCheckpointContext:
    """An argument of a policy, besides the op and its arguments.

    Parameters
    ----------
    is_recompute : bool
        Always False, because a policy is called in the first run only.
    op_output : any, optional
        The result of the op.

    Examples
    --------
    >>> from shmtensor.utils.checkpoint import SelectiveCheckpointContext
    >>> SelectiveCheckpointContext(is_recompute=False).is_recompute
    False
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Policy | Sequence[Any], allow_cache_entry_mutation: bool = False
) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Two contexts, for the `context_fn` of a `checkpoint`, which returns new ones each time: some
    results are kept, others recomputed.

    Parameters
    ----------
    policy_fn_or_list : callable or list
        `policy(context, op, *args, **kwargs)` returns a CheckpointPolicy, or a bool: whether to
        keep; op is a row such as `st.matmul`. Or a list of functions whose results are kept.
        In-place forms are always recomputed.
    allow_cache_entry_mutation : bool, optional
        Whether kept results may be written before they are used.

    Returns
    -------
    (first, recomputation) : context managers

    Raises
    ------
    RuntimeError
        In backward: the recomputation calls other ops, a kept result was written, or it is a second
        backward.
    TypeError
        Neither a function nor a list.

    See Also
    --------
    checkpoint

    Examples
    --------
    >>> import functools
    >>> from shmtensor.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> contexts = functools.partial(create_selective_checkpoint_contexts, [st.matmul])
    >>> x = st.ones(2, 2, requires_grad=True)
    >>> def function(x):
    ...     return (x @ x).relu().sum()
    >>> checkpoint(function, x, use_reentrant=False, context_fn=contexts).backward()
    >>> x.grad
    tensor([[4., 4.],
            [4., 4.]])
    """
    if isinstance(policy_fn_or_list, (list, tuple)):
        ops = [as_op(f) for f in policy_fn_or_list]
        cache = Cache(policy_of_list(ops), allow_cache_entry_mutation)
        cache.composites = {op for op in ops if not isinstance(op, native.OpFunction)}
    elif callable(policy_fn_or_list):
        cache = Cache(policy_fn_or_list, allow_cache_entry_mutation)
    else:
        raise TypeError(
            "create_selective_checkpoint_contexts: policy_fn_or_list must be a function or a list "
            f"of ops: {type(policy_fn_or_list).__name__}"
        )
    return call_through(cache.compute), Reuse(cache)


def as_op(function: Any) -> Any:
    """The op of a function, which may be an alias (`nn.functional.relu`).

    Raises:
        TypeError: it is not an op.
    """
    name = getattr(function, "__name__", "")
    op = function if hasattr(function, "unobserved") else getattr(table, name, None)
    if op is None:
        raise TypeError(f"create_selective_checkpoint_contexts: not an op: {function!r}")
    return op


def policy_of_list(ops: Sequence[Any]) -> Policy:
    """The policy that keeps the results of these ops."""
    rules = {op.rule for op in ops if isinstance(op, native.OpFunction)}

    def policy(context: SelectiveCheckpointContext, op: Any, *args: Any, **kwargs: Any) -> bool:
        return op.rule in rules

    return policy


USED = object()


class Result:
    """A kept result.

    Attributes:
        saved: (array, version, count of writes, requires grad?) of each tensor in it.
        state: the random generator's state after the op, if the op drew numbers.
    """

    def __init__(self, output: Any, state: Any) -> None:
        tensors = output if isinstance(output, tuple) else (output,)
        self.cls = type(output) if isinstance(output, tuple) else None
        self.saved = []
        for t in tensors:
            shared = t.detach()
            self.saved.append((t.array, shared.version, shared._version, requires_grad(t)))
        self.state = state

    def tensors(self, op: Any, may_change: bool) -> Any:
        """The result again, as leaves."""
        results = []
        for array, version, count, needs_grad in self.saved:
            if version.count != count and not may_change:
                raise RuntimeError(
                    f"create_selective_checkpoint_contexts: {op.event}: Tensor cached during "
                    "selective activation checkpoint has been mutated: shape "
                    f"{array.shape}; allow_cache_entry_mutation=True allows it"
                )
            results.append(native.wrap(array).requires_grad_(needs_grad))
        if self.state is not None:
            write_states(self.state)
        if self.cls is None:
            return results[0]
        return self.cls(*results) if hasattr(self.cls, "_fields") else self.cls(results)


class Cache:
    """The kept results of one checkpoint.

    Attributes:
        results: per op, for each of its calls: a Result, None if it is recomputed, or USED.
        composites: functions that are not rows: the results of all their ops are kept.
    """

    def __init__(self, policy: Policy, may_change: bool) -> None:
        self.policy, self.may_change = policy, may_change
        self.results: dict[Any, list[Any]] = defaultdict(list)
        self.composites: set[Any] = set()
        self.depth = 0  # of the open calls of composites

    def compute(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Makes a call in the first run."""
        if not isinstance(op, native.OpFunction):
            is_composite = op in self.composites
            self.depth += is_composite
            try:
                return op.unobserved(*args, **kwargs)
            finally:
                self.depth -= is_composite
        outer_log, placeholder_log.now = placeholder_log.now, []
        state = read_states()
        try:
            output = op.unobserved(*args, **kwargs)
        finally:
            inner_log, placeholder_log.now = placeholder_log.now, outer_log
        if self.keeps(op, output, args, kwargs):
            new_state = read_states()
            self.results[op.rule].append(Result(output, new_state if new_state != state else None))
            for placeholder, tensor in reversed(inner_log):
                placeholder.keep(tensor)
        else:
            self.results[op.rule].append(None)
            if outer_log is not None:
                outer_log += inner_log
        return output

    def keeps(self, op: Any, output: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        context = SelectiveCheckpointContext(is_recompute=False, op_output=output)
        decision = self.depth > 0 or self.policy(context, op, *args, **kwargs)
        if op is op.rule.inplace:
            return False
        return (
            decision not in RECOMPUTE if isinstance(decision, CheckpointPolicy) else bool(decision)
        )


class Reuse:
    """The context of a recomputation, which uses the kept results. There may be several."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.calls: dict[Any, int] = defaultdict(int)
        self.block: AbstractContextManager[None]

    def __enter__(self) -> None:
        self.calls.clear()
        self.block = call_through(self.call)
        self.block.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.block.__exit__(*error)

    def call(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Makes a call in a recomputation."""
        if not isinstance(op, native.OpFunction):
            return op.unobserved(*args, **kwargs)
        results, index = self.cache.results[op.rule], self.calls[op.rule]
        self.calls[op.rule] += 1
        if index >= len(results):
            raise RuntimeError(
                f"create_selective_checkpoint_contexts: {op.event}: call {index} encountered "
                "during backward but not in forward: a checkpointed function must call the same "
                "ops when it is run again"
            )
        result = results[index]
        if result is None:
            return op.unobserved(*args, **kwargs)
        if result is USED:
            raise RuntimeError(
                "create_selective_checkpoint_contexts: Trying to backward an extra time. You are "
                "only allowed to backward once on any region computed under selective activation "
                "checkpoint"
            )
        results[index] = USED
        return result.tensors(op, self.cache.may_change)
