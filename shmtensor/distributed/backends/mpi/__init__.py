"""The backend `mpi`: ranks on several machines; shared memory within a node, MPI between nodes.
Without MPI the same code runs over TCP (../tcp).

```
 node 0  ranks 0 1 2        node 1  ranks 3 4 5            a collective
   0 <- 1, 2  memory          3 <- 4, 5  memory            each rank's call, with its small data
   0 <------------ MPI ---------> 3                        the heads exchange them
   0 -> 1, 2                  3 -> 4, 5                    all ranks compare all calls; small: done
                                                           large: the same paths again, in chunks
```

| file | has |
|---|---|
| mpi_messages.py | messages by MPI (../transport.py), and how MPI begins and ends |
| messages.py | a group's messages, and news of ranks that died or gave up; every wait ends |
| nodes.py | which ranks share memory, and one domain for them |
| member.py | how a collective begins, and how it fails |
| large_collectives.py | large data, along the nodes |
| backend.py | the collectives: the methods of `native.Group` |

A reduction goes along the chain of nodes in rank order. So its bits are those of
collectives/reference.py, however the ranks are distributed over nodes.
"""
