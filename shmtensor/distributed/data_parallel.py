"""DataParallel, PyTorch's older form: one process splits the batch; a thread runs each part."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from .. import native
from ..autograd import enable_grad, is_grad_enabled, no_grad
from ..cuda_arrays import device_of
from ..cupy_runtime import device_count
from ..device import CPU, Device, as_device
from ..functions import cat, chunk
from ..nn import Module

__all__ = ["DataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter"]


def make_sequence(cls: Any, parts: Any) -> Any:
    """A list or tuple of class `cls`; a named tuple takes the parts as arguments."""
    return cls(*parts) if hasattr(cls, "_fields") else cls(parts)


def place_of(device: Any) -> Device:
    """The device of a part; the CPU for the number of a GPU where there are none."""
    return CPU if isinstance(device, int) and not device_count() else as_device(device)


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> list[Any]:
    """A part of the inputs for each target: tensors are split along `dim` and moved there, other
    objects repeated.

    Parameters
    ----------
    inputs : any
        Tensors, also within lists, tuples and dictionaries.
    target_gpus : sequence of device
        The device of each part.
    dim : int, optional
        The dimension that is split.

    Returns
    -------
    list
        The parts, of the structure of the inputs.

    See Also
    --------
    gather

    Examples
    --------
    >>> from shmtensor.nn.parallel import scatter
    >>> scatter((st.arange(4), "same"), ["cpu", "cpu"])
    [(tensor([0, 1]), 'same'), (tensor([2, 3]), 'same')]
    """
    n = len(target_gpus)
    if isinstance(inputs, native.TensorBase):
        parts: Any = chunk(inputs, n, dim)  # type: ignore[arg-type]
        return [part.to(place_of(target)) for part, target in zip(parts, target_gpus)]
    if isinstance(inputs, (tuple, list)) and inputs:
        parts = list(zip(*(scatter(each, target_gpus, dim) for each in inputs), strict=False))
        return [make_sequence(type(inputs), part) for part in parts]
    if isinstance(inputs, dict) and inputs:
        columns = {key: scatter(each, target_gpus, dim) for key, each in inputs.items()}
        n_parts = min(len(column) for column in columns.values())
        return [
            type(inputs)((key, column[i]) for key, column in columns.items())
            for i in range(n_parts)
        ]
    return [inputs for _ in range(n)]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """A module for each device: itself where its parameters are, elsewhere a replica.

    Parameters
    ----------
    network : Module
        The module.
    devices : sequence of device
        The devices.
    detach : bool, optional
        Whether gradients of the replicas' parameters do not flow back to its own.

    Returns
    -------
    list of Module
        Copies: none on its own device, one to each other device.

    Examples
    --------
    >>> from shmtensor.nn.parallel import replicate
    >>> model = nn.Linear(2, 1)
    >>> [replica is model for replica in replicate(model, ["cpu", "cpu"])]
    [True, True]
    """
    own = {p.device for p in network.parameters()}
    return [
        network if own <= {target} else replica_of(network, target, detach, {})
        for target in map(place_of, devices)
    ]


def replica_of(module: Module, device: Device, detach: bool, memo: dict[int, Any]) -> Module:
    """A module with copies of the parameters and buffers of `module`, and of its modules.

    Args:
        memo: id of a tensor or module -> its copy, for those that occur twice.
    """

    def moved(x: Any) -> Any:
        if x is None:
            return None
        if id(x) not in memo:
            memo[id(x)] = (x.detach() if detach else x).to(device)
        return memo[id(x)]

    if id(module) in memo:
        return memo[id(module)]  # type: ignore[no-any-return]
    replica: Any = module.__new__(type(module))
    replica.__dict__.update(module.__dict__)
    memo[id(module)] = replica
    parts: Any = module
    replica._parameters = {name: moved(p) for name, p in parts._parameters.items()}
    replica._buffers = {name: moved(b) for name, b in parts._buffers.items()}
    replica._modules = {
        name: None if child is None else replica_of(child, device, detach, memo)
        for name, child in parts._modules.items()
    }
    return replica  # type: ignore[no-any-return]


def parallel_apply(
    modules: Sequence[Any],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """`module(*inputs)` for each pair of both, each in a thread.

    Parameters
    ----------
    modules : sequence of Module
        The modules.
    inputs : sequence
        The arguments of each: a tuple, or one tensor.
    kwargs_tup : sequence of dict, optional
        The arguments by name of each.
    devices : sequence of device, optional
        Accepted; has no effect.

    Returns
    -------
    list
        The outputs.

    Notes
    -----
    The first error of a module is raised when all have ended.

    Examples
    --------
    >>> from shmtensor.nn.parallel import parallel_apply
    >>> parallel_apply([nn.ReLU(), nn.Identity()], [st.tensor([-1.]), st.tensor([-2.])])
    [tensor([0.]), tensor([-2.])]
    """
    kwargs_tup = kwargs_tup or [{} for _ in modules]
    results: list[Any] = [None] * len(modules)
    errors: list[BaseException | None] = [None] * len(modules)
    mode = enable_grad if is_grad_enabled() else no_grad

    def run(i: int) -> None:
        args = inputs[i] if isinstance(inputs[i], (tuple, list)) else (inputs[i],)
        try:
            with mode():
                results[i] = modules[i](*args, **kwargs_tup[i])
        except BaseException as error:
            errors[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(1, len(modules))]
    for thread in threads:
        thread.start()
    if modules:
        run(0)
    for thread in threads:
        thread.join()
    for error in errors:
        if error is not None:
            raise error
    return results


def gather(outputs: Sequence[Any], target_device: Any = None, dim: int = 0) -> Any:
    """The parts of outputs concatenated along `dim` on one device.

    Parameters
    ----------
    outputs : sequence
        The parts: tensors, also within lists, tuples and dictionaries.
    target_device : device, optional
        Where; the first part's device if None.
    dim : int, optional
        The dimension of the parts.

    Returns
    -------
    any
        Of the structure of a part.

    See Also
    --------
    scatter

    Examples
    --------
    >>> from shmtensor.nn.parallel import gather
    >>> gather([st.tensor([1, 2]), st.tensor([3])], "cpu")
    tensor([1, 2, 3])
    """
    first = outputs[0]
    if isinstance(first, native.TensorBase):
        target = device_of(first.array) if target_device is None else place_of(target_device)
        outputs = [each.to(target) for each in outputs]
        if first.array.ndim == 0:
            return cat([each.reshape(1) for each in outputs], 0)
        return cat(list(outputs), dim)
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)(
            (key, gather([each[key] for each in outputs], target_device, dim)) for key in first
        )
    parts = [gather(list(part), target_device, dim) for part in zip(*outputs, strict=True)]
    return make_sequence(type(first), parts)


class DataParallel(Module):
    """Runs a module on parts of the batch, in threads of this process.

    It exists for scripts that use it. DistributedDataParallel, with a process for each part, is
    faster, because Python runs one thread at a time.

    Parameters
    ----------
    module : Module
        The model.
    device_ids : list, optional
        The device of each part; without a GPU, numbers are parts on the CPU. None: every GPU if the
        module is on one, else one part on the CPU.
    output_device : device, optional
        Of the outputs; the first of device_ids if None.
    dim : int, optional
        The dimension along which the inputs are split and the outputs concatenated.

    See Also
    --------
    DistributedDataParallel

    Examples
    --------
    >>> model = nn.DataParallel(nn.Linear(2, 1), device_ids=["cpu", "cpu"])
    >>> model(st.ones(5, 2)).shape
    Size([5, 1])
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module = module
        is_on_gpu = any(p.is_cuda for p in module.parameters())
        default = [f"cuda:{i}" for i in range(device_count())] if is_on_gpu else ["cpu"]
        self.device_ids = list(device_ids or default)
        self.output_device = self.device_ids[0] if output_device is None else output_device
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's output for the full batch."""
        if len(self.device_ids) == 1 or not inputs:
            return self.module(*inputs, **kwargs)
        parts, part_kwargs = self.scatter(inputs, kwargs, self.device_ids)
        device_ids = self.device_ids[: len(parts)]
        replicas = self.replicate(self.module, device_ids)
        return self.gather(self.parallel_apply(replicas, parts, part_kwargs), self.output_device)

    # Subclasses may override these.
    def scatter(
        self, inputs: tuple[Any, ...], kwargs: dict[str, Any], device_ids: Sequence[Any]
    ) -> tuple[list[Any], list[dict[str, Any]]]:
        """The positional and the keyword arguments of each part."""
        parts = scatter(inputs, device_ids, self.dim)
        part_kwargs = scatter(kwargs, device_ids, self.dim) if kwargs else []
        n = max(len(parts), len(part_kwargs))
        return [*parts, *[()] * (n - len(parts))], [
            *part_kwargs,
            *({} for _ in range(n - len(part_kwargs))),
        ]

    def replicate(self, module: Module, device_ids: Sequence[Any]) -> list[Module]:
        """The module for each part. Copies: none."""
        return replicate(module, device_ids)

    def parallel_apply(
        self, replicas: Sequence[Any], inputs: Sequence[Any], kwargs: Sequence[dict[str, Any]]
    ) -> list[Any]:
        """The output of each part's module."""
        return parallel_apply(replicas, inputs, kwargs)

    def gather(self, outputs: Sequence[Any], output_device: Any) -> Any:
        """The concatenated outputs of the parts."""
        return gather(outputs, output_device, self.dim)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """The output of a module for a batch, computed in parts as by `DataParallel`.

    Parameters
    ----------
    module : Module
        The model.
    inputs : Tensor or tuple
        Its arguments.
    device_ids : list, optional
        The device of each part.
    output_device : device, optional
        Of the outputs.
    dim : int, optional
        The dimension along which the inputs are split.
    module_kwargs : dict, optional
        Arguments by name.

    Returns
    -------
    any
        What the module returns, concatenated.

    See Also
    --------
    DataParallel

    Examples
    --------
    >>> from shmtensor.nn.parallel import data_parallel
    >>> data_parallel(nn.Linear(2, 1), st.ones(5, 2), ["cpu", "cpu"]).shape
    Size([5, 1])
    """
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*args, **(module_kwargs or {}))
