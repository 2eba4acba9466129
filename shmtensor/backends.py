"""The switches of `torch.backends` that scripts set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

from . import cudnn_runtime, cupy_runtime, native

__all__ = ["cpu", "cuda", "cudnn", "mha", "mkl", "mps", "openmp"]


class Switches:
    """Values that can be set and read: as attributes, or by functions, `enable_NAME(value)` and
    `NAME_enabled()`, or `set_NAME_enabled(value)` and `get_NAME_enabled()`.

    Args:
        exists: whether the package has this backend.
        settings: an object whose attributes are the switches that have an effect. They are bools,
            or ints from 0; all other switches take any value, and change nothing.
        switches: other switches and their values.
    """

    _exists = False
    _settings: object = SimpleNamespace()

    def __init__(
        self, exists: bool = False, settings: object = _settings, **switches: object
    ) -> None:
        vars(self).update(switches, _exists=exists, _settings=settings)

    def is_built(self) -> bool:
        """Whether the package has it."""
        return self._exists

    def is_available(self) -> bool:
        """As `is_built`."""
        return self.is_built()

    def __getattr__(self, name: str) -> Any:
        if name in vars(self._settings):
            return getattr(self._settings, name)
        switch = name.removesuffix("_enabled").removeprefix("get_").removeprefix("set_")
        switch = switch.removeprefix("enable_")
        if switch == name or switch not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no {name!r}", name=name, obj=self)

        def store(*values: Any, **named: Any) -> None:
            if len(given := (*values, *named.values())) != 1:
                raise TypeError(f"{name}: one value is needed: {given}")
            setattr(self, switch, given[0])

        if name.startswith(("enable_", "set_")):
            return store
        return lambda: bool(getattr(self, switch))

    def __setattr__(self, name: str, value: object) -> None:
        if name in vars(self._settings):
            setattr(self._settings, name, self._checked(name, value))
        else:
            super().__setattr__(name, value)

    def _checked(self, name: str, value: Any) -> Any:
        """The value of a switch that has an effect."""
        where = f"{type(self).__name__.lower()}.{name}"
        if isinstance(getattr(self, name), bool):
            if not isinstance(value, bool):
                raise TypeError(f"{where}: a bool is needed: {value!r}")
        elif isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"{where}: an int from 0 is needed: {value!r}")
        return value

    def _change(self, **values: Any) -> dict[str, Any]:
        """Sets the switches that are not None, or none of them if a value is wrong; returns what
        all of them were.
        """
        before = {name: getattr(self, name) for name in values}
        values = {name: value for name, value in values.items() if value is not None}
        for name in vars(self._settings).keys() & values:
            self._checked(name, values[name])
        for name, value in values.items():
            setattr(self, name, value)
        return before

    @contextmanager
    def _within(self, **values: Any) -> Iterator[None]:
        """A `with` in which the switches have these values."""
        before = self._change(**values)
        try:
            yield
        finally:
            self._change(**before)


class Cpu(Switches):
    """The CPU."""

    def get_cpu_capability(self) -> str:
        """The instruction set of the native kernels, by PyTorch's name."""
        names = {"avx512": "AVX512", "avx2": "AVX2", "neon": "NEON"}
        return next((name for key, name in names.items() if key in str(native.isa())), "DEFAULT")


class Matmul(Switches):
    """Products of matrices on a GPU."""

    @property
    def allow_tf32(self) -> bool:
        """Whether products of float32 round the factors to TF32, 10 bits of mantissa: as after
        `set_float32_matmul_precision("high")`. False by default.
        """
        return cupy_runtime.state.precision != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        is_high = self._checked("allow_tf32", value)
        cupy_runtime.state.precision = "high" if is_high else "highest"


class Cuda(Switches):
    """CUDA devices. Attention has one implementation, so its switches change nothing.

    Attributes:
        matmul: the switch of products of matrices.
    """

    matmul: Matmul

    def is_built(self) -> bool:
        """Whether CuPy is installed."""
        return find_spec("cupy") is not None

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
        with self._within(
            flash_sdp=enable_flash,
            math_sdp=enable_math,
            mem_efficient_sdp=enable_mem_efficient,
            cudnn_sdp=enable_cudnn,
        ):
            yield


class Cudnn(Switches):
    """NVIDIA's library for neural networks, which computes convolutions on GPUs.

    Without the package `nvidia-cudnn-frontend` and the library the switches change nothing:
    convolutions are matrix products of windows.

    Attributes:
        enabled: False: convolutions are computed without cuDNN. True by default.
        benchmark: True: the first convolution of each shape tries `benchmark_limit` ways to compute
            it and keeps the fastest one. False by default: cuDNN's heuristics choose.
        benchmark_limit: the number of ways that `benchmark` tries; 0: all. 10 by default.
        deterministic: True: only engines that give the same bits each time. False by default;
            `use_deterministic_algorithms(True)` has the same effect.
        allow_tf32: whether tensor cores may read float32 with a mantissa of 10 bits. True by
            default, as in PyTorch.
    """

    enabled: bool
    benchmark: bool
    benchmark_limit: int
    deterministic: bool
    allow_tf32: bool

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
        before = self._change(
            enabled=_enabled,
            benchmark=_benchmark,
            benchmark_limit=_benchmark_limit,
            deterministic=_deterministic,
            allow_tf32=_allow_tf32,
        )
        enabled, benchmark, benchmark_limit, deterministic, allow_tf32 = before.values()
        return enabled, benchmark, benchmark_limit, deterministic, allow_tf32

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
        with self._within(
            enabled=enabled,
            benchmark=benchmark,
            benchmark_limit=benchmark_limit,
            deterministic=deterministic,
            allow_tf32=allow_tf32,
        ):
            yield


cpu = Cpu(True)
cuda = Cuda(matmul=Matmul(), flash_sdp=True, mem_efficient_sdp=True, math_sdp=True, cudnn_sdp=True)
cudnn = Cudnn(settings=cudnn_runtime.settings)
# Whether a TransformerEncoder gives 0 at padded positions, as PyTorch's inference kernels do.
mha = Switches(True, fastpath=True)
mkl = Switches()
mps = Switches()
openmp = Switches()
