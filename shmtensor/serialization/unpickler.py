"""The restricted unpickler: builds what a pickle describes from parts that are trusted.

A pickle is a program for a machine with a stack. This one knows the instructions that build data,
and two that call: REDUCE and NEWOBJ. They call the constructors of `constructors.py`, which check
their arguments, and what the user trusts (`add_safe_globals`).

Note [Building]. A list of trusted names is not enough: BUILD sets attributes of any object on the
stack, for example a function's defaults, or the size of a dtype that the whole process uses;
APPEND, SETITEM and ADDITEMS change it. So these four take only objects that this pickle has made:
`made` has each container by its id, and each object of a trusted class to which nothing else
referred when it was constructed. The state of NumPy's dtypes is checked and dropped; that of its
arrays is checked and given to them once (`fill_array`).

Note [Protocols]. NumPy looks up `__array_interface__` in an instance and reads memory at the
address that it has; other libraries have protocols like it. No attribute from a file has such a
name, also where a trusted class sets its own state.
"""

from __future__ import annotations

import codecs
import pickle
import struct
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from ..errors import printable
from .constructors import CONSTRUCTORS, NAMES, check_dtype_state, fill_array, frozen, rebuild_array
from .limits import ATTRIBUTE, Limits, brief

CONTAINERS = (list, dict, set, OrderedDict, defaultdict, Counter, deque)
MAPPINGS = (dict, OrderedDict, defaultdict, Counter)
MAX_DIGITS = 4300  # of an int in decimal
ABSENT = object()  # of the memo


def call(function: Any, args: Any, kwargs: Any) -> tuple[Any, int]:
    """The result, and the number of references to it."""
    result = function(*args, **kwargs)
    return result, sys.getrefcount(result)


UNSHARED = call(object, (), {})[1]  # references to an object that nothing else refers to


class RestrictedUnpickler:
    """Unpickles data, and calls only what is trusted.

    Args:
        data: the pickle, of any protocol.
        names: (module, name) -> further objects that the pickle may name.
        constructors: id of such an object -> function (limits, *args) that is called in its place.
        trusted: (module, name) -> classes and functions of the user, which are called themselves.
        find_storage: function (limits, persistent id) -> its object.
        encoding: of strings that Python 2 has pickled.
        hint: the end of the error for a name that is not trusted.

    Time and memory are bounded by multiples of the size of `data`, see `Limits`.
    """

    dispatch: ClassVar[dict[int, Callable[[RestrictedUnpickler], None]]] = {}

    def __init__(
        self,
        data: bytes,
        *,
        names: Mapping[tuple[str, str], Any] | None = None,
        constructors: Mapping[int, Callable[..., Any]] | None = None,
        trusted: Mapping[tuple[str, str], Any] | None = None,
        find_storage: Callable[[Limits, Any], Any] | None = None,
        encoding: str = "utf-8",
        hint: str = "",
    ) -> None:
        self.data = data
        self.names = {**(trusted or {}), **NAMES, **(names or {})}
        self.constructors = {**CONSTRUCTORS, **(constructors or {})}
        # An alias of one of our names does not make the object itself callable.
        ours = {id(obj) for obj in (*NAMES.values(), *(names or {}).values())}
        self.trusted = {id(obj): obj for obj in (trusted or {}).values() if id(obj) not in ours}
        self.find_storage = find_storage
        self.encoding = encoding
        self.hint = hint
        self.pos = 0
        self.stack: list[Any] = []
        self.outer_stacks: list[list[Any]] = []  # those below each MARK
        self.memo: list[Any] = []  # a list: a file could choose numbers of equal hash
        self.made: dict[int, Any] = {}
        self.unfilled: dict[int, Any] = {}  # arrays that wait for their BUILD
        self.limits = Limits(len(data), has_classes=bool(self.trusted))

    def load(self) -> Any:
        """The object.

        Raises:
            pickle.UnpicklingError: the pickle is damaged, or holds what is not trusted.
        """
        data, dispatch = self.data, self.dispatch
        try:
            while True:
                opcode = data[self.pos]
                self.pos += 1
                if opcode == pickle.STOP[0]:
                    return self.stack.pop()
                dispatch[opcode](self)
        except (pickle.UnpicklingError, OSError, MemoryError):
            raise
        except Exception as error:
            if isinstance(error, RuntimeError) and not isinstance(error, RecursionError):
                raise  # of a storage, or of the user's function
            raise pickle.UnpicklingError(
                f"load: the pickle is damaged at byte {self.pos} of {len(data)}: "
                f"{type(error).__name__}: {printable(text_of(error)[:200])}"
            ) from error

    # ------------------------------------------------------------------ reading
    def read(self, n: int) -> bytes:
        start = self.pos
        self.pos = end = start + n
        if end > len(self.data):
            raise EOFError(f"{n} bytes at {start} reach beyond the end")
        return self.data[start:end]

    def unsigned(self, n: int) -> int:
        return int.from_bytes(self.read(n), "little")

    def line(self) -> bytes:
        end = self.data.index(b"\n", self.pos)
        line = self.data[self.pos : end]
        self.pos = end + 1
        return line

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def push_made(self, value: Any) -> None:
        """Pushes a container that later opcodes may fill."""
        self.made[id(value)] = value
        self.stack.append(value)

    def pop_mark(self) -> list[Any]:
        """The objects since the last MARK."""
        items, self.stack = self.stack, self.outer_stacks.pop()
        return items

    # ------------------------------------------------------------------ numbers and text
    def load_int(self) -> None:
        text = self.line()
        if text in (b"00", b"01"):
            self.push(text == b"01")
        else:
            self.push_decimal(text)

    def load_long(self) -> None:
        self.push_decimal(self.line().rstrip(b"L"))

    def push_decimal(self, text: bytes) -> None:
        if len(text) > MAX_DIGITS:
            raise ValueError(f"an int has {len(text)} digits, at most {MAX_DIGITS}")
        self.push(int(text))

    def load_bytes_of_int(self, n: int) -> None:
        self.push(int.from_bytes(self.read(n), "little", signed=True))

    def load_string(self) -> None:
        text = self.line()
        if len(text) < 2 or text[0] != text[-1] or text[0] not in b"\"'":
            raise ValueError("the text of a STRING is not in quotes")
        self.push(self.decode(codecs.escape_decode(text[1:-1])[0]))

    def decode(self, text: bytes) -> str:
        return text.decode(self.encoding)

    def load_utf8(self, n: int) -> None:
        self.push(str(self.read(n), "utf-8", "surrogatepass"))

    # ------------------------------------------------------------------ containers
    def push_tuple(self, items: list[Any]) -> None:
        value = tuple(items)
        self.limits.nest(value, items)
        self.push(value)

    def load_tuple(self, n: int) -> None:
        items = self.stack[-n:]
        if len(items) != n:
            raise IndexError(f"a tuple of {n} from {len(items)} objects")
        del self.stack[-n:]
        self.push_tuple(items)

    def load_frozenset(self) -> None:
        self.push(frozen(self.limits, self.pop_mark()))

    def load_list(self) -> None:
        self.push_made(self.pop_mark())

    def load_dict(self) -> None:
        items = self.pop_mark()
        self.push_made({})
        self.set_items(items)

    def load_append(self) -> None:
        item = self.stack.pop()
        self.extend([item])

    def load_appends(self) -> None:
        self.extend(self.pop_mark())

    def extend(self, items: list[Any]) -> None:
        target = self.target("appends to")
        self.limits.fill(target, items)
        if type(target) in (list, deque):
            target.extend(items)
            return
        self.check_class(target, "appends to")
        for item in items:
            type(target).append(target, item)

    def load_setitem(self) -> None:
        value = self.stack.pop()
        self.set_items([self.stack.pop(), value])

    def load_setitems(self) -> None:
        self.set_items(self.pop_mark())

    def set_items(self, items: list[Any]) -> None:
        target = self.target("sets items of")
        keys, values = items[::2], items[1::2]
        if len(keys) != len(values):
            raise IndexError(f"{len(keys)} keys and {len(values)} values")
        self.limits.hash(keys, target)
        self.limits.fill(target, values)
        if type(target) not in MAPPINGS:
            self.check_class(target, "sets items of")
        for key, value in zip(keys, values, strict=True):
            target[key] = value

    def load_additems(self) -> None:
        items = self.pop_mark()
        target = self.target("adds to")
        self.limits.hash(items, target)
        if type(target) is set:
            target.update(items)
            return
        self.check_class(target, "adds to")
        for item in items:
            type(target).add(target, item)

    def target(self, verb: str) -> Any:
        """The object on the stack, if this pickle has made it. See Note [Building]."""
        target = self.stack[-1]
        if id(target) not in self.made:
            raise pickle.UnpicklingError(
                f"load: the file {verb} what it has not constructed: {brief(target)}"
            )
        return target

    def check_class(self, target: Any, verb: str) -> None:
        if id(type(target)) not in self.trusted:
            raise pickle.UnpicklingError(
                f"load: the file {verb} something that is not trusted: {brief(target)}"
            )

    # ------------------------------------------------------------------ names and calls
    def load_global(self) -> None:
        module = self.line().decode()
        self.push(self.find(module, self.line().decode()))

    def load_stack_global(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if type(name) is not str or type(module) is not str:
            raise TypeError(f"a name is not text: {brief(module)}, {brief(name)}")
        self.push(self.find(module, name))

    def find(self, module: str, name: str) -> Any:
        obj = self.names.get((module, name))
        if obj is None:
            raise pickle.UnpicklingError(
                "load: the file constructs something that is not trusted: "
                f"{printable(module[:200])}.{printable(name[:200])}{self.hint}"
            )
        return obj

    def load_reduce(self) -> None:
        args = self.stack.pop()
        self.construct(self.stack.pop(), args, {}, False)

    def load_newobj(self) -> None:
        args = self.stack.pop()
        self.construct(self.stack.pop(), args, {}, True)

    def load_newobj_ex(self) -> None:
        kwargs, args = self.stack.pop(), self.stack.pop()
        self.construct(self.stack.pop(), args, kwargs, True)

    def construct(self, function: Any, args: Any, kwargs: Any, is_new: bool) -> None:
        """Pushes the result of a call."""
        if type(args) is not tuple or type(kwargs) is not dict:
            raise TypeError(f"arguments are {brief(args)} and {brief(kwargs)}")
        constructor = self.constructors.get(id(function))
        if constructor is not None:
            if kwargs:
                raise TypeError(f"{len(kwargs)} keyword arguments")
            result = constructor(self.limits, *args)
            if constructor is rebuild_array:
                self.unfilled[id(result)] = result
            if type(result) in CONTAINERS:
                self.made[id(result)] = result
            self.push(result)
            return
        if id(function) not in self.trusted:
            raise pickle.UnpicklingError(
                f"load: the file calls something that is not trusted: {describe(function)}"
            )
        if is_new:
            if not isinstance(function, type):
                raise TypeError(f"NEWOBJ of what is not a class: {describe(function)}")
            check_names(function, kwargs)
            function, args = function.__new__, (function, *args)
        self.limits.visit((args, kwargs))
        result, references = call(function, args, kwargs)
        if references <= UNSHARED:
            self.made[id(result)] = result
        self.limits.nest(result, args)
        self.push(result)

    def load_build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        kind = type(target)
        if isinstance(target, np.dtype):
            check_dtype_state(target, state)
        elif kind is np.ndarray and self.unfilled.pop(id(target), None) is not None:
            fill_array(self.limits, target, state)
        elif kind is OrderedDict and id(target) in self.made:
            if type(state) is not dict:
                raise TypeError(f"the state of an OrderedDict is {brief(state)}")
            self.limits.visited(ATTRIBUTE * len(state))
            for name in state:
                # Code that uses the dict would call what hides a method; see Note [Protocols].
                is_plain = type(name) is str and name.isidentifier() and name[0] != "_"
                if name != "_metadata" and (not is_plain or hasattr(kind, name)):
                    raise pickle.UnpicklingError(
                        "load: the file hides a method of an OrderedDict, or sets what is no plain "
                        f"attribute: {brief(name)}"
                    )
            set_attributes(target, state)
        elif id(kind) in self.trusted and id(target) in self.made:
            self.limits.visit(state)
            # Looked up in the class: an instance's attributes are the file's.
            set_state = getattr(kind, "__setstate__", set_attributes)
            set_state(target, state)
            check_names(target, getattr(target, "__dict__", ()))
        else:
            raise pickle.UnpicklingError(
                "load: the file sets attributes of something that is not trusted, or that it has "
                f"not constructed: {describe(target)}"
            )

    def load_persistent(self) -> None:
        if self.find_storage is None:
            raise pickle.UnpicklingError("load: the file refers to a storage, and there is none")
        self.push(self.find_storage(self.limits, self.stack.pop()))

    # ------------------------------------------------------------------ stack and memo
    def load_mark(self) -> None:
        self.outer_stacks.append(self.stack)
        self.stack = []

    def load_pop(self) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.pop_mark()

    def load_dup(self) -> None:
        self.push(self.stack[-1])

    def get(self, index: int) -> None:
        if not 0 <= index < len(self.memo) or (item := self.memo[index]) is ABSENT:
            raise KeyError(index)
        self.push(item)

    def put(self, index: int) -> None:
        memo, item = self.memo, self.stack[-1]
        if index == len(memo):
            memo.append(item)
            return
        if not 0 <= index < len(self.data):  # each PUT has a byte, and picklers count from 0 or 1
            raise IndexError(f"an object has the number {index}")
        if index > len(memo):
            memo += [ABSENT] * (index - len(memo) + 1)
        memo[index] = item

    def load_proto(self) -> None:
        if (protocol := self.unsigned(1)) > pickle.HIGHEST_PROTOCOL:
            raise ValueError(f"protocol {protocol} of at most {pickle.HIGHEST_PROTOCOL}")

    def load_frame(self) -> None:
        if (nbytes := self.unsigned(8)) > len(self.data) - self.pos:
            raise EOFError(f"a frame of {nbytes} bytes reaches beyond the end")


def set_attributes(target: Any, state: Any) -> None:
    """The state of an object without `__setstate__`: a dict, or (dict or None, dict of slots)."""
    slots: Any = None
    if type(state) is tuple and len(state) == 2:
        state, slots = state
    for part in (state, slots):
        if part is None:
            continue
        if type(part) is not dict or not all(type(name) is str for name in part):
            raise TypeError(f"the state of {describe(target)} is {brief(part)}")
        check_names(target, part)
    if state:
        attributes = target.__dict__
        for name, value in state.items():
            attributes[sys.intern(name)] = value
    for name, value in (slots or {}).items():
        setattr(target, name, value)


def check_names(target: Any, names: Iterable[Any]) -> None:
    """Checks names of attributes from a file. See Note [Protocols]."""
    for name in names:
        if type(name) is str and name[:2] == "__" == name[-2:]:
            raise pickle.UnpicklingError(
                f"load: the file sets what Python and NumPy look up: {brief(name)} of "
                f"{describe(target)}"
            )


def text_of(error: Exception) -> str:
    try:
        return str(error)
    except ValueError:  # Python shows no int of more than MAX_DIGITS
        return ""


def describe(obj: Any) -> str:
    """A class or function by its name, another object by its type."""
    name = getattr(obj, "__qualname__", None)
    is_named = isinstance(obj, type) or callable(obj)
    return name if is_named and type(name) is str else brief(obj)


def dispatch_table() -> dict[int, Callable[[RestrictedUnpickler], None]]:
    """Opcode -> what it does. Opcodes that are not here are refused: EXT, INST, OBJ, PERSID and
    the buffers of protocol 5, which no file of ours, PyTorch's or CIFAR's has."""
    cls = RestrictedUnpickler
    signed = struct.Struct("<i").unpack
    double = struct.Struct(">d").unpack

    def sized(n: int, use: Callable[[RestrictedUnpickler, bytes], Any]) -> Any:
        """Reads a length of `n` bytes and as many bytes, and pushes what `use` makes of them."""
        return lambda self: self.push(use(self, self.read(self.unsigned(n))))

    table: dict[bytes, Any] = {
        pickle.MARK: cls.load_mark,
        pickle.POP: cls.load_pop,
        pickle.POP_MARK: cls.pop_mark,
        pickle.DUP: cls.load_dup,
        pickle.PROTO: cls.load_proto,
        pickle.FRAME: cls.load_frame,
        pickle.NONE: lambda self: self.push(None),
        pickle.NEWTRUE: lambda self: self.push(True),
        pickle.NEWFALSE: lambda self: self.push(False),
        pickle.INT: cls.load_int,
        pickle.LONG: cls.load_long,
        pickle.LONG1: lambda self: self.load_bytes_of_int(self.unsigned(1)),
        pickle.LONG4: lambda self: self.load_bytes_of_int(self.unsigned(4)),
        pickle.BININT: lambda self: self.push(signed(self.read(4))[0]),
        pickle.BININT1: lambda self: self.push(self.unsigned(1)),
        pickle.BININT2: lambda self: self.push(self.unsigned(2)),
        pickle.FLOAT: lambda self: self.push(float(self.line())),
        pickle.BINFLOAT: lambda self: self.push(double(self.read(8))[0]),
        pickle.STRING: cls.load_string,
        pickle.BINSTRING: sized(4, cls.decode),
        pickle.SHORT_BINSTRING: sized(1, cls.decode),
        pickle.UNICODE: lambda self: self.push(str(self.line(), "raw-unicode-escape")),
        pickle.BINUNICODE: lambda self: self.load_utf8(self.unsigned(4)),
        pickle.SHORT_BINUNICODE: lambda self: self.load_utf8(self.unsigned(1)),
        pickle.BINUNICODE8: lambda self: self.load_utf8(self.unsigned(8)),
        **{
            opcode: sized(n, lambda self, data: data)
            for n, opcode in (
                (1, pickle.SHORT_BINBYTES),
                (4, pickle.BINBYTES),
                (8, pickle.BINBYTES8),
            )
        },
        pickle.BYTEARRAY8: sized(8, lambda self, data: bytearray(data)),
        pickle.EMPTY_TUPLE: lambda self: self.push(()),
        pickle.TUPLE: lambda self: self.push_tuple(self.pop_mark()),
        pickle.TUPLE1: lambda self: self.load_tuple(1),
        pickle.TUPLE2: lambda self: self.load_tuple(2),
        pickle.TUPLE3: lambda self: self.load_tuple(3),
        pickle.EMPTY_LIST: lambda self: self.push_made([]),
        pickle.EMPTY_DICT: lambda self: self.push_made({}),
        pickle.EMPTY_SET: lambda self: self.push_made(set()),
        pickle.FROZENSET: cls.load_frozenset,
        pickle.LIST: cls.load_list,
        pickle.DICT: cls.load_dict,
        pickle.APPEND: cls.load_append,
        pickle.APPENDS: cls.load_appends,
        pickle.SETITEM: cls.load_setitem,
        pickle.SETITEMS: cls.load_setitems,
        pickle.ADDITEMS: cls.load_additems,
        pickle.GLOBAL: cls.load_global,
        pickle.STACK_GLOBAL: cls.load_stack_global,
        pickle.REDUCE: cls.load_reduce,
        pickle.NEWOBJ: cls.load_newobj,
        pickle.NEWOBJ_EX: cls.load_newobj_ex,
        pickle.BUILD: cls.load_build,
        pickle.BINPERSID: cls.load_persistent,
        pickle.GET: lambda self: self.get(int(self.line()[:20])),
        pickle.BINGET: lambda self: self.get(self.unsigned(1)),
        pickle.LONG_BINGET: lambda self: self.get(self.unsigned(4)),
        pickle.PUT: lambda self: self.put(int(self.line()[:20])),
        pickle.BINPUT: lambda self: self.put(self.unsigned(1)),
        pickle.LONG_BINPUT: lambda self: self.put(self.unsigned(4)),
        pickle.MEMOIZE: lambda self: self.put(len(self.memo)),
    }
    return {opcode[0]: function for opcode, function in table.items()}


RestrictedUnpickler.dispatch = dispatch_table()
