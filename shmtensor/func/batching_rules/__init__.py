"""The batching rules of vmap."""
