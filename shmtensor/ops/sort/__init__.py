"""Rows that depend on the order of elements: sort, searchsorted, unique."""
