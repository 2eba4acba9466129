"""Functions that create tensors: zeros, arange, linspace, meshgrid."""
