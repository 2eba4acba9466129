"""The parts of `make gpu-test`, each `python -m tests.cuda.gpu.parts NAME`; see run.py.

A part prints lines for people, and ends with `RESULT status: text`.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import platform
import random
import signal
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np


class Skip(Exception):
    """Something is missing that the part needs."""


class Failure(Exception):
    """The part saw something wrong."""


class Options(argparse.Namespace):
    """standin: on the stand-in device; short: a small form."""

    standin: bool
    short: bool

    @property
    def words(self) -> list[str]:
        return ["--standin"] if self.standin else []


def use_cuda(options: Options) -> Any:
    """CuPy, with shmtensor's allocator; on the stand-in if asked."""
    if options.standin:
        from tests.cuda.standin.install import install, missing

        if reason := missing():
            raise Skip(reason)
        install()
    import shmtensor as st
    from shmtensor import cupy_runtime

    if not st.cuda.is_available():
        raise Skip(cupy_runtime.why_missing())
    st.backends.cudnn.allow_tf32 = False  # results are compared with the CPU's
    return cupy_runtime.initialize()


def need_products() -> None:
    """Skips a part that compares with matrix products on the CPU, where it has no library."""
    if importlib.util.find_spec("scipy_openblas32") is None:
        raise Skip("the CPU's products need scipy-openblas32: pip install scipy-openblas32")


def device(options: Options) -> str:
    """Card, driver, CuPy."""
    cupy = use_cuda(options)
    import shmtensor as st

    rt = cupy.cuda.runtime
    for index in range(st.cuda.device_count()):
        p = st.cuda.get_device_properties(index)
        free, total = st.cuda.mem_get_info(index)
        print(f"GPU {index}: {p.name}, compute capability {p.major}.{p.minor}")
        print(f"  {p.multi_processor_count} multiprocessors, L2 {p.L2_cache_size >> 20} MiB")
        print(f"  memory: {total >> 20} MiB, {free >> 20} MiB free; {p.uuid}")
    nvrtc = ".".join(map(str, cupy.cuda.nvrtc.getVersion()))
    print(f"driver {rt.driverGetVersion()}, runtime {rt.runtimeGetVersion()}, NVRTC {nvrtc}")
    print(f"CuPy {cupy.__version__}, NumPy {np.__version__}, Python {platform.python_version()}")
    print(f"PyTorch: {pytorch_text()}")
    return st.cuda.get_device_name(0)


def pytorch_text() -> str:
    """What there is of PyTorch."""
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        return str(error)
    return f"{torch.__version__}, CUDA {torch.version.cuda}: {torch.cuda.is_available()}"


def assumptions(options: Options) -> str:
    """The experiments."""
    cupy = use_cuda(options)
    from tests.cuda.gpu.assumptions import NOT_ASSUMED, UNSEEN, see

    rows = see(cupy, options.standin)
    unseen = [number for number, _, _, seen in rows if seen.startswith(UNSEEN)]
    free = [number for number, _, assumed, _ in rows if assumed == NOT_ASSUMED]
    differ = [n for n, _, assumed, seen in rows if assumed != seen and n not in unseen + free]
    for number, what, assumed, seen in rows:
        mark = "!!" if number in differ else "??" if number in unseen else "  "
        print(f"{mark} {number:<5} {what} {assumed}")
        if assumed != seen:
            print(f"         seen: {seen}")
    if differ:
        raise Failure(f"other than assumed: {', '.join(differ)}")
    others = f", not seen: {', '.join(unseen)}" if unseen else ""
    return f"{len(rows) - len({*unseen, *free})} as assumed{others}"


def kernels(options: Options) -> str:
    """Compiles our kernels; random numbers have the CPU's bits."""
    cupy = use_cuda(options)
    import shmtensor as st
    from shmtensor.ops.cuda.kernel_source import KERNELS, kernel_source

    count = 0
    for name, dtypes in KERNELS.items():
        for dtype in dtypes[:1] if options.short else dtypes:
            begin = time.monotonic()
            code = kernel_source(name, dtype)
            cupy.RawModule(code=code, options=("-std=c++17",)).compile()
            print(f"{name}.cu for {dtype}: {time.monotonic() - begin:.2f} s")
            count += 1
    n = 1000 if options.short else 10**6
    for dtype in (st.float32, st.float64, st.float16):
        for call in (st.rand, st.randn):
            st.manual_seed(11)
            expected, result = call(n, dtype=dtype), call(n, dtype=dtype, device="cuda").cpu()
            error = float((result.double() - expected.double()).abs().max())
            allowed = 0.0 if call is st.rand else 4e-3 if dtype is st.float16 else 1e-5
            print(f"{call.__name__} {dtype}: differs from the CPU's by {error:.2g} at most")
            if not error <= allowed:
                raise Failure(f"{call.__name__} in {dtype} differs by {error}")
    return f"{count} compiled, random numbers are the CPU's"


def table(options: Options) -> str:
    """Each row's forward on samples."""
    cupy = use_cuda(options)
    need_products()
    from shmtensor.ops import ROWS
    from tests.cuda.table.device_rows import compare, device_calls, device_results, move, plain_rows

    names = plain_rows()
    if options.short:
        names = names[:: max(1, len(names) // 12)]
    warnings.simplefilter("error")  # a dtype that a row warns of is not tried
    begin, wrong, refused, done = time.monotonic(), [], [], 0
    for name in names:
        if time.monotonic() - begin > 90:
            print(f"stopped after {done} of {len(names)} rows: no time is left")
            break
        row = ROWS[name]
        try:
            for dtype, call, expected in device_calls(row):
                try:
                    results = device_results(cupy, call, move(cupy, call.inputs))
                except NotImplementedError as reason:
                    if dtype == "float32":
                        print(f"refused: {reason}")
                        refused.append(name)
                    break
                for ours, plain in zip(results, expected, strict=True):
                    compare(cupy, row, ours, plain, f"{call} in {dtype}")
        except Exception as error:
            wrong.append(name)
            if len(wrong) <= 40:
                text = " ".join(str(error).split())
                print(f"{name}: {type(error).__name__}: {text[:150]}")
        done += 1
    if wrong:
        raise Failure(f"{len(wrong)} of {done} rows: {' '.join(wrong[:20])}")
    others = f", refused: {' '.join(refused)}" if refused else ""
    return f"{done} of {len(names)} rows{others}"


def convolution(options: Options) -> str:
    """Convolutions by cuDNN, beside im2col."""
    use_cuda(options)
    need_products()
    import shmtensor as st
    from shmtensor import cudnn_runtime
    from tests.cuda.gpu.convolution import SHAPES, compare, fastest

    if reason := cudnn_runtime.why_missing():
        raise Skip(reason)
    module = cudnn_runtime.frontend()
    print(f"cuDNN {st.backends.cudnn.version()}, frontend {module.__version__}")
    exact, wrong, alone = {"allow_tf32": False}, [], []
    runs: list[tuple[str, Any, float, bool, dict[str, Any]]] = [
        ("float32", st.float32, 1e-4, False, exact),
        ("float32, channels last", st.float32, 1e-4, True, exact),
        ("TF32", st.float32, 1e-2, False, {}),
        ("float16", st.float16, 1e-2, False, {}),
        ("float16, channels last", st.float16, 1e-2, True, {}),
        ("deterministic", st.float32, 1e-4, False, {**exact, "deterministic": True}),
        ("benchmark", st.float32, 1e-4, False, {**exact, "benchmark": True}),
        ("float64", st.float64, 1e-12, False, {}),
    ]
    names = list(SHAPES)[4:5] if options.short else list(SHAPES)
    for name in names:
        for label, dtype, limit, is_last, flags in runs:
            if is_last and name == "1d":
                continue
            seen = compare(name, dtype, is_last, **flags)
            print(f"{name:<14} {label:<23} differs by {seen.error:.1g}, {seen.plans} plans ran")
            if not seen.error <= limit:
                wrong.append(f"{name} in {label}: {seen.error:.1g}")
            if not seen.plans:
                alone.append(f"{name} in {label}")
    n, repeats = (1, 1) if options.short else (32, 10)
    for dtype in (st.float32, st.float16):
        try:
            by, without = fastest(True, dtype, n, repeats), fastest(False, dtype, n, repeats)
            print(f"{n} images (64, 56, 56), {dtype}: {by:.0f} us, by im2col {without:.0f} us")
        except Exception as error:  # the times only inform
            print(f"{n} images (64, 56, 56), {dtype}: no time: {type(error).__name__}: {error}")
    if wrong:
        raise Failure(f"differs from im2col: {'; '.join(wrong)}")
    others = f", without cuDNN: {'; '.join(alone)}" if alone else ""
    return f"{len(names)} shapes are im2col's{others}"


def message_of(size: int, number: int) -> Any:
    """A message of a new array of one number, which only the message keeps."""
    import shmtensor as st
    from shmtensor.memory import cuda as allocator

    return allocator.export(st.full((size,), number, device="cuda").array)


def sends(options: Options) -> str:
    """Many sends; kills at random moments; then nothing is left."""
    use_cuda(options)
    import shmtensor as st
    from shmtensor import native
    from shmtensor.memory import cuda as allocator
    from tests.cuda.gpu.worker import Worker

    n_sends, n_kills, ahead = (60, 2, 2) if options.short else (10_000, 100, 8)
    end = time.monotonic() + 105
    st.cuda.empty_cache()
    before = st.cuda.mem_get_info()[0]

    worker = Worker(options.words)
    assert worker.answer() == "ready"
    begin, in_flight, sent = time.monotonic(), deque[int](), 0
    while sent < n_sends or in_flight:
        if sent < n_sends and len(in_flight) < 32 and time.monotonic() < end - 60:
            size = random.choice((1, 1000, 100_000))
            worker.tell("receive", message_of(size, sent))
            in_flight.append(sent)
            sent += 1
            continue
        if not in_flight:
            break
        number = in_flight.popleft()
        if worker.answer() != (number, number):
            raise Failure(f"send {number} arrived with other bytes")
    seconds = time.monotonic() - begin
    if (code := worker.end()) != 0:
        raise Failure(f"the receiver ended with {code}")
    print(
        f"{sent:,} sends in {seconds:.1f} s: {seconds / max(sent, 1) * 1e6:.0f} us each, answered"
    )

    random.seed(1)
    killed, starting = 0, deque(Worker(options.words) for _ in range(ahead))
    while starting:
        worker = starting.popleft()
        assert worker.answer() == "ready"
        messages = [message_of(1 << 18, i) for i in range(4)]
        for message in messages:
            worker.tell("receive", message)
        if killed % 4 == 0:
            worker.tell("export", killed)
        time.sleep(random.random() * 0.02)
        worker.kill()
        for message in messages:
            allocator.discard(message)
        native.sweep(True)
        killed += 1
        if killed + len(starting) < n_kills and time.monotonic() < end - 15:
            starting.append(Worker(options.words))
    print(f"{killed} processes killed while they received")

    del worker, message, messages
    limit = time.monotonic() + 10
    while time.monotonic() < limit:
        gc.collect()
        native.sweep(True)
        allocator.uninstall()
        if not allocator.memory_reserved(0):
            break
        time.sleep(0.05)
    if allocator.memory_reserved(0):
        raise Failure(f"memory is left: {allocator.memory_summary(0)}")
    after = st.cuda.mem_get_info()[0]
    print(f"device memory free: {before >> 20} MiB before, {after >> 20} MiB after")
    if before - after > 64 << 20:
        raise Failure(f"{(before - after) >> 20} MiB of device memory are missing")
    return f"{sent:,} sends, {killed} kills, nothing is left"


def train(device: str, steps: int) -> list[float]:
    """The losses of a small network."""
    import shmtensor as st
    from shmtensor import nn

    st.manual_seed(5)
    model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 4))
    x, y = st.randn(64, 16), st.randint(4, (64,))
    model, x, y = model.to(device), x.to(device), y.to(device)
    optimizer = st.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def step(options: Options) -> str:
    """A training step beside the CPU's."""
    use_cuda(options)
    need_products()
    steps = 2 if options.short else 20
    expected, losses = train("cpu", steps), train("cuda", steps)
    for i in {0, steps - 1}:
        print(f"step {i + 1}: loss {losses[i]:.6f}, on the CPU {expected[i]:.6f}")
    if not np.allclose(losses, expected, rtol=1e-3):
        raise Failure("the losses differ from the CPU's")
    if not losses[-1] < losses[0]:
        raise Failure("the loss does not fall")
    return f"{steps} steps, losses are the CPU's"


def timings(options: Options) -> str:
    """`python -m benchmarks.cuda`."""
    use_cuda(options)
    benchmark = importlib.import_module("benchmarks.cuda.throughput")
    words = [f"--{name}" for name in ("standin", "short") if getattr(options, name)]
    if benchmark.main([*words, "--seconds", "35"]):
        raise Failure("a case failed: see the table above")
    return "the stand-in's are not a GPU's" if options.standin else ""


PARTS: dict[str, Callable[[Options], str]] = {
    f.__name__: f for f in (device, assumptions, kernels, table, convolution, sends, step, timings)
}


def main(arguments: list[str] | None = None) -> int:
    """Runs one part."""
    parser = argparse.ArgumentParser(prog="python -m tests.cuda.gpu.parts")
    parser.add_argument("name", choices=PARTS)
    parser.add_argument("--standin", action="store_true")
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args(arguments, Options())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        result = f"ok: {PARTS[options.name](options)}"
    except Skip as reason:
        result = f"skipped: {reason}"
    except Failure as reason:
        result = f"FAILED: {reason}"
    except Exception as error:
        import traceback

        traceback.print_exc(file=sys.stdout)
        text = " ".join(str(error).split())
        result = f"FAILED: {type(error).__name__}: {text[:200]}"
    print(f"RESULT {result}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
