"""Flattens and rebuilds nested containers of tensors: lists, tuples, dictionaries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Rebuild = Callable[[list[Any]], Any]


def flatten(tree: Any) -> tuple[list[Any], Rebuild]:
    """The leaves, and a function that rebuilds the tree from as many other leaves."""
    if isinstance(tree, dict):
        keys = list(tree)
        return flatten_children(
            [tree[k] for k in keys], lambda parts: same_type(tree, zip(keys, parts))
        )
    if isinstance(tree, (list, tuple)):
        cls: Any = type(tree)
        if hasattr(cls, "_fields"):
            return flatten_children(list(tree), lambda parts: cls(*parts))
        return flatten_children(list(tree), cls)
    return [tree], lambda leaves: leaves[0]


def same_type(tree: Any, items: Any) -> Any:
    """A dictionary of the same class, or a dict."""
    return type(tree)(items) if type(tree).__name__ in ("dict", "OrderedDict") else dict(items)


def flatten_children(
    children: list[Any], build: Callable[[list[Any]], Any]
) -> tuple[list[Any], Rebuild]:
    flattened = [flatten(child) for child in children]
    leaves = [leaf for child_leaves, _ in flattened for leaf in child_leaves]

    def rebuild(values: list[Any]) -> Any:
        rebuilt, start = [], 0
        for child_leaves, rebuild_child in flattened:
            rebuilt.append(rebuild_child(values[start : start + len(child_leaves)]))
            start += len(child_leaves)
        return build(rebuilt)

    return leaves, rebuild


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same containers, with `function` applied to each leaf."""
    leaves, rebuild = flatten(tree)
    return rebuild([function(leaf) for leaf in leaves])


def broadcast_prefix(prefix: Any, tree: Any, where: str) -> list[Any]:
    """The value of a prefix of the tree for each leaf of the tree."""
    if isinstance(prefix, (dict, list, tuple)):
        is_same_kind = (
            isinstance(tree, dict) if isinstance(prefix, dict) else isinstance(tree, (list, tuple))
        )
        if not is_same_kind or len(prefix) != len(tree):
            raise ValueError(f"{where}: not compatible with the structure of the values: {prefix}")
        keys = list(tree) if isinstance(tree, dict) else range(len(tree))
        return [d for k in keys for d in broadcast_prefix(prefix[k], tree[k], where)]
    return [prefix] * len(flatten(tree)[0])
