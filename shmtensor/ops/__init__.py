"""The ops: a table of rows, a file per family. Arrays only; `autograd` turns rows into functions of Tensors."""

from . import activation as _activation
from . import bitwise as _bitwise
from . import comparison as _comparison
from . import complex as _complex
from . import einsum as _einsum
from . import exponential as _exponential
from . import fitting as _fitting
from . import gathering as _gathering
from . import indexing as _indexing
from . import joining as _joining
from . import matmul as _matmul
from . import movement as _movement
from . import norm as _norm
from . import order as _order
from . import pointwise as _pointwise
from . import reduction as _reduction
from . import rounding as _rounding
from . import scan as _scan
from . import triangle as _triangle
from . import trigonometry as _trigonometry
from .table import COMPOSITES, ROWS, Row, composite, op

__all__ = ["COMPOSITES", "ROWS", "Row", "composite", "op"]

del (
    _activation,
    _bitwise,
    _comparison,
    _complex,
    _einsum,
    _exponential,
    _fitting,
    _gathering,
    _indexing,
    _joining,
    _matmul,
    _movement,
    _norm,
    _order,
    _pointwise,
    _reduction,
    _rounding,
    _scan,
    _triangle,
    _trigonometry,
)
