"""DistributedDataParallel and what goes with it: buckets, hooks, SyncBatchNorm, Join, ZeRO."""
