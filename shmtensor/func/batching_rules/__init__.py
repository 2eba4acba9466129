"""What vmap does with each kind of op."""
