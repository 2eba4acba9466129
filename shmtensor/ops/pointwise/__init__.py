"""Rows that work element by element."""
