"""Rows of linear algebra: products, factors, solving, norms, distances."""
