"""The recipes of CONTRIBUTING.md work as they are written."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

import shmtensor as st
from tests.distributed import contracts
from tests.distributed.run_ranks import run, values

PAGE = Path(__file__).resolve().parent.parent / "CONTRIBUTING.md"


def code(beginning: str) -> str:
    """The block that begins so."""
    blocks = re.findall(r"^( *)```python\n(.*?)^ *```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    texts = [textwrap.dedent(text) for _, text in blocks]
    (text,) = [text for text in texts if text.lstrip().startswith(beginning)]
    return text


def defined(beginning: str, module: Any) -> dict[str, Any]:
    """The names that a block defines in a module."""
    names = dict(vars(module))
    exec(compile(code(beginning), str(PAGE), "exec"), names)
    return names


def test_an_operation() -> None:
    from shmtensor.ops import ROWS
    from shmtensor.ops.pointwise import exp_log_erf

    row = defined("@op(promote", exp_log_erf)["log1m"]
    try:
        assert row.samples
        x = np.linspace(-2.0, 0.5, 7)
        np.testing.assert_allclose(row.forward(np, x), np.log(1 - x), rtol=1e-12)
        g = np.ones(7)
        np.testing.assert_allclose(row.pullbacks["x"].function(g, x), -1 / (1 - x))
    finally:
        ROWS.pop("log1m")


def test_a_layer() -> None:
    from shmtensor.nn.modules import activation

    layer = defined("class Squareplus", activation)["Squareplus"](b=2.0)
    x = st.tensor([-1.0, 0.0, 3.0], requires_grad=True)
    values = x.detach().numpy()
    wanted = (values + np.sqrt(values**2 + 2)) / 2
    np.testing.assert_allclose(layer(x).detach().numpy(), wanted, rtol=1e-6)
    st.autograd.gradcheck(layer, (x.detach().double().requires_grad_(),))


def rotated() -> list[float]:
    from shmtensor import distributed
    from shmtensor.distributed.collectives import collectives

    x = st.full((2,), float(distributed.get_rank()))
    defined("def rotate", collectives)["rotate"](x)
    return x.tolist()


def test_a_collective() -> None:
    inputs = [np.full(2, float(rank)) for rank in range(3)]
    text = code('"rotate"')
    contract = eval("{" + text + "}", dict(vars(contracts)))["rotate"]
    wanted = [x.tolist() for x in contract.function(inputs)]
    assert values(run(rotated, 3)) == wanted == [[2.0, 2.0], [0.0, 0.0], [1.0, 1.0]]
