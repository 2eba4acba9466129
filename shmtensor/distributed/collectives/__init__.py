"""The collectives by PyTorch's names, and what each one computes in plain NumPy."""
