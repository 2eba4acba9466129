"""The version, in a file of its own, so that the build can read it without imports."""

__version__ = "0.1.0"
cuda: str | None = None  # as in torch.version: the CUDA version of the build
