"""The op table: what an op is, declared once as a row of data.

A row holds a forward on arrays, one pullback per differentiable input, and columns that say how the
engine treats it. Nothing here knows Tensor: `autograd` turns rows into functions. Names are read
once, at declaration, so that a wrong one is a TypeError there and not in the middle of a backward.

```python
@op(numpy=np.multiply, broadcast=True, promote="common", samples=PAIR)
def mul(xp, x, y, /):
    "Product of two tensors, with broadcasting."
    return x * y

mul.pullback(x=lambda g, y: g * y, y=lambda g, x: g * x)
```

Inputs stand before `/`, attributes after it. The public names of the inputs `x` and `y` are `input`
and `other`. An input annotated `list` takes a sequence of tensors; one with the default None may be
left out. An attribute may be annotated: "index" (tensors inside are turned into arrays), "sizes"
(the method takes `*sizes` as well), "dtype" (any spelling of a dtype).

Longer than other files: each column is explained here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any, NamedTuple, TypeAlias

__all__ = [
    "COMPOSITES",
    "PAIR",
    "PRIVATE",
    "ROWS",
    "Composite",
    "Input",
    "Row",
    "composite",
    "insist_on_tensors",
    "op",
]

Function = Callable[..., Any]
EMPTY = Parameter.empty

# What a row's annotations say (see above); to a type checker an attribute may be anything.
sizes: TypeAlias = Any
index: TypeAlias = Any
dtype: TypeAlias = Any

PUBLIC_NAMES = {"x": "input", "y": "other"}
RULES = ("common", "float")
ANNOTATIONS = ("index", "sizes", "dtype")

# Rows and composites that pullbacks and other composites call, not users.
PRIVATE: dict[str, Any] = {"method": False, "function": False}

# Shapes of two broadcasting operands that between them stretch every way.
PAIR: list[tuple[Any, ...]] = [
    ((3, 4), (3, 4)),
    ((3, 4), (4,)),
    ((2, 1, 4), (3, 1)),
    ((), (3,)),
    ((3,), ()),
]


class Input(NamedTuple):
    """One tensor input of a row."""

    name: str
    listed: bool = False  # a sequence of tensors
    optional: bool = False  # may be None

    @property
    def public(self) -> str:
        return PUBLIC_NAMES.get(self.name, self.name)


class Attribute(NamedTuple):
    """One plain argument of a row: a dimension, a flag, a shape."""

    name: str
    default: Any  # EMPTY if it must be given
    kind: str  # "", or one of ANNOTATIONS
    keyword_only: bool


class Pullback(NamedTuple):
    """The gradient of one input: a function and the names of what it needs."""

    function: Function
    needs: tuple[str, ...]


class Row:
    """An op. Made by `op`; complete before the first call compiles it."""

    # No dataclass here and below: writing its methods would be a tenth of the import.
    name: str
    forward: Function
    inputs: tuple[Input, ...]
    attributes: tuple[Attribute, ...]
    doc: str
    numpy: Any  # the CPU kernel: a callable, or (callable, "arguments as source")
    broadcast: bool
    promote: str | None
    promoted: tuple[str, ...]  # the inputs that promotion concerns
    outputs: tuple[str, ...]
    keeps: tuple[str, ...]
    listed: bool
    view: bool
    inplace: bool
    out: bool
    method: bool
    function: bool
    samples: Sequence[tuple[Any, ...]]
    tensors: tuple[str, ...]  # inputs that no Python number may stand for
    product: bool
    wraps: bool
    layout: str
    halves: str
    autocast: str
    vmap: str
    exact_out: bool
    diverted: Function | None = None
    diverted_in_place: Function | None = None  # the same for `<name>_`; else its result is copied
    wrong: Function | None = None  # (inputs, attributes) -> an error, looked for after a failure
    unlike: Function | None = None  # raises where operands of unlike dtypes are not mixed

    def __init__(self, **columns: Any) -> None:
        self.__dict__.update(columns)
        self.pullbacks: dict[str, Pullback] = {}
        self.overrides: dict[type, Function] = {}
        self.aliases: list[str] = []
        self.rarely: dict[str, Any] = {}  # keyword arguments that divert the call

    def pullback(self, **functions: Function | None) -> Row:
        """Declares the gradients of inputs, by the inputs' names.

        A function may name: `g` (or `g_<output>`), `ops` (this table, on arrays or Tensors), any
        input, `<input>_shape`, `<input>_dtype`, any output (`out` if there is one), kept extras and
        attributes. The engine keeps exactly what is named. It returns the gradient, or None for no
        gradient; for a `list` input a list of them. `into` is None, or an array of the input's
        shape and dtype that it may write the gradient to and return (Note [Gradient buffers]).

        Raises:
            TypeError: a name that this op does not have.
        """
        known = self.names()
        for name, function in functions.items():
            if name not in {i.name for i in self.inputs}:
                raise TypeError(f"{self.name}.pullback: no such input: {name!r}, it has {known}")
            if function is None:
                continue
            needs = parameters_of(function)
            unknown = [n for n in needs if n not in known]
            if unknown:
                raise TypeError(
                    f"{self.name}.pullback: {name} names what the op does not have: {unknown}, "
                    f"it has {sorted(known)}"
                )
            self.pullbacks[name] = Pullback(function, needs)
        return self

    @property
    def label(self) -> str:
        """The name in messages: without the underscore of a private row."""
        return self.name.lstrip("_")

    def names(self) -> set[str]:
        """What a pullback of this op may name."""
        names = {"g", "ops", "into", *self.outputs, *self.keeps, *(a.name for a in self.attributes)}
        names |= {f"g_{output}" for output in self.outputs}
        for x in self.inputs:
            names |= {x.name, f"{x.name}_shape", f"{x.name}_dtype"}
        return names

    def on(self, array_class: type) -> Callable[[Function], Function]:
        """Declares another forward for a device's array class: `@exp.on(cupy.ndarray)`."""

        def declare(function: Function) -> Function:
            self.overrides[array_class] = function
            return function

        return declare

    def alias(self, *names: str) -> Row:
        """Further public names of the op: `mul.alias("multiply")`."""
        self.aliases += names
        return self

    def rare(self, **defaults: Any) -> Callable[[Function], Function]:
        """Declares keyword arguments that hardly anyone gives, at no cost for the others.

        When one of them is given, the composite below is called instead: `(ops, inputs...,
        attributes..., *, given)`. The composite must not pass them on to the op itself. For example
        `@add.rare(alpha=1)`, `@sum.rare(dtype=None)`.
        """

        def declare(function: Function) -> Function:
            self.rarely.update(defaults)
            self.diverted = function
            return function

        return declare


class Composite:
    """A public function that is plain Python over other ops, and has no pullback of its own."""

    name: str
    compute: Function  # (ops, arguments...)
    doc: str
    method: bool
    function: bool
    inplace: bool | str | Function
    samples: Sequence[tuple[Any, ...]]
    autocast: str
    exact_out: bool

    def __init__(self, **columns: Any) -> None:
        self.__dict__.update(columns)
        self.aliases: list[str] = []

    def alias(self, *names: str) -> Composite:
        """Further public names."""
        self.aliases += names
        return self


def insist_on_tensors(name: str, *values: Any) -> None:
    """Raises TypeError if one of the operands of a composite is a Python number."""
    if any(isinstance(v, (bool, int, float, complex)) for v in values):
        raise TypeError(f"{name}: a tensor is needed, not a number: {values}")


ROWS: dict[str, Row] = {}
COMPOSITES: dict[str, Composite] = {}


def op(
    *,
    numpy: Any = None,
    broadcast: bool = False,
    promote: str | None = None,
    outputs: str = "out",
    keeps: str = "",
    listed: bool = False,
    view: bool = False,
    inplace: bool | None = None,
    out: bool | None = None,
    method: bool = True,
    function: bool = True,
    name: str | None = None,
    tensors: str = "",
    product: bool = False,
    wraps: bool = True,
    layout: str = "",
    halves: str = "",
    autocast: str = "",
    vmap: str = "",
    exact_out: bool = False,
    samples: Sequence[tuple[Any, ...]] = (),
) -> Callable[[Function], Row]:
    """Declares an op: the decorated function is its forward, `forward(xp, inputs..., /,
    attributes...)` on arrays.

    Args:
        numpy: the CPU kernel, called with the inputs and then all attributes, positionally; or
            `(kernel, "x, dim, None")` to spell the arguments. Without it the forward runs with `xp
            = numpy`.
        broadcast: inputs are broadcast against each other, and may be Python numbers; the engine
            sums each gradient back to its input's shape.
        promote: "common" (PyTorch's common dtype of the inputs), "float" (the same, and integers
            become the default float); then the names of the inputs it concerns if not all: "common
            x y".
        outputs: names of the outputs, separated by spaces. A pullback that names `g` gets the first
            one's gradient.
        keeps: names of extras that forward returns after the outputs, for pullbacks only.
        listed: forward returns a list of outputs, of any length; `g` is the list of their
            gradients.
        view: the result may be a view of the first input.
        inplace: make an in-place form `<name>_`. By default: when `promote` is given.
        out: the kernel takes the result array as one more positional argument. By default: when it
            is a ufunc.
        method, function: make a Tensor method, a function of `shmtensor`. With neither, the op is
            private.
        name: the op's name, if the function cannot bear it.
        tensors: names of inputs of a broadcasting op for which PyTorch takes tensors only, no
            Python numbers (operators take them: `2 < x`).
        product: a product of the first two inputs as matrices: what a mismatch of shapes means.
        wraps: a Python integer that does not fit into the tensor's dtype wraps around. Otherwise
            the kernel knows what to do with it.
        layout: how the results lie in memory where the operands are not in rows: "pointwise" as
            PyTorch's pointwise functions do it, "rows", "like" the first input, "images x y" in
            channels last if one of these inputs is, "all images x" if all tensors of the list are;
            "" as the kernel leaves them. What broadcasts, and ufuncs, are pointwise by themselves.
        halves: why the kernel gets 16-bit floats as they lie in memory: "moved", it moves
            elements; "asked", it asks for the dtype; "chosen", it chooses a kernel itself. Others
            compute in float32 and round once (docs/design/bfloat16.md).
        autocast: in which precision it computes inside `autocast`: "lower", "full" (float32),
            "widest" (of the operands), "alone" (as given, though there are products inside).
            PyTorch's lists of its CPU backend.
        vmap: its batching rule in func/batching_rules/rules_by_op_kind.py; "" by the other columns,
            or example by example.
        exact_out: `out=` must have the result's dtype, as in PyTorch; others convert.
        samples: arguments for the generated test, a tuple each; a tuple of ints in place of an
            input is its shape.
    """

    def declare(forward: Function) -> Row:
        inputs, attributes = read_signature(forward)
        rule, *promoted = (promote or "").split() or [""]
        if promote is not None and rule not in RULES:
            raise TypeError(f"op: promote: one of {RULES} is needed, not {promote!r}")
        row = Row(
            name=name or forward.__name__,
            forward=forward,
            inputs=inputs,
            attributes=attributes,
            doc=forward.__doc__ or "",
            numpy=numpy,
            broadcast=broadcast,
            promote=rule or None,
            promoted=tuple(promoted or (i.name for i in inputs)),
            outputs=tuple(outputs.split()),
            keeps=tuple(keeps.split()),
            listed=listed,
            view=view,
            inplace=promote is not None and outputs == "out" if inplace is None else inplace,
            out=hasattr(numpy, "nin") if out is None else out,
            method=method,
            function=function,
            samples=samples,
            tensors=tuple(tensors.split()),
            product=product,
            wraps=wraps,
            layout=layout,
            halves=halves,
            autocast=autocast,
            vmap=vmap,
            exact_out=exact_out,
        )
        if row.name in ROWS or row.name in COMPOSITES:
            raise TypeError(f"op: declared twice: {row.name!r}")
        ROWS[row.name] = row
        return row

    return declare


def read_signature(forward: Any) -> tuple[tuple[Input, ...], tuple[Attribute, ...]]:
    """The inputs and attributes that a forward names.

    Read from its code: `inspect.signature` takes 40 us a function, and there are a thousand.
    """
    code = forward.__code__
    names, ahead = code.co_varnames, code.co_posonlyargcount
    if names[:1] != ("xp",) or not ahead:
        raise TypeError(
            f"op: {forward.__name__}: the first parameter must be xp, before '/': {names[:1]}"
        )
    notes = forward.__annotations__
    given = forward.__defaults__ or ()
    defaults = dict(zip(names[code.co_argcount - len(given) : code.co_argcount], given))
    defaults.update(forward.__kwdefaults__ or {})
    inputs = [Input(n, word_of(notes.get(n, "")) == "list", n in defaults) for n in names[1:ahead]]
    attributes = []
    for i in range(ahead, code.co_argcount + code.co_kwonlyargcount):
        word = word_of(notes.get(names[i], ""))
        kind = word if word in ANNOTATIONS else ""
        default = defaults.get(names[i], EMPTY)
        attributes.append(Attribute(names[i], default, kind, i >= code.co_argcount))
    return tuple(inputs), tuple(attributes)


def word_of(note: Any) -> str:
    """The word that an annotation is."""
    text = note if isinstance(note, str) else note.__name__
    return text.strip("'\"").partition("[")[0]


def parameters_of(function: Any) -> tuple[str, ...]:
    """The names of a function's parameters."""
    code = function.__code__
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return names


def composite(
    compute: Function | None = None,
    *,
    method: bool = True,
    function: bool = True,
    inplace: bool | str | Function = False,
    name: str | None = None,
    samples: Sequence[tuple[Any, ...]] = (),
    autocast: str = "",
    exact_out: bool = False,
) -> Any:
    """Declares a public function that is plain Python over other ops.

    Its first parameter is `ops`, the table: `@composite` / `def addcmul(ops, input, tensor1,
    tensor2, *, value=1):`. The rest is the public signature, with PyTorch's names. It may also
    serve in pullbacks, as `ops.addcmul`. `inplace` makes an in-place form, which copies the result;
    a function `(ops, arguments...)` does it without the copy, or gives None; with the names of rows
    ("written slices_plus") the composite itself does, for whose calls of those rows their in-place
    forms stand. `autocast` and `exact_out` are as for a row.
    """

    def declare(compute: Function) -> Composite:
        made = Composite(
            name=name or compute.__name__,
            compute=compute,
            doc=compute.__doc__ or "",
            method=method,
            function=function,
            inplace=inplace,
            samples=samples,
            autocast=autocast,
            exact_out=exact_out,
        )
        if parameters_of(compute)[:1] != ("ops",):
            raise TypeError(f"composite: {made.name}: the first parameter must be ops")
        if made.name in ROWS or made.name in COMPOSITES:
            raise TypeError(f"composite: declared twice: {made.name!r}")
        COMPOSITES[made.name] = made
        return made

    return declare if compute is None else declare(compute)
