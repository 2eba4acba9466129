"""Selective checkpointing: a policy says of each op whether its results are kept.

In the first run the results of kept ops are put away, with all that their nodes save. The second
run takes them from there instead of calling the op, and records what depends on them as usual.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from .. import native
from ..ops.random.philox import default_generator
from .checkpoint import promised
from .dispatch.observers import calling
from .dispatch.op_function import table
from .engine.views_and_inplace import requires_grad

__all__ = [
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
]

Policy = Callable[..., Any]


class CheckpointPolicy(enum.Enum):
    """What a policy answers: SAVE and CPU_OFFLOAD keep an op's results, RECOMPUTE does not. MUST
    and PREFER mean the same here.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


RECOMPUTED = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)


class SelectiveCheckpointContext:
    """What a policy is told besides the op and its arguments.

    Attributes:
        is_recompute: False: a policy is asked in the first run only.
        op_output: what the op gave.
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Policy | Sequence[Any], allow_cache_entry_mutation: bool = False
) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Two contexts, which the `context_fn` of a `checkpoint` returns anew each time.

    ```python
    kept = functools.partial(create_selective_checkpoint_contexts, [st.matmul])
    y = checkpoint(part, x, use_reentrant=False, context_fn=kept)
    ```

    Args:
        policy_fn_or_list: `policy(context, op, *args, **kwargs)` gives a CheckpointPolicy, or
            whether to keep; op is a row such as `st.matmul`. Or a list of functions whose results
            are kept. In-place forms are computed again in any case.
        allow_cache_entry_mutation: kept results may be written before they are used.

    Raises:
        RuntimeError: in backward: the second run calls other ops, a kept result was written, or
            there is a second backward.
        TypeError: neither a function nor a list.
    """
    if isinstance(policy_fn_or_list, (list, tuple)):
        ops = [op_of(f) for f in policy_fn_or_list]
        cache = Cache(listed(ops), allow_cache_entry_mutation)
        cache.whole = {op for op in ops if not isinstance(op, native.OpFunction)}
    elif callable(policy_fn_or_list):
        cache = Cache(policy_fn_or_list, allow_cache_entry_mutation)
    else:
        raise TypeError(
            "create_selective_checkpoint_contexts: policy_fn_or_list must be a function or a list "
            f"of ops: {type(policy_fn_or_list).__name__}"
        )
    return calling(cache.compute), Reuse(cache)


def op_of(function: Any) -> Any:
    """The op that a function is, or is a name of (`nn.functional.relu`).

    Raises:
        TypeError: it is none.
    """
    name = getattr(function, "__name__", "")
    op = function if hasattr(function, "unobserved") else getattr(table, name, None)
    if op is None:
        raise TypeError(f"create_selective_checkpoint_contexts: not an op: {function!r}")
    return op


def listed(ops: Sequence[Any]) -> Policy:
    """The policy that keeps the results of these."""
    rules = {op.rule for op in ops if isinstance(op, native.OpFunction)}

    def policy(context: SelectiveCheckpointContext, op: Any, *args: Any, **named: Any) -> bool:
        return op.rule in rules

    return policy


USED = object()


class Result:
    """A kept result.

    Attributes:
        parts: (array, version, count of writes, requires grad?) of each tensor in it.
        state: of the random generator after the op, if that drew numbers.
    """

    def __init__(self, output: Any, state: Any) -> None:
        tensors = output if isinstance(output, tuple) else (output,)
        self.cls = type(output) if isinstance(output, tuple) else None
        self.parts = []
        for t in tensors:
            shared = t.detach()
            self.parts.append((t.array, shared.version, shared._version, requires_grad(t)))
        self.state = state

    def tensors(self, op: Any, may_change: bool) -> Any:
        """The result once more, as leaves."""
        made = []
        for array, version, count, tracked in self.parts:
            if version.count != count and not may_change:
                raise RuntimeError(
                    f"create_selective_checkpoint_contexts: {op.event}: Tensor cached during "
                    "selective activation checkpoint has been mutated: shape "
                    f"{array.shape}; allow_cache_entry_mutation=True allows it"
                )
            made.append(native.wrap(array).requires_grad_(tracked))
        if self.state is not None:
            default_generator.write(self.state)
        if self.cls is None:
            return made[0]
        return self.cls(*made) if hasattr(self.cls, "_fields") else self.cls(made)


class Cache:
    """The kept results of one checkpoint.

    Attributes:
        results: per op, for each of its calls: a Result, None if it is computed again, or USED.
        whole: functions that are no rows: all that they call is kept.
    """

    def __init__(self, policy: Policy, may_change: bool) -> None:
        self.policy, self.may_change = policy, may_change
        self.results: dict[Any, list[Any]] = defaultdict(list)
        self.whole: set[Any] = set()
        self.depth = 0  # of the calls of such functions

    def compute(self, called: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """A call in the first run."""
        if not isinstance(called, native.OpFunction):
            inside = called in self.whole
            self.depth += inside
            try:
                return called.unobserved(*args, **named)
            finally:
                self.depth -= inside
        outer, promised.now = promised.now, []
        before = default_generator.read()
        try:
            output = called.unobserved(*args, **named)
        finally:
            inner, promised.now = promised.now, outer
        if self.keeps(called, output, args, named):
            after = default_generator.read()
            self.results[called.rule].append(
                Result(output, after if (after != before).any() else None)
            )
            for promise, tensor in reversed(inner):
                promise.keep(tensor)
        else:
            self.results[called.rule].append(None)
            if outer is not None:
                outer += inner
        return output

    def keeps(self, op: Any, output: Any, args: tuple[Any, ...], named: dict[str, Any]) -> bool:
        context = SelectiveCheckpointContext(is_recompute=False, op_output=output)
        answer = self.depth > 0 or self.policy(context, op, *args, **named)
        if op is op.rule.inplace:
            return False
        return answer not in RECOMPUTED if isinstance(answer, CheckpointPolicy) else bool(answer)


class Reuse:
    """Around a second run, of which there may be several: they take what is kept."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.calls: dict[Any, int] = defaultdict(int)
        self.block: AbstractContextManager[None]

    def __enter__(self) -> None:
        self.calls.clear()
        self.block = calling(self.call)
        self.block.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.block.__exit__(*error)

    def call(self, called: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """A call in a second run."""
        if not isinstance(called, native.OpFunction):
            return called.unobserved(*args, **named)
        results, at = self.cache.results[called.rule], self.calls[called.rule]
        self.calls[called.rule] += 1
        if at >= len(results):
            raise RuntimeError(
                f"create_selective_checkpoint_contexts: {called.event}: call {at} encountered "
                "during backward but not in forward: a checkpointed function must call the same "
                "ops when it is run again"
            )
        result = results[at]
        if result is None:
            return called.unobserved(*args, **named)
        if result is USED:
            raise RuntimeError(
                "create_selective_checkpoint_contexts: Trying to backward an extra time. You are "
                "only allowed to backward once on any region computed under selective activation "
                "checkpoint"
            )
        results[at] = USED
        return result.tensors(called, self.cache.may_change)
