"""Sizes as tuples, and names of a state_dict without their prefix: torch.nn.modules.utils."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any, TypeAlias

__all__ = ["consume_prefix_in_state_dict_if_present"]

# One number for all dimensions, or one for each; OptionalSizes: None is the input's size.
Sizes: TypeAlias = int | Sequence[int]
OptionalSizes: TypeAlias = int | Sequence[int | None] | None
Ratios: TypeAlias = float | Sequence[float]


def check_sizes(module: object, **sizes: Any) -> None:
    """Raises TypeError for sizes of a layer, or tuples of them, that are not whole numbers."""
    for name, value in sizes.items():
        values = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
        if not all(hasattr(n, "__index__") for n in values):
            raise TypeError(
                f"{type(module).__name__}: {name} must be an int: got {type(value).__name__}, "
                f"{value!r:.80}"
            )


def sizes_of(value: Any) -> tuple[int, ...]:
    """The sizes that one int or several say."""
    return (int(value),) if isinstance(value, Integral) else tuple(value)


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """A function that makes a tuple of an iterable, and repeats anything else n times."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: Sequence[Any], n: int) -> tuple[Any, ...]:
    """The elements from the last to the first, each n times: a layer's padding for `F.pad`."""
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size: Any, defaults: Sequence[int]) -> Any:
    """The sizes, with None replaced by the last defaults; one number stays as it is."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(
            f"_list_with_default: the input must have {len(out_size) + 1} dimensions or more: "
            f"{tuple(defaults)}, for out_size {tuple(out_size)}"
        )
    last = defaults[len(defaults) - len(out_size) :]
    return [d if size is None else size for size, d in zip(out_size, last, strict=True)]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Removes the prefix from the names of a state_dict, in place.

    Then the state of a DistributedDataParallel, whose names begin with "module.", fits the module
    itself. Copies: none.

    Args:
        state_dict: tensors by dotted name.
        prefix: such as "module."; names without it stay.
    """
    tables: list[dict[str, Any]] = [state_dict]
    if hasattr(state_dict, "_metadata"):  # its names do not end with a dot
        tables.append(state_dict._metadata)
    for table in tables:
        for key in list(table):
            is_module_itself = table is not state_dict and key == prefix.removesuffix(".")
            if key.startswith(prefix) or (key and is_module_itself):
                table[key[len(prefix) :]] = table.pop(key)
