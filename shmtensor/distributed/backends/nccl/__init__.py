"""The backend `nccl`: collectives on the GPUs of one machine, by CuPy's binding of NCCL.

```
 calls              rank 0 ---- shared memory ---- rank 1        compared before NCCL is called
 turn               a process has one NCCL operation under way   taken in the order of the ranks
 data               GPU 0 =========== NCCL ============= GPU 1   in place: tensors are on the GPUs
 end                rank 0 ---- shared memory ---- rank 1        it succeeds on all ranks or on none
```

| file | has |
|---|---|
| cupy_nccl.py | CuPy, NCCL and this rank's GPU, or an error that says what to install |
| communicator.py | NCCL calls on device addresses, put on a stream |
| member.py | comparing calls, taking turns, noticing deaths; every wait ends |
| backend.py | the collectives and messages: the methods of `native.Group` |
| init_communicator.py | which rank uses which GPU, and the communicator |
"""
