"""Traversal of a tree of modules: parameters, buffers, children, look-up by dotted name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...tensor import Tensor
from ..parameter import Parameter

if TYPE_CHECKING:
    from .module import Module


def kind_of(value: Any) -> str:
    """The name of a value's class, for error messages."""
    module = type(value).__module__
    name = type(value).__qualname__
    return name if module == "builtins" else f"{module.split('.')[0]}.{name}"


class Tree:
    """The part of Module that traverses it."""

    _modules: dict[str, Any]

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters of this module and all submodules, each once.

        Parameters
        ----------
        recurse : bool, optional
            False leaves the submodules out.

        Yields
        ------
        Parameter

        Examples
        --------
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> sum(p.numel() for p in model.parameters())
        9
        """
        for _, p in self.named_parameters(recurse=recurse):
            yield p

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their dotted names.

        Parameters
        ----------
        prefix : str, optional
            What precedes each name, before a dot.
        recurse : bool, optional
            False leaves the submodules out.
        remove_duplicate : bool, optional
            Whether a parameter with several names comes once.

        Yields
        ------
        (str, Parameter)

        Examples
        --------
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> [(name, tuple(p.shape)) for name, p in model.named_parameters()]
        [('0.weight', (3, 2)), ('0.bias', (3,))]
        """
        yield from self._named_tensors("_parameters", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, each once."""
        for _, b in self.named_buffers(recurse=recurse):
            yield b

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their dotted names."""
        yield from self._named_tensors("_buffers", prefix, recurse, remove_duplicate)

    def _named_tensors(
        self, table: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        ids: set[int] = set()
        modules: Any = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in modules:
            for name, tensor in getattr(module, table).items():
                if tensor is None or id(tensor) in ids:
                    continue
                if remove_duplicate:
                    ids.add(id(tensor))
                yield (f"{path}.{name}" if path else name), tensor

    def children(self) -> Iterator[Module]:
        """The direct submodules, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The direct submodules with their names."""
        modules: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in modules:
                modules.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all submodules.

        Parameters
        ----------
        remove_duplicate : bool, optional
            Whether a module in several places comes once.

        Yields
        ------
        Module

        Examples
        --------
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> [type(module).__name__ for module in model.modules()]
        ['Sequential', 'Linear', 'ReLU']
        """
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all submodules with their dotted names, parents first.

        Parameters
        ----------
        memo : set of Module, optional
            Modules that are left out; filled with those that came.
        prefix : str, optional
            What precedes each name, before a dot.
        remove_duplicate : bool, optional
            Whether a module in several places comes once.

        Yields
        ------
        (str, Module)

        Examples
        --------
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> [name for name, module in model.named_modules()]
        ['', '0', '1']
        """
        memo = set() if memo is None else memo
        module: Any = self
        if module in memo:
            return
        if remove_duplicate:
            memo.add(module)
        yield prefix, module
        for name, module in self._modules.items():
            if module is not None:
                child_prefix = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, child_prefix, remove_duplicate)

    def get_submodule(self, target: str) -> Module:
        """The module of a dotted name.

        Parameters
        ----------
        target : str
            The name; "" is this module.

        Returns
        -------
        Module

        Raises
        ------
        AttributeError
            There is none.

        Examples
        --------
        >>> nn.Sequential(nn.Sequential(nn.ReLU())).get_submodule("0.0")
        ReLU()
        """
        module: Any = self
        for name in target.split(".") if target else ():
            child = getattr(module, name, None)
            if not isinstance(child, Tree):
                raise AttributeError(
                    f"{type(module).__name__} has no attribute `{name}`"
                    if child is None
                    else f"`{name}` is not an nn.Module: {kind_of(child)}"
                )
            module = child
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Replaces the module of a dotted name by `module`."""
        if not target:
            raise ValueError("set_submodule: cannot replace the module itself: target ''")
        if not isinstance(module, Tree):
            raise ValueError(f"set_submodule: `module` is not an nn.Module: {kind_of(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        before = getattr(parent, name, None)
        if before is not None and not isinstance(before, Tree):
            raise AttributeError(f"`{name}` is not an nn.Module: {kind_of(before)}")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a dotted name."""
        path, _, name = target.rpartition(".")
        parameter = getattr(self.get_submodule(path), name, None)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"`{target}` is not an nn.Parameter: {kind_of(parameter)}")
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of a dotted name."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if name not in module._buffers:
            raise AttributeError(f"`{target}` is not a buffer of {type(module).__name__}")
        buffer: Tensor = module._buffers[name]
        return buffer
