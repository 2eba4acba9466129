"""The ops: a table of rows, a file per family. Arrays only; `autograd` turns rows into functions of Tensors."""

from .table import COMPOSITES, ROWS, Row, composite, op

__all__ = ["COMPOSITES", "ROWS", "Row", "composite", "op"]
