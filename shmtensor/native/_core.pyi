"""Types of the C++ core, a block per folder."""
