"""`python -m benchmarks [--quick] [--only REGEX] [--json FILE] [--save] [--list]`."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import traceback
from pathlib import Path

from . import (
    allocation,
    autograd,
    comparisons,
    dispatch,
    distributions,
    layers,
    loader,
    matmul,
    models,
    modules,
    peak_memory,
    pointwise,
    processes,
    queue,
    send,
)
from . import beside_pytorch_loader as programs
from . import collectives as collective
from . import data_parallel as parallel
from . import datasets_from_files as reading
from . import memory_growth as growth
from . import million_elements as large
from . import optimizers as optimizer
from . import shared_list as packed
from . import training_step as training
from .harness.case import Case
from .harness.machine import describe, header
from .harness.measure import measure
from .harness.record import save
from .harness.report import line, summary, title

LAYERS = (
    dispatch, autograd, pointwise, large, distributions, layers, modules, matmul, optimizer,
    training, models, peak_memory, allocation, send, queue, collective, loader, programs, growth,
    reading, parallel, packed, processes, comparisons,
)  # fmt: skip


def cases(only: str) -> list[Case]:
    """All cases whose name matches."""
    return [case for layer in LAYERS for case in layer.CASES if re.search(only, case.name)]


def main(arguments: list[str] | None = None) -> int:
    """Measures and prints; returns 1 if a case failed to run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short turns: about two minutes")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name matches")
    parser.add_argument("--json", metavar="FILE", help="write the raw results there")
    parser.add_argument(
        "--save", action="store_true", help="save the medians under benchmarks/results/"
    )
    parser.add_argument("--list", action="store_true", help="list the cases")
    options = parser.parse_args(arguments)
    if options.save and options.quick:
        parser.error("--save: short turns do not replace long ones, leave out --quick")
    selected = [
        case for case in cases(options.only) if not (options.quick and (case.long or case.wide))
    ]
    if options.list:
        print("\n".join(case.name for case in selected))
        return 0
    began = time.perf_counter()
    machine = describe()
    print(header(machine) + "\n\n" + title(), flush=True)
    results, n_failed = [], 0
    for case in selected:
        try:
            result = measure(case, *turns(case, options.quick))
        except Exception as error:  # other cases still run; the exit code is 1
            n_failed += 1
            print(f"{case.name:38} failed: {where(error)}: {error!r}", flush=True)
            continue
        results.append(result)
        print(line(result), flush=True)
    seconds = time.perf_counter() - began
    print(f"\n{summary(results)}, {n_failed} failed, {seconds:.0f} s")
    if options.json:
        record = {"machine": machine, "quick": options.quick, "only": options.only}
        record["cases"] = [r.record() for r in results]
        Path(options.json).write_text(json.dumps(record, indent=1) + "\n")
        print(f"raw results: {options.json}")
    if options.save:
        print(f"medians: {save(results, machine, options.only)}")
    return 1 if n_failed else 0


def where(error: Exception) -> str:
    """The line that raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename}:{frame.lineno}"


def turns(case: Case, quick: bool) -> tuple[int, float]:
    """Repeats and seconds of each."""
    if quick:
        return (3, 0.03) if case.slow else (5, 0.01)
    if case.wide:  # hundreds of cases
        return 9, 0.03
    if case.slow or case.long:
        return 7, 0.3
    return 15, 0.1


if __name__ == "__main__":
    sys.exit(main())
