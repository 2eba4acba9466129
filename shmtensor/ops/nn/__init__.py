"""Rows of layers: activations, norms, convolution, pooling, attention, recurrent networks."""
