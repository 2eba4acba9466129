"""A CUDA device in host memory under the real CuPy: see docs/design/cuda.md."""
