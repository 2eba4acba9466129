"""Groups over several machines without MPI: shared memory within a node, TCP between nodes.

A group of the backend shm (gloo) whose ranks are on several hosts is carried by the collectives of
the backend mpi (../mpi), over these connections instead of MPI's messages.

| file | has |
|---|---|
| connect_ranks.py | how the ranks find one another by a store, and when a group is of this kind |
| mpi4py_interface.py | messages over a connection to each other rank, by mpi4py's names |
| connection.py | one connection: frames, what waits to be written, what comes |

```
 rank r    store: where it listens, its machine, its pid      <->  the same of all others
           connects to every lower rank, is connected to by every higher one; both prove the secret
 death     the kernel ends the connections of a process with it
```
"""
