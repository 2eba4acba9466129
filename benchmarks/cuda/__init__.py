"""Benchmarks on a GPU, beside PyTorch's: `python -m benchmarks.cuda`, and `.host`."""
