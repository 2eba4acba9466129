"""`python -m shmtensor.run`: starts ranks, watches them, says who failed first."""
