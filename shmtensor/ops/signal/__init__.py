"""Fourier transforms, short-time transforms, windows, finite differences."""
