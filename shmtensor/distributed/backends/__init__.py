"""What carries a group's collectives between nodes and GPUs: tcp, mpi, nccl."""
