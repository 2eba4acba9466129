"""By the names of torch.distributed.elastic: how a rank's failure is told."""
