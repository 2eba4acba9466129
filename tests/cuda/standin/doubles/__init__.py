"""Doubles of NVIDIA's libraries: NumPy and SciPy as work queued on the stand-in's streams."""
