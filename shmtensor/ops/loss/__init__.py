"""Rows of losses, with their native forms."""
