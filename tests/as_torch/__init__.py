"""Programs written for PyTorch, run by `python -m shmtensor.as_torch` without a change."""
