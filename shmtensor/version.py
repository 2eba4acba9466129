"""The version, alone, so that the build can read it without importing anything."""

__version__ = "0.1.0"
cuda: str | None = None  # as torch.version has it: what the package was built with
