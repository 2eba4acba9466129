"""The call of an op outside its C++ fast path, and the plans that the fast path reads."""
