"""`torch.utils.hooks` by name."""

from __future__ import annotations

from typing import Any

import shmtensor as st
from shmtensor.utils import hooks


class Table(dict[int, Any]):
    """A dictionary that has weak references."""


def test_a_handle_removes_its_hook_from_all_tables() -> None:
    table, extra = Table(), Table()
    handle = hooks.RemovableHandle(table, extra_dict=[extra])
    table[handle.id] = extra[handle.id] = print
    assert handle.hooks_dict_ref() is table
    with handle:
        pass
    assert not table
    assert not extra
    layer_handle = st.nn.Linear(1, 1).register_forward_hook(print)
    assert isinstance(layer_handle, hooks.RemovableHandle)


def test_marks() -> None:
    @hooks.unserializable_hook
    def hook(g: st.Tensor) -> st.Tensor:
        return g * 2

    assert hook.__torch_unserializable__
    x = st.ones(1, requires_grad=True)
    x.register_hook(hook)
    hooks.warn_if_has_hooks(x)
    x.sum().backward()
    assert x.grad.item() == 2
    assert st.utils.hooks is hooks
    assert hooks.BackwardHook
