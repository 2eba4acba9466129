"""The switches of `torch.backends` that scripts set."""

from __future__ import annotations

from types import SimpleNamespace

from . import native

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


class Cudnn(Switches):
    """NVIDIA's library for neural networks."""

    def version(self) -> int | None:
        """Its version: None, since it is not used."""
        return None


class Mha(Switches):
    """Whether attention layers give the results of PyTorch's inference kernels (the fast path)."""

    def get_fastpath_enabled(self) -> bool:
        """The last value of `set_fastpath_enabled`; True by default."""
        return bool(self.fastpath_enabled)

    def set_fastpath_enabled(self, value: bool) -> None:
        """False: a layer computes the same in evaluation, without gradients, as in training."""
        self.fastpath_enabled = value


cpu = Cpu(True)
cuda = Switches(False, matmul=Switches(False, allow_tf32=False))
cudnn = Cudnn(False, enabled=False, benchmark=False, deterministic=True, allow_tf32=False)
mha = Mha(True, fastpath_enabled=True)
mkl = Switches(False)
mps = Switches(False)
openmp = Switches(False)
