"""Where `torch.x.y` and `torchvision.x` are: in the module of ours with the same path, but for the
names in `MODULES`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from ..other_names import Finder, SameModule
from . import missing_names
from .torch_version import VERSION

if TYPE_CHECKING:
    from importlib.metadata import Distribution

ROOTS = {"torch": "shmtensor", "torchvision": "shmtensor.as_torch.torchvision"}
VERSIONS = {"torch": VERSION, "torchvision": "0.28.0+shmtensor"}

# Modules of PyTorch whose names are elsewhere here.
MODULES = {
    "shmtensor.as_torch.torchvision.models.resnet": "shmtensor.as_torch.torchvision.models",
    "shmtensor.as_torch.torchvision.utils": "shmtensor.as_torch.torchvision.save_image",
    "shmtensor.functional": "shmtensor.functions",
    "shmtensor.multiprocessing.reductions": "shmtensor.multiprocessing.reduction",
    "shmtensor.utils.model_zoo": "shmtensor.hub",
}

# Modules that are not there, which programs import in any case, and use if an option asks for it.
UNUSED = {"shmtensor.onnx"}


class Loader(SameModule):
    """Also makes a package of the module, so that Python asks the finder for what is beneath."""

    def load(self) -> Any:
        module = super().load()
        beneath = [m for name, m in sys.modules.items() if name.startswith(f"{self.target}.")]
        for loaded in [module, *beneath]:
            if not hasattr(loaded, "__path__"):
                loaded.__path__ = []
        return module


class SameObject(SameModule):
    """Loads an object that PyTorch has as a module, and we as an attribute: `backends.cudnn`."""

    def __init__(self, target: str, value: Any) -> None:
        super().__init__(target)
        self.value = value

    def load(self) -> Any:
        return self.value


def absent_module(name: str, target: str, why: str) -> ModuleType:
    """A module whose attributes are an AttributeError that says why they are not there."""

    def refuse(attribute: str) -> Any:
        if not attribute.startswith("__"):
            missing_names.note(f"{name}.{attribute}")
        raise AttributeError(f"module {name!r} has no attribute {attribute!r}: {why}")

    module = ModuleType(target, f"{name}, which is not there: {why}.")
    vars(module)["__getattr__"] = refuse
    return module


class TorchFinder(Finder):
    """Finds `torch`, `torchvision` and what is beneath them in this library, and nowhere else."""

    loader = Loader
    modules = MODULES

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is None:
            return self.same_module(name, ROOTS[name]) if name in ROOTS else None
        return super().find_spec(name, path, target)

    def same_module(self, name: str, target: str) -> ModuleSpec | None:
        spec = super().same_module(name, target)
        if spec is not None or name.partition(".")[0] not in ROOTS:
            return spec
        parent, _, child = name.rpartition(".")
        try:
            with missing_names.paused():
                value = getattr(sys.modules[parent], child)
        except AttributeError as error:
            why = str(error).partition(f"{child!r}: ")[2]
            if target in UNUSED:
                value = absent_module(name, target, why)
                return ModuleSpec(name, SameObject(target, value))  # type: ignore[arg-type]
            missing_names.note(name)
            raise ModuleNotFoundError(
                f"No module named {name!r}: torch is shmtensor here (shmtensor.as_torch), which "
                f"has no {target}{': ' + why if why else ''}",
                name=name,
            ) from None
        if isinstance(value, (type, FunctionType)):
            return None
        return ModuleSpec(name, SameObject(target, value), is_package=True)  # type: ignore[arg-type]

    def find_distributions(self, context: Any = None) -> Iterator[Distribution]:
        """What `importlib.metadata.version("torch")` reads."""
        name = getattr(context, "name", None)
        if name in VERSIONS:
            from .torch_distribution import TorchDistribution

            yield TorchDistribution(name, VERSIONS[name])
