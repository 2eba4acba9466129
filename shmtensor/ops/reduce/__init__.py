"""Rows that make one number, or one per row, out of many; running results."""
