"""Parameters, gradients and state in one block each, for one kernel call a step."""
