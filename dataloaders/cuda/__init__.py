"""Copies of batches to a GPU: pinned memory and the prefetcher."""
