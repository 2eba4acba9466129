"""The backend `mpi`: ranks on several machines; shared memory within a node, MPI between nodes.
Without MPI the same goes over TCP (../tcp).

```
 node 0  ranks 0 1 2        node 1  ranks 3 4 5            a collective
   0 <- 1, 2  memory          3 <- 4, 5  memory            what each rank calls, small data with it
   0 <------------ MPI ---------> 3                        the heads tell each other
   0 -> 1, 2                  3 -> 4, 5                    everybody compares all; small: it is done
                                                           large: the same ways again, in chunks
```

| file | has |
|---|---|
| messages.py | messages by MPI, and news of who died or gave up; every wait ends |
| liveness_across_nodes.py | who on other nodes lives, by connections that end with a process |
| nodes.py | who shares memory with whom, and one domain for them |
| begin_and_fail.py | how a collective begins, and how it fails |
| large_collectives.py | large data, along the nodes |
| backend.py | the collectives: the methods of `native.Group` |

A reduction goes along the chain of nodes in rank order, so that its bits are those of the contract,
however the ranks are spread over nodes.
"""
