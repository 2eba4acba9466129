"""Transports of a group's collectives between nodes and GPUs: tcp, mpi, nccl."""
