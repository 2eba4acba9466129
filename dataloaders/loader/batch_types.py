"""What type checkers know of a loader's batches: which samples `default_collate` makes tensors of,
and the arguments that do not matter for it. Nothing is imported at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypedDict

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import Never, TypeVar

    from shmtensor.tensor import Tensor

    from ..dataset import Dataset
    from ..sampler import Sampler
    from .seeding import GeneratorLike

    Number: TypeAlias = Tensor | np.ndarray[Any, Any] | float | np.number[Any]

    T_co = TypeVar("T_co", covariant=True)
    Batch_co = TypeVar("Batch_co", covariant=True, default=Any)
    NumberT = TypeVar("NumberT", bound=Number)
    TupleT = TypeVar("TupleT", bound=tuple[Number, ...])
    DictT = TypeVar("DictT", bound=Mapping[str, Number])

    # Only Any is a Never: of samples that nobody has typed nothing is known.
    AnySample: TypeAlias = Dataset[Never] | Dataset[tuple[Never, ...]] | Dataset[dict[str, Never]]

    class SamplesByIndex(Protocol[T_co]):
        """Any object with `__getitem__` and `__len__`."""

        def __getitem__(self, index: int, /) -> T_co: ...
        def __len__(self) -> int: ...

    class Options(TypedDict, total=False):
        """The arguments of a DataLoader that do not change the type of its batches."""

        sampler: Sampler[Any] | Iterable[Any] | None
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None
        num_workers: int
        pin_memory: bool
        drop_last: bool
        timeout: float
        worker_init_fn: Callable[[int], None] | None
        multiprocessing_context: Any
        generator: GeneratorLike
        prefetch_factor: int | None
        persistent_workers: bool
        pin_memory_device: str
        in_order: bool
        restart_workers: int
        stall_warning: float | None
        snapshot_every_n_steps: int
        write_warning: bool
