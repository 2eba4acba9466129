"""The call of an op outside its C++ fast path, and the plans that the fast path reads.

It serves every call, with or without a graph. It is here, not beside `ops`, because dispatch and
`engine` use each other: a call makes nodes, and the backward of a node calls ops.
"""
