"""DistributedDataParallel and its parts: buckets, hooks, SyncBatchNorm, Join, ZeRO."""
