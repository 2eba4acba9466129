"""What the ledger's part of a send costs: all of export and receive but CUDA's own calls.

    python -m tests.cuda.memory.send_cost

CUDA's calls are replaced by ones that do nothing; medians of repetitions, of one core each.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable

from shmtensor import memory
from tests.cuda.standin.install import install

os.environ.setdefault("SHMTENSOR_DOMAIN", memory.domain_environment())
install()

import cupy  # noqa: E402
import numpy as np  # noqa: E402

import shmtensor.memory.cuda as mc  # noqa: E402
from shmtensor.memory.cuda import lending, streams  # noqa: E402
from tests.cuda.memory.peer import peers  # noqa: E402

N, REPEATS = 500, 9


class NoCuda:
    """CUDA's calls of a send, without CUDA."""

    def __init__(self) -> None:
        self.rest = cupy.cuda.runtime

    def __getattr__(self, name: str) -> object:
        return getattr(self.rest, name)

    def streamQuery(self, *_: int) -> int:
        return 0 if self.is_idle else 600

    def eventRecord(self, *_: int) -> None: ...
    def streamWaitEvent(self, *_: int) -> None: ...
    def getDevice(self) -> int:
        return 0

    def eventQuery(self, *_: int) -> int:
        return 0

    is_idle = False


def median_us(action: Callable[[], None]) -> float:
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        action()
        times.append((time.perf_counter() - begin) / N * 1e6)
    return statistics.median(times)


def main() -> None:
    mc.install()
    gc.freeze()  # a collection walks over what was received, not over CuPy
    with peers() as [peer]:
        peer.do("x = cupy.zeros(1000, np.uint8); rt.deviceSynchronize()")
        first = mc.receive(peer.do("rt.memsetAsync(x.data.ptr, 1, 1000, 0); out = mc.export(x)"))
        own = cupy.zeros(1000, np.uint8)
        cupy.cuda.runtime.deviceSynchronize()
        mc.discard(mc.export(own))
        none = NoCuda()
        streams.runtime = lending.runtime = none
        sent: list[mc.Message] = []
        results: dict[str, float] = {}

        def export() -> None:
            sent.extend(mc.export(own) for _ in range(N))

        def export_and_discard() -> None:
            export()
            while sent:
                mc.discard(sent.pop())

        def receive_and_drop(order: str) -> tuple[float, float]:
            """Medians, in us, for the peer's messages after its order."""
            times = []
            for _ in range(REPEATS):
                messages = peer.do(f"{order}out = [mc.export(x) for x in xs]")
                begin = time.perf_counter()
                for message in messages:
                    arrays.append(mc.receive(message))
                middle = time.perf_counter()
                arrays.clear()
                end = time.perf_counter()
                times.append(((middle - begin) / N * 1e6, (end - middle) / N * 1e6))
            receives, drops = zip(*times, strict=True)
            return statistics.median(receives), statistics.median(drops)

        none.is_idle = True
        results["export and discard"] = median_us(export_and_discard)
        arrays: list[object] = []
        receive, drop = receive_and_drop(f"xs = [x] * {N}; ")
        results["receive, block held already"], results["drop, another one left"] = receive, drop
        new = f"xs = [cupy.zeros(1000, np.uint8) for _ in range({N})]; rt.deviceSynchronize(); "
        receive, drop = receive_and_drop(new)
        results["receive, a new block"], results["drop, the last one"] = receive, drop
        streams.runtime = lending.runtime = none.rest
        results["of these: cupy.ndarray(...)"] = median_us(
            lambda: arrays.extend(
                cupy.ndarray((1000,), np.uint8, own.data, strides=(1,)) for _ in range(N)
            )
        )
        arrays.clear()
        for name, us in results.items():
            print(f"{name:32}{us:8.1f} us")
    own = None
    del first
    mc.uninstall()


if __name__ == "__main__":
    main()
