"""Groups over several machines without MPI: shared memory within a node, TCP between nodes.

A group of the backend shm (gloo) whose ranks are on several hosts uses the collectives of the
backend mpi (../mpi), over these connections instead of MPI's messages: both are a Transport.

| file | has |
|---|---|
| connect_ranks.py | how the ranks find one another by a store |
| connections.py | messages over a connection to each other rank |
| connection.py | one connection: frames, output that waits, messages that come |

```
 rank r    store: its address, its machine, its pid           <->  the same of all others
           connects to every lower rank, accepts every higher one; both prove the secret
 death     the kernel closes the connections of a process that ends
```
"""
