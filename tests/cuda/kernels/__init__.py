"""CUDA kernels, compiled without a GPU: by NVRTC, and by a host compiler that runs them."""
