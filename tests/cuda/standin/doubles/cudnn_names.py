"""The names of cuDNN's backend interface that the double knows, with the numbers of its header
cudnn_graph_v9.h (9.28): descriptors, their attributes with types and counts, statuses, notes.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from enum import IntEnum


class Status(IntEnum):
    """cudnnStatus_t."""

    SUCCESS = 0
    BAD_PARAM = 2000
    NULL_POINTER = 2002
    MISALIGNED_POINTER = 2003
    NOT_FINALIZED = 2004
    SIZE_INSUFFICIENT = 2006
    STREAM_MISMATCH = 2007
    SHAPE_MISMATCH = 2008
    DUPLICATED_ENTRIES = 2009
    ATTRIBUTE_TYPE = 2010
    DESCRIPTOR_TYPE = 2012
    NOT_SUPPORTED = 3000


class Kind(IntEnum):
    """cudnnBackendDescriptorType_t."""

    CONVOLUTION = 1
    ENGINE = 2
    ENGINECFG = 3
    ENGINEHEUR = 4
    EXECUTION_PLAN = 5
    KNOB_CHOICE = 7
    KNOB_INFO = 8
    FORWARD = 10
    BACKWARD_FILTER = 11
    BACKWARD_DATA = 12
    OPERATIONGRAPH = 15
    VARIANT_PACK = 16
    TENSOR = 17


class Mode(IntEnum):
    """cudnnBackendHeurMode_t."""

    INSTANT = 0
    B = 1
    FALLBACK = 2
    A = 3


class Note(IntEnum):
    """cudnnBackendNumericalNote_t."""

    TENSOR_CORE = 0
    DOWN_CONVERT_INPUTS = 1
    REDUCED_PRECISION_REDUCTION = 2
    NONDETERMINISTIC = 4


class Type(IntEnum):
    """cudnnBackendAttributeType_t."""

    HANDLE = 0
    DATA_TYPE = 1
    BOOLEAN = 2
    INT64 = 3
    FLOAT = 4
    DOUBLE = 5
    VOID_PTR = 6
    CONVOLUTION_MODE = 7
    HEUR_MODE = 8
    KNOB_TYPE = 9
    NUMERICAL_NOTE = 11
    DESCRIPTOR = 15
    BEHAVIOR_NOTE = 19
    REORDERING = 20
    INT32 = 23
    CHAR = 24
    GRAPH_MODE = 32
    GRAPH_RETENTION = 33

    @property
    def c_type(self) -> type:
        """Of one element."""
        wide = {
            Type.INT64: ctypes.c_int64,
            Type.FLOAT: ctypes.c_float,
            Type.DOUBLE: ctypes.c_double,
            Type.BOOLEAN: ctypes.c_bool,
            Type.CHAR: ctypes.c_char,
        }
        if self in (Type.HANDLE, Type.VOID_PTR, Type.DESCRIPTOR):
            return ctypes.c_void_p
        return wide.get(self, ctypes.c_int)


@dataclass(frozen=True)
class Attribute:
    """An attribute of a kind of descriptors.

    Attributes:
        types: those that its elements may have.
        most: the number of its elements at most.
        required: it must be set before the descriptor is finalized.
        read: it can be got, and not be set.
    """

    name: str
    types: tuple[Type, ...]
    most: int = 1
    required: bool = True
    read: bool = False


def one(name: str, *types: Type) -> Attribute:
    return Attribute(name, types)


def many(name: str, kind: Type, most: int = 8) -> Attribute:
    return Attribute(name, (kind,), most)


def optional(name: str, kind: Type, most: int = 1) -> Attribute:
    return Attribute(name, (kind,), most, required=False)


def got(name: str, kind: Type, most: int = 1) -> Attribute:
    return Attribute(name, (kind,), most, required=False, read=True)


def operation(first: int, *tensors: tuple[int, str]) -> dict[int, Attribute]:
    """alpha, beta and the convolution follow each other; the tensors' numbers differ."""
    return {
        first: one("alpha", Type.FLOAT, Type.DOUBLE),
        first + 1: one("beta", Type.FLOAT, Type.DOUBLE),
        first + 2: one("convolution", Type.DESCRIPTOR),
        **{number: one(name, Type.DESCRIPTOR) for number, name in tensors},
    }


# cudnnBackendAttributeName_t, of each kind.
ATTRIBUTES: dict[Kind, dict[int, Attribute]] = {
    Kind.CONVOLUTION: {
        100: one("compute_type", Type.DATA_TYPE),
        101: one("mode", Type.CONVOLUTION_MODE),
        102: many("dilations", Type.INT64),
        103: many("strides", Type.INT64),
        104: many("post_paddings", Type.INT64),
        105: many("pre_paddings", Type.INT64),
        106: one("spatial_dims", Type.INT64),
    },
    Kind.ENGINEHEUR: {
        200: one("mode", Type.HEUR_MODE),
        201: one("graph", Type.DESCRIPTOR),
        202: got("results", Type.DESCRIPTOR, 1 << 20),
        203: optional("sm_count", Type.INT32),
    },
    Kind.ENGINECFG: {
        300: one("engine", Type.DESCRIPTOR),
        301: got("intermediates", Type.DESCRIPTOR, 1 << 20),
        302: optional("knobs", Type.DESCRIPTOR, 1 << 20),
        303: got("workspace", Type.INT64),
        304: got("shared_memory", Type.INT32),
    },
    Kind.EXECUTION_PLAN: {
        400: optional("handle", Type.HANDLE),  # deprecated: the current device's plan
        401: one("config", Type.DESCRIPTOR),
        402: got("workspace", Type.INT64),
        408: optional("graph_retention", Type.GRAPH_RETENTION),
    },
    Kind.KNOB_CHOICE: {600: one("type", Type.KNOB_TYPE), 601: one("value", Type.INT64)},
    Kind.KNOB_INFO: {},
    Kind.FORWARD: operation(700, (703, "w"), (704, "x"), (705, "y")),
    Kind.BACKWARD_DATA: operation(706, (709, "w"), (710, "x"), (711, "y")),
    Kind.BACKWARD_FILTER: operation(712, (715, "w"), (716, "x"), (717, "y")),
    Kind.OPERATIONGRAPH: {
        800: optional("handle", Type.HANDLE),
        801: many("operations", Type.DESCRIPTOR, 1 << 10),
        802: got("engines", Type.INT64),
        803: optional("dynamic_shape", Type.BOOLEAN),
        805: optional("override_shape", Type.BOOLEAN),
        806: optional("mode", Type.GRAPH_MODE),
    },
    Kind.TENSOR: {
        900: one("alignment", Type.INT64),
        901: one("dtype", Type.DATA_TYPE),
        902: many("dimensions", Type.INT64),
        903: many("strides", Type.INT64),
        904: optional("vector_count", Type.INT64),
        905: optional("vectorized_dimension", Type.INT64),
        906: one("uid", Type.INT64),
        907: optional("is_virtual", Type.BOOLEAN),
        908: optional("is_by_value", Type.BOOLEAN),
        909: optional("reordering", Type.REORDERING),
    },
    Kind.VARIANT_PACK: {
        1000: many("uids", Type.INT64, 1 << 10),
        1001: many("pointers", Type.VOID_PTR, 1 << 10),
        1003: optional("workspace", Type.VOID_PTR),
    },
    Kind.ENGINE: {
        1300: one("graph", Type.DESCRIPTOR),
        1301: one("index", Type.INT64),
        1302: got("knobs", Type.DESCRIPTOR, 1 << 20),
        1303: got("numerical_notes", Type.NUMERICAL_NOTE, 1 << 20),
        1305: got("behavior_notes", Type.BEHAVIOR_NOTE, 1 << 20),
        1306: optional("sm_count", Type.INT32),
    },
}
