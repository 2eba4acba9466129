"""The switches of `torch.backends` that scripts set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

from . import cudnn_runtime, cupy_runtime, native

__all__ = ["cpu", "cuda", "cudnn", "mha", "mkl", "mps", "openmp"]


class Switches(SimpleNamespace):
    """Values that can be set and read; `is_built`, `is_available`: whether it exists."""

    def __init__(self, exists: bool, **switches: object) -> None:
        super().__init__(**switches)
        self.__dict__["exists"] = exists

    def is_built(self) -> bool:
        """Whether the package has it."""
        return bool(self.__dict__["exists"])

    is_available = is_built


class Cpu(Switches):
    """The CPU."""

    def get_cpu_capability(self) -> str:
        """The instruction set of the native kernels, by PyTorch's name."""
        names = {"avx512": "AVX512", "avx2": "AVX2", "neon": "NEON"}
        return next((name for key, name in names.items() if key in str(native.isa())), "DEFAULT")


class MatrixProducts:
    """Products of matrices on a GPU."""

    @property
    def allow_tf32(self) -> bool:
        """Whether products of float32 round the factors to TF32, 10 bits of mantissa: as after
        `set_float32_matmul_precision("high")`. False by default.
        """
        return cupy_runtime.state.precision != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        cupy_runtime.state.precision = "high" if as_bool("matmul.allow_tf32", value) else "highest"


class Cuda:
    """CUDA devices. Attention has one implementation, so its switches change nothing.

    Attributes:
        matmul: the switch of products of matrices.
    """

    def __init__(self) -> None:
        self.matmul = MatrixProducts()
        self.sdp = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}

    def is_built(self) -> bool:
        """Whether CuPy is installed."""
        return find_spec("cupy") is not None

    def enable_flash_sdp(self, enabled: bool) -> None:
        """Stores a switch of PyTorch's implementations of attention."""
        self.sdp["flash"] = bool(enabled)

    def enable_mem_efficient_sdp(self, enabled: bool) -> None:
        """As `enable_flash_sdp`."""
        self.sdp["mem_efficient"] = bool(enabled)

    def enable_math_sdp(self, enabled: bool) -> None:
        """As `enable_flash_sdp`."""
        self.sdp["math"] = bool(enabled)

    def enable_cudnn_sdp(self, enabled: bool) -> None:
        """As `enable_flash_sdp`."""
        self.sdp["cudnn"] = bool(enabled)

    def flash_sdp_enabled(self) -> bool:
        """The last value of `enable_flash_sdp`; True by default."""
        return self.sdp["flash"]

    def mem_efficient_sdp_enabled(self) -> bool:
        """The last value of `enable_mem_efficient_sdp`; True by default."""
        return self.sdp["mem_efficient"]

    def math_sdp_enabled(self) -> bool:
        """The last value of `enable_math_sdp`; True by default."""
        return self.sdp["math"]

    def cudnn_sdp_enabled(self) -> bool:
        """The last value of `enable_cudnn_sdp`; True by default."""
        return self.sdp["cudnn"]

    @contextmanager
    def sdp_kernel(
        self,
        enable_flash: bool = True,
        enable_math: bool = True,
        enable_mem_efficient: bool = True,
        enable_cudnn: bool = True,
    ) -> Iterator[None]:
        """A `with` in which the switches have these values; PyTorch prefers
        `nn.attention.sdpa_kernel`.
        """
        before = self.sdp
        self.sdp = {
            "flash": enable_flash,
            "mem_efficient": enable_mem_efficient,
            "math": enable_math,
            "cudnn": enable_cudnn,
        }
        try:
            yield
        finally:
            self.sdp = before


class Cudnn:
    """NVIDIA's library for neural networks, which computes convolutions on GPUs.

    Without the package `nvidia-cudnn-frontend` and the library the switches change nothing:
    convolutions are matrix products of windows.
    """

    def is_available(self) -> bool:
        """Whether cuDNN and its Python frontend are there. Never raises; imports the frontend."""
        return cudnn_runtime.frontend() is not None

    def version(self) -> int | None:
        """cuDNN's version, 92801 for 9.28.1; None without it. Imports the frontend."""
        module = cudnn_runtime.frontend()
        return int(module.backend_version()) if module is not None else None

    def is_acceptable(self, tensor: Any) -> bool:
        """Whether cuDNN may compute with a tensor: on a GPU, of 16, 32 or 64-bit floats."""
        name = str(tensor.dtype).rpartition(".")[2]
        is_known = name in ("float16", "bfloat16", "float32", "float64")
        return bool(tensor.is_cuda and is_known and self.enabled and self.is_available())

    @property
    def enabled(self) -> bool:
        """False: convolutions are computed without cuDNN. True by default."""
        return cudnn_runtime.settings.enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        cudnn_runtime.settings.enabled = as_bool("cudnn.enabled", value)

    @property
    def benchmark(self) -> bool:
        """True: the first convolution of each shape tries `benchmark_limit` ways to compute it and
        keeps the fastest one. False by default: cuDNN's heuristics choose.
        """
        return cudnn_runtime.settings.benchmark

    @benchmark.setter
    def benchmark(self, value: bool) -> None:
        cudnn_runtime.settings.benchmark = as_bool("cudnn.benchmark", value)

    @property
    def benchmark_limit(self) -> int:
        """The number of ways that `benchmark` tries; 0: all. 10 by default."""
        return cudnn_runtime.settings.benchmark_limit

    @benchmark_limit.setter
    def benchmark_limit(self, value: int) -> None:
        cudnn_runtime.settings.benchmark_limit = as_limit(value)

    @property
    def deterministic(self) -> bool:
        """True: only engines that give the same bits each time. False by default;
        `use_deterministic_algorithms(True)` has the same effect.
        """
        return cudnn_runtime.settings.deterministic

    @deterministic.setter
    def deterministic(self, value: bool) -> None:
        cudnn_runtime.settings.deterministic = as_bool("cudnn.deterministic", value)

    @property
    def allow_tf32(self) -> bool:
        """Whether tensor cores may read float32 with a mantissa of 10 bits. True by default, as in
        PyTorch.
        """
        return cudnn_runtime.settings.allow_tf32

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        cudnn_runtime.settings.allow_tf32 = as_bool("cudnn.allow_tf32", value)

    def set_flags(
        self,
        _enabled: bool | None = None,
        _benchmark: bool | None = None,
        _benchmark_limit: int | None = None,
        _deterministic: bool | None = None,
        _allow_tf32: bool | None = None,
    ) -> tuple[bool, bool, int, bool, bool]:
        """Sets the switches that are not None, or none of them if a value is wrong; returns what
        all of them were.
        """
        before = (
            self.enabled,
            self.benchmark,
            self.benchmark_limit,
            self.deterministic,
            self.allow_tf32,
        )
        given = {
            "enabled": _enabled,
            "benchmark": _benchmark,
            "benchmark_limit": _benchmark_limit,
            "deterministic": _deterministic,
            "allow_tf32": _allow_tf32,
        }
        values = {
            name: as_limit(value) if name == "benchmark_limit" else as_bool(f"cudnn.{name}", value)
            for name, value in given.items()
            if value is not None
        }
        for name, value in values.items():
            setattr(cudnn_runtime.settings, name, value)
        return before

    @contextmanager
    def flags(
        self,
        enabled: bool = False,
        benchmark: bool = False,
        benchmark_limit: int = 10,
        deterministic: bool = False,
        allow_tf32: bool = True,
    ) -> Iterator[None]:
        """Sets all switches within a `with`; the defaults are PyTorch's: cuDNN is off unless
        `enabled=True`.
        """
        before = self.set_flags()
        try:
            self.set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
            yield
        finally:
            self.set_flags(*before)


def as_bool(name: str, value: Any) -> bool:
    """The value of a switch.

    Raises:
        TypeError: not a bool.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name}: a bool is needed: {value!r}")
    return value


def as_limit(value: Any) -> int:
    """The value of `benchmark_limit`.

    Raises:
        ValueError: not an int from 0.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"cudnn.benchmark_limit: an int from 0 is needed: {value!r}")
    return value


class Mha(Switches):
    """Whether attention layers give the results of PyTorch's inference kernels (the fast path)."""

    def get_fastpath_enabled(self) -> bool:
        """The last value of `set_fastpath_enabled`; True by default."""
        return bool(self.fastpath_enabled)

    def set_fastpath_enabled(self, value: bool) -> None:
        """False: a layer computes the same in evaluation, without gradients, as in training."""
        self.fastpath_enabled = value


cpu = Cpu(True)
cuda = Cuda()
cudnn = Cudnn()
mha = Mha(True, fastpath_enabled=True)
mkl = Switches(False)
mps = Switches(False)
openmp = Switches(False)
