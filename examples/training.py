"""Options of the examples, the device among them, and a loop of steps with a progress bar."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from tqdm import tqdm

import shmtensor as st


def add_device(parser: argparse.ArgumentParser) -> None:
    """Adds --device: the GPU, if there is one, else the CPU."""
    default = "cuda" if st.cuda.is_available() else "cpu"
    parser.add_argument("--device", type=st.device, default=default, help="cpu, cuda or cuda:N")


def options(
    doc: str | None,
    steps: int,
    quick: int,
    out: str,
    unit: str = "step",
    trainer: bool = False,
    **choices: list[str] | None,
) -> argparse.Namespace:
    """Reads --steps (or --epochs), --device, --out, --quick and further options.

    Args:
        doc: the example's docstring; its first line is the description.
        steps, quick: the number of steps, and the number with --quick, if the user names none.
        out: the file name of the picture.
        trainer: whether there are --nprocs for the Trainer, and --loop for the loop it replaces.
        choices: an option's values, of which the first is the default; or None for any text.
    """
    parser = argparse.ArgumentParser(description=(doc or "").split("\n")[0])
    parser.add_argument(f"--{unit}s", dest="steps", type=int, metavar="N")
    add_device(parser)
    parser.add_argument("--out", default=out, metavar="FILE", help="file of the picture")
    parser.add_argument("--quick", action="store_true", help=f"a short run of {quick} {unit}s")
    if trainer:
        parser.add_argument(
            "--nprocs", type=int_or_auto, default="auto", help='processes, or "auto"'
        )
        parser.add_argument("--loop", action="store_true", help="a plain loop in one process")
    for name, values in choices.items():
        parser.add_argument(f"--{name}", choices=values, default=values[0] if values else None)
    arguments = parser.parse_args()
    if arguments.steps is None:
        arguments.steps = quick if arguments.quick else steps
    return arguments


def int_or_auto(text: str) -> int | str:
    return text if text == "auto" else int(text)


def run(steps: int, step: Callable[[int], Any], unit: str = "step") -> list[float]:
    """Calls step(0), step(1), ..., each of which returns its loss. Returns the losses.

    A terminal has a progress bar, a log file about ten lines.
    """
    losses = []
    for i in (bar := tqdm(range(steps), unit=unit, disable=None)):
        losses.append(float(step(i)))
        bar.set_postfix(loss=f"{losses[-1]:.4f}")
        if bar.disable and (i + 1) * 10 // steps > i * 10 // steps:
            print(f"{unit} {i + 1}/{steps}: loss {losses[-1]:.4f}", file=sys.stderr)
    return losses
