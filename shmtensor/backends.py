"""The switches of `torch.backends` that scripts set, and what each means here."""

from __future__ import annotations

from types import SimpleNamespace

from . import native

__all__ = ["cpu", "cuda", "cudnn", "mha", "mkl", "mps", "openmp"]


class Switches(SimpleNamespace):
    """Values that may be set, and are noted; `is_built` and `is_available` say what there is."""

    def __init__(self, there: bool, **switches: object) -> None:
        super().__init__(**switches)
        self.__dict__["there"] = there

    def is_built(self) -> bool:
        """Whether the package has it."""
        return bool(self.__dict__["there"])

    is_available = is_built


class Cpu(Switches):
    """The CPU."""

    def get_cpu_capability(self) -> str:
        """The instruction set that the native kernels run on, PyTorch's name for it."""
        found = {"avx512": "AVX512", "avx2": "AVX2", "neon": "NEON"}
        return next((name for key, name in found.items() if key in str(native.isa())), "DEFAULT")


class Cudnn(Switches):
    """NVIDIA's library for neural networks."""

    def version(self) -> int | None:
        """Its version: None, it is not there."""
        return None


class Mha(Switches):
    """Whether attention layers give the results of PyTorch's inference kernels (the fast path)."""

    def get_fastpath_enabled(self) -> bool:
        """What `set_fastpath_enabled` was last called with; True at first."""
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
