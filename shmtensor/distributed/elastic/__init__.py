"""torch.distributed.elastic's names for reporting a rank's failure."""
