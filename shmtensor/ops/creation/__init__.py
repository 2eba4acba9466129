"""Rows that make tensors: filled, counted, spaced, on grids."""
