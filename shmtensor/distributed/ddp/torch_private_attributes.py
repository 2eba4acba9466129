"""PyTorch's private methods of DistributedDataParallel that scripts call."""

from __future__ import annotations

from typing import Any

from ..group.process_group import ProcessGroup
from .bucket import BuiltinCommHookType

__all__ = ["TorchPrivateNames"]


class TorchPrivateNames:
    """A base class of DistributedDataParallel, which sets these attributes."""

    process_group: ProcessGroup
    register_comm_hook: Any
    find_unused_parameters: bool
    gradient_as_bucket_view: bool
    static_graph: bool
    _buckets: list[Any]
    _trainable: list[Any]
    _optimizers: dict[int, Any]
    _finds_unused: bool
    _overlaps: bool
    _n_steps: int

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
