"""Rows that depend on the order of elements: sorting, searching, different values."""
