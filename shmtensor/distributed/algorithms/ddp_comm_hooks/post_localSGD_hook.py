"""Post-local SGD (Lin, Stich, Patel, Jaggi 2018): gradients are averaged over all ranks at first,
later over a subgroup; the models are averaged now and then (../model_averaging).
"""

from __future__ import annotations

from ...ddp.bucket import GradBucket
from ...group.new_subgroups import new_subgroups
from ...group.process_group import ProcessGroup
from ...group.work import Future
from .default_hooks import allreduce_hook, noop_hook

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """The state of the hook between steps.

    Args:
        process_group: averages the gradients at first; None: the default one.
        subgroup: averages them later; None: the ranks of this machine (`new_subgroups`).
        start_localSGD_iter: the number of steps with `process_group`.
        post_local_gradient_allreduce: False: later gradients are not averaged at all.

    Attributes:
        iter: steps so far, up to start_localSGD_iter.
    """

    def __init__(
        self,
        process_group: ProcessGroup | None,
        subgroup: ProcessGroup | None,
        start_localSGD_iter: int,
        post_local_gradient_allreduce: bool = True,
    ) -> None:
        self.process_group = process_group
        self.subgroup = subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Counts a step with its last bucket."""
        self.iter += bucket.is_last()


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Future:
    """Averages a bucket over all ranks for `start_localSGD_iter` steps, then over the subgroup."""
    if state.iter < state.start_localSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    if not state.post_local_gradient_allreduce:
        return noop_hook(None, bucket)
    if state.subgroup is None:
        state.subgroup, _ = new_subgroups()
    return allreduce_hook(state.subgroup, bucket)
