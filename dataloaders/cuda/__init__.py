"""Batches on their way to a GPU: pinned memory and the prefetcher."""
