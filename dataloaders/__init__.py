"""Datasets, samplers, collation into shared blocks, and the DataLoader."""
