"""Rows that read and write at indices and masks."""
