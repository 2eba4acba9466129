"""Checks of a loader's arguments."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from .seeding import is_generator

# Attributes that cannot change: samplers, workers and running epochs were made from them.
FIXED = frozenset(
    {"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"}
)


def check_extras(workers: int, restarts: int, stall: float | None, every: int) -> None:
    if restarts < 0 or (restarts and not workers):
        raise ValueError(
            f"DataLoader: restart_workers is a number of workers: {restarts} with "
            f"num_workers={workers}"
        )
    if stall is not None and stall <= 0:
        raise ValueError(f"DataLoader: stall_warning is not a number of seconds: {stall}")
    if every <= 0:
        raise ValueError(f"DataLoader: snapshot_every_n_steps is not positive: {every}")


def check_numbers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    for name, count in (("num_workers", num_workers), ("prefetch_factor", prefetch_factor)):
        if count is not None and not hasattr(count, "__index__"):
            raise TypeError(f"DataLoader: {name} is not a whole number: {count!r:.80}")
    if not hasattr(timeout, "__float__"):
        raise TypeError(f"DataLoader: timeout is not a number of seconds: {timeout!r:.80}")
    if num_workers < 0:
        raise ValueError(f"DataLoader: num_workers is negative: {num_workers}")
    if timeout < 0:
        raise ValueError(f"DataLoader: timeout is negative: {timeout}")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            f"DataLoader: prefetch_factor needs workers: {prefetch_factor} with num_workers=0"
        )
    if prefetch_factor is not None and prefetch_factor <= 0:
        raise ValueError(f"DataLoader: prefetch_factor is not positive: {prefetch_factor}")
    if num_workers == 0 and persistent_workers:
        raise ValueError("DataLoader: persistent_workers needs workers: num_workers is 0")


def check_dataset(dataset: object, needs_length: bool) -> None:
    """Raises TypeError for what is no data set, or has no length that a sampler needs."""
    where = f"DataLoader: {type(dataset).__name__}"
    if not hasattr(dataset, "__getitem__") and not hasattr(dataset, "__iter__"):
        raise TypeError(
            f"{where} is no data set: {dataset!r:.80}, it needs __getitem__ and __len__, or "
            "__iter__ as an IterableDataset"
        )
    if needs_length and not hasattr(dataset, "__len__"):
        raise TypeError(
            f"{where} has no __len__, which says how many samples there are: {dataset!r:.80}, "
            "define it, or pass a sampler; a stream without a length is an IterableDataset"
        )


def check_order(sampler: object, batch_sampler: object, generator: object) -> None:
    """Raises TypeError for a sampler that cannot be iterated, and for no generator."""
    for name, value in (("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None and not any(hasattr(value, m) for m in ("__iter__", "__getitem__")):
            raise TypeError(
                f"DataLoader: {name} is not iterable: {value!r:.80}, it gives indices of samples"
                + (", a list for each batch" if name == "batch_sampler" else "")
            )
    if generator is not None and not is_generator(generator):
        raise TypeError(
            f"DataLoader: generator is not a Generator: {generator!r:.80}, use "
            "Generator().manual_seed(n)"
        )


def check_functions(**functions: object) -> None:
    """Raises TypeError for what is neither None nor can be called."""
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise TypeError(f"DataLoader: {name} cannot be called: {function!r:.80}")


# Whose arrays the batches hold; None, too: those of the samples.
OUTPUTS = ("shmtensor", "numpy", "torch", "jax")


def check_output(output: object) -> None:
    if output is None or output == "shmtensor" or output == "numpy":
        return
    if output not in OUTPUTS:
        raise ValueError(
            f"DataLoader: output is not a library: {output!r}, use one of {OUTPUTS}, or None for "
            "that of the samples"
        )
    if find_spec(str(output)) is None:
        raise ModuleNotFoundError(
            f"DataLoader: output is {output!r}, and that library is not installed: pip install "
            f"{output}",
            name=str(output),
        )


def check_stream(shuffle: object, sampler: object, batch_sampler: object) -> None:
    for name, value in (("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None:
            raise ValueError(f"DataLoader: an IterableDataset has its own order: {name}={value!r}")
    if shuffle:
        raise ValueError("DataLoader: an IterableDataset has its own order: shuffle=True")


def context_of(context: Any, num_workers: int) -> Any:
    """The start method of `multiprocessing_context`, a string or a context; None: the default."""
    if context is None:
        return None
    if not num_workers:
        raise ValueError(
            f"DataLoader: multiprocessing_context needs workers: {context!r} with num_workers=0"
        )
    if isinstance(context, str):
        if context not in ("fork", "forkserver", "spawn"):
            raise ValueError(
                f"DataLoader: multiprocessing_context is not a start method: {context!r}, use "
                "'fork', 'forkserver' or 'spawn'"
            )
        return context
    if not hasattr(context, "get_start_method"):
        raise TypeError(
            "DataLoader: multiprocessing_context is neither a start method nor a context: "
            f"{context!r}"
        )
    return context.get_start_method()
