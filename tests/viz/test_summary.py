"""viz.summary: numbers computed by hand, and a model that is restored afterwards."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import shmtensor as st
from shmtensor import nn, viz
from shmtensor.viz import Summary, SummaryRow
from shmtensor.viz.counting import MULTIPLY_ADDS

from .networks import ResNet

F = nn.functional


def row(table: Summary, name: str) -> SummaryRow:
    return next(r for r in table.rows if r.name == name)


def test_a_residual_network() -> None:
    table = viz.summary(ResNet(), st.ones(4, 3, 8, 8))
    # multiply-adds: outputs times inputs in the window
    stem = 4 * 8 * 8 * 8 * (3 * 9)
    one = 2 * 4 * 8 * 8 * 8 * (8 * 9)
    two = 4 * 16 * 4 * 4 * (8 * 9 + 16 * 9 + 8)
    head = 4 * 10 * 16
    assert table.total_mult_adds == stem + one + two + head
    assert table.total_flops == 2 * table.total_mult_adds
    assert row(table, "stem").flops == 2 * stem
    assert row(table, "blocks").flops == 2 * (one + two)
    assert row(table, "blocks.1").flops == 2 * two
    assert row(table, "blocks.1.shortcut").flops == 2 * 4 * 16 * 4 * 4 * 8
    params = 3 * 8 * 9 + 2 * 8 * 8 * 9 + (8 * 16 * 9 + 16 * 16 * 9 + 8 * 16) + (16 * 10 + 10)
    assert table.total_params == table.trainable_params == params
    assert table.param_bytes == 4 * params
    # numbers in results: convolutions, relu and sums, the mean and the head
    large, small = 4 * 8 * 8 * 8, 4 * 16 * 4 * 4
    assert row(table, "blocks.0").activation_bytes == 4 * 5 * large
    assert row(table, "blocks.1").activation_bytes == 4 * 6 * small
    assert table.activation_bytes == 4 * (7 * large + 6 * small + 4 * 16 + 4 * 10)
    two_row = row(table, "blocks.1")
    assert (two_row.input_shapes, two_row.output_shapes) == (((4, 8, 8, 8),), ((4, 16, 4, 4),))
    assert (two_row.kind, two_row.depth, two_row.calls) == ("Block", 2, 1)
    assert [r.name for r in table.rows] == [name for name, _ in ResNet().named_modules()]


class Calls(nn.Module):
    """Any function of tensors as a model."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def flops(function: Any, *shapes: tuple[int, ...]) -> int:
    return viz.summary(Calls(function), *(st.ones(*shape) for shape in shapes)).total_flops


def test_multiply_adds_by_op() -> None:
    assert flops(lambda a, b: a @ b, (2, 3, 4), (4, 5)) == 2 * 2 * 3 * 4 * 5
    assert flops(st.bmm, (2, 3, 4), (2, 4, 5)) == 2 * 2 * 3 * 4 * 5
    assert flops(st.mv, (3, 4), (4,)) == 2 * 12
    assert flops(st.dot, (7,), (7,)) == 14
    assert flops(st.addmm, (3, 5), (3, 4), (4, 5)) == 2 * 60
    assert flops(lambda a, b: st.einsum("bij,bjk->bik", a, b), (2, 3, 4), (2, 4, 5)) == 2 * 120
    assert flops(F.linear, (6, 4), (5, 4), (5,)) == 2 * 6 * 4 * 5
    assert flops(F.conv1d, (2, 3, 9), (4, 3, 2)) == 2 * 2 * 4 * 8 * 6
    depthwise = flops(lambda x, w: F.conv2d(x, w, groups=4), (1, 4, 5, 5), (4, 1, 3, 3))
    assert depthwise == 2 * 4 * 3 * 3 * 9
    assert flops(F.conv_transpose2d, (2, 4, 5, 5), (4, 3, 2, 2)) == 2 * 2 * 4 * 25 * 12
    heads, n, d = 2, 5, 8
    shape = (1, heads, n, d)
    assert flops(F.scaled_dot_product_attention, shape, shape, shape) == 2 * 2 * heads * n * n * d
    assert flops(lambda a: (a * a).relu().sum(), (3, 4)) == 0


def test_recurrent_layers_count_their_products() -> None:
    steps, n, inputs, hidden = 7, 2, 3, 4
    weights = [st.ones(4 * hidden, inputs), st.ones(4 * hidden, hidden)]

    def run(x: Any) -> Any:
        state = (st.zeros(1, n, hidden), st.zeros(1, n, hidden))
        return st.lstm(x, state, weights, False, 1, 0.0, False, False, False)

    count = flops(run, (steps, n, inputs))
    assert count == 2 * steps * n * 4 * hidden * (inputs + hidden)


def test_a_recurrent_layer_in_one_op_counts_state_and_projection() -> None:
    gates, state, weight, cell = st.ones(9, 16), st.ones(3, 2), st.ones(16, 2), st.ones(3, 4)
    count = MULTIPLY_ADDS["_rnn_layer"]
    assert count([[gates, state, weight, cell, st.ones(2, 4)]], None) == 9 * (16 * 2 + 2 * 4)
    assert count([[st.ones(9, 12), cell, st.ones(12, 4), st.ones(12)]], None) == 9 * 12 * 4


def test_shared_parameters_count_once_and_repeated_calls_twice() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
            self.other.weight = self.one.weight

        def forward(self, x: Any) -> Any:
            return self.other(self.one(self.one(x)))

    table = viz.summary(Tied(), st.ones(2, 4))
    assert table.total_params == row(table, "one").params == row(table, "other").params == 16
    assert table.total_flops == 3 * 2 * 2 * 16
    assert row(table, "one").calls == 2
    assert "one (Linear) x 2" in str(table)


def test_frozen_parameters_are_not_trainable() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    model[0].requires_grad_(False)
    table = viz.summary(model, st.ones(1, 3))
    assert (table.total_params, table.trainable_params) == (11, 3)
    assert "11 (3 trainable, 8 not), 44 B" in str(table)


def test_views_and_in_place_writes_are_not_activations() -> None:
    model = Calls(lambda x: x.view(4).relu_().reshape(2, 2).T)
    assert viz.summary(model, st.ones(2, 2)).activation_bytes == 0
    assert viz.summary(Calls(lambda x: x + 1), st.ones(2, 2)).activation_bytes == 16


def test_the_table_is_a_tree_cut_at_a_depth() -> None:
    lines = str(viz.summary(ResNet(), st.ones(1, 3, 8, 8), depth=2)).splitlines()
    names = [line.split("  (")[0].split("  -")[0].rstrip() for line in lines[2:8]]
    assert names == [
        "ResNet",
        "├─ stem (Convolution)",
        "├─ blocks (ModuleList)",
        "│  ├─ 0 (Block)",
        "│  └─ 1 (Block)",
        "└─ head (Linear)",
    ]
    assert repr(viz.summary(nn.Identity(), st.ones(()))).splitlines()[2].split() == [
        "Identity", "scalar", "scalar", "-", "-", "-",
    ]  # fmt: skip


def state_of(model: nn.Module) -> list[Any]:
    return [(m.training, len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()]


def test_modes_and_hooks_are_restored_also_after_an_error() -> None:
    model = ResNet()
    model.blocks[0].eval()
    model.head.register_forward_hook(lambda *_: None)
    profile = sys.getprofile()
    before = state_of(model)
    viz.summary(model, st.ones(1, 3, 8, 8))
    assert state_of(model) == before
    with pytest.raises(RuntimeError):
        viz.summary(model, st.ones(1, 5, 8, 8))
    assert state_of(model) == before
    assert sys.getprofile() is profile
    assert st.is_grad_enabled()


def test_it_runs_once_in_evaluation_and_without_gradients() -> None:
    log = []

    class Asks(nn.Module):
        def forward(self, x: Any, scale: Any) -> Any:
            log.append((self.training, st.is_grad_enabled()))
            return {"x": x * scale, "again": [x]}

    table = viz.summary(Asks(), st.ones(2), 3)
    assert log == [(False, False)]
    assert table.rows[0].input_shapes == ((2,),)
    assert table.rows[0].output_shapes == ((2,), (2,))


def test_a_part_that_fails_and_is_caught_ends_there() -> None:
    class Catches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bad, self.good = nn.Linear(3, 3), nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            try:
                return self.bad(x)
            except RuntimeError:
                return self.good(x)

    table = viz.summary(Catches(), st.ones(1, 2))
    assert row(table, "bad").flops == 0
    assert row(table, "good").flops == table.total_flops == 8


def test_only_a_module_has_layers() -> None:
    with pytest.raises(TypeError, match="expected a Module: function"):
        viz.summary(lambda x: x, st.ones(1))  # type: ignore[arg-type]
