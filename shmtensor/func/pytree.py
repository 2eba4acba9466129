"""Nested containers of tensors: lists, tuples, dictionaries, taken apart and put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["flat", "mapped"]

Rebuild = Callable[[list[Any]], Any]


def flat(tree: Any) -> tuple[list[Any], Rebuild]:
    """The leaves, and a function that puts as many others in their places."""
    if isinstance(tree, dict):
        keys = list(tree)
        return joined([tree[k] for k in keys], lambda parts: same_type(tree, zip(keys, parts)))
    if isinstance(tree, (list, tuple)):
        kind: Any = type(tree)
        if hasattr(kind, "_fields"):
            return joined(list(tree), lambda parts: kind(*parts))
        return joined(list(tree), kind)
    return [tree], lambda leaves: leaves[0]


def same_type(tree: Any, items: Any) -> Any:
    """A dictionary of the same kind."""
    return type(tree)(items) if type(tree).__name__ in ("dict", "OrderedDict") else dict(items)


def joined(children: list[Any], build: Callable[[list[Any]], Any]) -> tuple[list[Any], Rebuild]:
    parts = [flat(child) for child in children]
    leaves = [leaf for found, _ in parts for leaf in found]

    def rebuild(given: list[Any]) -> Any:
        made, start = [], 0
        for found, put in parts:
            made.append(put(given[start : start + len(found)]))
            start += len(found)
        return build(made)

    return leaves, rebuild


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same containers with `function` of each leaf."""
    leaves, rebuild = flat(tree)
    return rebuild([function(leaf) for leaf in leaves])


def prefixed(prefix: Any, tree: Any, where: str) -> list[Any]:
    """For each leaf of the tree, what stands at its place in a prefix of the tree.

    Raises:
        ValueError: the prefix is another tree.
    """
    if isinstance(prefix, (dict, list, tuple)):
        same = (
            isinstance(tree, dict) if isinstance(prefix, dict) else isinstance(tree, (list, tuple))
        )
        if not same or len(prefix) != len(tree):
            raise ValueError(f"{where}: not compatible with the structure of the values: {prefix}")
        keys = list(tree) if isinstance(tree, dict) else range(len(tree))
        return [d for k in keys for d in prefixed(prefix[k], tree[k], where)]
    return [prefix] * len(flat(tree)[0])
