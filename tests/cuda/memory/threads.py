"""Threads that disturb each other as much as they can."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def in_threads(work: Callable[[int], None], n: int = 4) -> None:
    """Runs work(0) to work(n - 1) at the same time; collects garbage and switches often.

    Raises:
        BaseException: that of the first of them that failed.
    """
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(50)
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(n) as pool:
            results = [pool.submit(work, i) for i in range(n)]
        for result in results:
            result.result()
    finally:
        gc.set_threshold(*threshold)
        sys.setswitchinterval(interval)
    gc.collect()
