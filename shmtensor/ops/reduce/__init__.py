"""Rows of reductions and cumulative results."""
