"""Rows that give the same elements another shape or order."""
