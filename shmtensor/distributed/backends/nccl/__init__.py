"""The backend `nccl`: collectives on the GPUs of one machine, by CuPy's binding of NCCL.

```
 what all call      rank 0 ---- shared memory ---- rank 1        compared before NCCL hears of it
 whose turn         a process has one NCCL operation under way   taken in the order of the ranks
 data               host -> pinned -> GPU 0 === NCCL === GPU 1   and back: tensors are on the host
 at the end         rank 0 ---- shared memory ---- rank 1        it went well everywhere, or nowhere
```

| file | has |
|---|---|
| cupy_nccl.py | CuPy, NCCL and this rank's GPU, or an error that says what to install |
| communicator.py | NCCL calls on device addresses, put on a stream: the inside of it all |
| host_staging.py | host arrays to device memory and back |
| begin_and_fail.py | what all call, whose turn it is, who died; every wait ends |
| backend.py | the collectives and messages: the methods of `native.Group` |
| init_communicator.py | who uses which GPU, and the communicator |
"""
