"""`python -m shmtensor.run`: starts ranks, watches them, and reports the first failure."""
