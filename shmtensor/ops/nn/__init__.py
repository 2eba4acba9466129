"""Rows under the layers: activations, norms, convolution, pooling, attention, recurrence."""
