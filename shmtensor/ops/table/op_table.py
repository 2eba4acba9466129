"""The op table: what an op is, declared once as a row of data.

A row has a forward on arrays, a pullback for each differentiable input or one for all of them, and
columns that tell the engine how to treat it. Nothing here knows Tensor: `autograd` turns rows into
functions. Names are checked at declaration, so that a wrong one is a TypeError there and not during
a backward.

```python
@op(numpy=np.multiply, broadcast=True, promote="common", samples=PAIR)
def mul(xp, x, y, /):
    "Product of two tensors, with broadcasting."
    return x * y

mul.pullback(x=lambda g, y: g * y, y=lambda g, x: g * x)
```

Inputs are before `/`, attributes after it. The public names of the inputs `x` and `y` are `input`
and `other`. An input annotated `list` takes a sequence of tensors; one with the default None is
optional. An attribute may be annotated: "index" (tensors inside become arrays), "sizes" (the method
takes `*sizes` as well), "dtype" (any spelling of a dtype).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from inspect import Parameter
from typing import Any, NamedTuple, TypeAlias

from .native_or_numpy import cpu_kernel, half_kernel

Function = Callable[..., Any]
EMPTY = Parameter.empty

# The annotations of rows (see above); to a type checker an attribute may be anything.
sizes: TypeAlias = Any
index: TypeAlias = Any
dtype: TypeAlias = Any

PUBLIC_NAMES = {"x": "input", "y": "other"}
RULES = ("common", "float")
ANNOTATIONS = ("index", "sizes", "dtype")

# Columns of what is public in a namespace alone, as nn.functional.
IN_NAMESPACE: dict[str, Any] = {"method": False, "function": False}

# Shapes of two operands in all cases of broadcasting.
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
    default: Any  # EMPTY if it is required
    kind: str  # "", or one of ANNOTATIONS
    keyword_only: bool


class Pullback(NamedTuple):
    """The gradient of one input: a function and the names of what it needs."""

    function: Function
    needs: tuple[str, ...]


class Row:
    """An op, declared by `op`; complete before its first call."""

    # Not a dataclass, nor is Composite: generating the methods would be a tenth of the import time.
    name: str
    forward: Function
    inputs: tuple[Input, ...]
    attributes: tuple[Attribute, ...]
    doc: str
    numpy: Any  # the CPU's kernel: a callable, or (callable, "arguments as source"); or None
    half: Any  # the kernel that is tried first on 16-bit floats, or None
    broadcast: bool
    promote: str | None
    promoted: tuple[str, ...]  # the inputs that promotion concerns
    outputs: tuple[str, ...]
    saves: tuple[str, ...]
    listed: bool
    view: bool
    inplace: bool
    out: bool
    method: bool
    function: bool
    samples: Sequence[tuple[Any, ...]]
    tensors: tuple[str, ...]  # inputs that must not be Python numbers
    product: str
    operator: str
    comparison: bool
    numbers: bool
    wraps: bool
    layout: str
    statistics: tuple[str, ...]
    halves: str
    cuda_halves: bool
    cuda_fallback: Function | None
    selects: bool
    autocast: str
    autocast_cuda: str
    vmap: str
    exact_out: bool
    out_argument: bool | None
    between_devices: bool
    of_memory: bool
    empty_error: type[Exception]
    sized_by_values: str
    complex_gradients: bool
    diagnose: Function | None
    check_dtypes: Function | None
    rare_form: Function | None = None  # the composite for calls with rare keyword arguments
    rare_form_inplace: Function | None = None  # the same for `<name>_`; by default a copy of it
    joint: Pullback | None = None  # one pullback for all inputs, with all its parameters

    def __init__(self, cuda: Function | str | None, **columns: Any) -> None:
        self.__dict__.update(columns)
        self.pullbacks: dict[str, Pullback] = {}
        self.device_forwards: dict[str, Any] = {} if cuda is None else {"cuda": cuda}
        self.aliases: list[str] = []
        self.rare_defaults: dict[str, Any] = {}  # keyword arguments that call `rare_form`

    def pullback(self, **functions: Function | None) -> Row:
        """Declares the gradients of inputs, by the inputs' names.

        The parameters of a function may be: `g` (or `g_<output>`), `ops` (this table, on arrays or
        Tensors), any input, `<input>_shape`, `<input>_dtype`, any output (`out` if there is one),
        saved extras, attributes, and `into`. The engine saves exactly the values that they name.
        The function returns the gradient, or None for no gradient; for a `list` input a list of
        them. `into` is None, or an array of the input's shape and dtype that the function may write
        the gradient to and return (Note [Gradient buffers]).

        Raises:
            TypeError: a name that this op does not have.
        """
        self.check_inputs("pullback", functions)
        for name, function in functions.items():
            if function is not None:
                needs = self.check_parameters(f"pullback: {name}", function, self.names())
                self.pullbacks[name] = Pullback(function, needs)
        return self

    def joint_pullback(self, function: Function, /, **inputs: str) -> Row:
        """Declares one function for the gradients of all inputs, which is called once a node.

        Its parameters may be those of a pullback, except `into`, and `needed`: a tuple of bools,
        whether the gradient of each differentiable input is needed, in the order of the inputs; for
        a `list` input a tuple of bools. It returns a tuple with the gradient of each, None if it is
        not needed; for a `list` input a list. A gradient must not depend on the others being
        needed.

        Args:
            inputs: for each differentiable input, the names of the inputs that its gradient needs,
                separated by spaces. An input is saved only if a gradient that names it is needed;
                else it is None. All other values that the function names are saved.

        Raises:
            TypeError: a name that this op or the function does not have, or an input that the
                function takes and no gradient needs.
        """
        self.check_inputs("joint_pullback", inputs)
        parameters = self.check_parameters(
            "joint_pullback: the function", function, self.names() - {"into"} | {"needed"}
        )
        taken = {i.name for i in self.inputs} & set(parameters)
        named = {word for words in inputs.values() for word in words.split()}
        if taken != named:
            raise TypeError(
                f"{self.name}.joint_pullback: the inputs that the function takes are not those "
                f"that the gradients need: {sorted(taken)}, {sorted(named)}"
            )
        self.joint = Pullback(function, parameters)
        for name, words in inputs.items():
            dropped = {"needed", *taken.difference(words.split())}
            needs = tuple(n for n in parameters if n not in dropped)
            self.pullbacks[name] = Pullback(function, needs)
        return self

    def check_inputs(self, where: str, names: Iterable[str]) -> None:
        """Raises TypeError for a name that is no input of this op."""
        inputs = [i.name for i in self.inputs]
        for name in names:
            if name not in inputs:
                raise TypeError(f"{self.name}.{where}: no such input: {name!r}, it has {inputs}")

    def check_parameters(
        self, where: str, function: Function, available: set[str]
    ) -> tuple[str, ...]:
        """The names of a function's parameters; raises TypeError if one is not available."""
        parameters = parameters_of(function)
        unknown = [n for n in parameters if n not in available]
        if unknown:
            raise TypeError(
                f"{self.name}.{where} has parameters unknown to the op: {unknown}, "
                f"it has {sorted(available)}"
            )
        return parameters

    @property
    def label(self) -> str:
        """The name in messages, without the underscore of a private row."""
        return self.name.lstrip("_")

    def names(self) -> set[str]:
        """The possible parameters of this op's pullbacks."""
        names = {"g", "ops", "into", *self.outputs, *self.saves, *(a.name for a in self.attributes)}
        names |= {f"g_{output}" for output in self.outputs}
        for x in self.inputs:
            names |= {x.name, f"{x.name}_shape", f"{x.name}_dtype"}
        return names

    def on(self, device_type: str) -> Callable[[Function], Function]:
        """Declares another forward for a type of device: `@ROWS["exp"].on("cuda")`. Without one,
        the row's own forward runs with the device's array module as `xp`. That for "sparse" takes
        Tensors, of which one is sparse.
        """

        def declare(function: Function) -> Function:
            self.device_forwards[device_type] = function
            return function

        return declare

    def forward_on(self, device_type: str) -> Any:
        """The forward for a type of device, or None. A name "module:function" is imported here, at
        its first use.
        """
        found = self.device_forwards.get(device_type)
        if isinstance(found, str):
            module, _, function = found.partition(":")
            package = __package__.rpartition(".")[0]
            found = getattr(import_module(f"{package}.{device_type}.{module}"), function)
            self.device_forwards[device_type] = found
        return found

    def alias(self, *names: str) -> Row:
        """Further public names of the op: `mul.alias("multiply")`."""
        self.aliases += names
        return self

    def rare(self, **defaults: Any) -> Callable[[Function], Function]:
        """Declares keyword arguments that are rarely used, at no cost for other calls.

        A call with one of them calls the decorated composite instead: `(ops, inputs...,
        attributes..., *, keyword arguments)`, which must not pass them on to the op itself. For
        example `@add.rare(alpha=1)`, `@sum.rare(dtype=None)`.
        """

        def declare(function: Function) -> Function:
            self.rare_defaults.update(defaults)
            self.rare_form = function
            return function

        return declare

    def rare_inplace(self, function: Function) -> Function:
        """Declares the composite for calls of `<name>_` with rare keyword arguments."""
        self.rare_form_inplace = function
        return function


class Composite:
    """A public function that is plain Python over other ops, without its own pullback."""

    name: str
    compute: Function  # (ops, arguments...)
    doc: str
    method: bool
    function: bool
    inplace: bool | str | Function
    operator: str
    autocast: str
    autocast_cuda: str
    exact_out: bool

    def __init__(self, **columns: Any) -> None:
        self.__dict__.update(columns)
        self.aliases: list[str] = []

    def alias(self, *names: str) -> Composite:
        """Further public names."""
        self.aliases += names
        return self


def check_tensors(name: str, *values: Any) -> None:
    """Raises TypeError if one of the operands of a composite is a Python number."""
    if any(isinstance(v, (bool, int, float, complex)) for v in values):
        raise TypeError(f"{name}: a tensor is needed, not a number: {values}")


ROWS: dict[str, Row] = {}
COMPOSITES: dict[str, Composite] = {}


def op(
    *,
    numpy: Any = None,
    native: Any = None,
    real: Function | None = None,
    write: Callable[..., bool] | None = None,
    half: Function | None = None,
    cuda: Function | str | None = None,
    broadcast: bool = False,
    promote: str | None = None,
    outputs: str = "out",
    saves: str = "",
    listed: bool = False,
    view: bool = False,
    inplace: bool | None = None,
    out: bool | None = None,
    method: bool | None = None,
    function: bool | None = None,
    name: str | None = None,
    tensors: str = "",
    numbers: bool = False,
    operator: str = "",
    comparison: bool = False,
    product: str = "",
    wraps: bool = True,
    layout: str = "",
    statistics: str = "",
    halves: str = "",
    cuda_halves: bool = False,
    cuda_fallback: Function | None = None,
    selects: bool = False,
    autocast: str = "",
    autocast_cuda: str = "",
    vmap: str = "",
    exact_out: bool = False,
    out_argument: bool | None = None,
    between_devices: bool = False,
    of_memory: bool = False,
    empty_error: type[Exception] = RuntimeError,
    sized_by_values: str = "",
    complex_gradients: bool = False,
    diagnose: Function | None = None,
    check_dtypes: Function | None = None,
    samples: Sequence[tuple[Any, ...]] = (),
) -> Callable[[Function], Row]:
    """Declares an op: the decorated function is its forward, `forward(xp, inputs..., /,
    attributes...)` on arrays.

    Args:
        numpy: the CPU kernel, called with the inputs and then all attributes, positionally; or
            `(kernel, "x, dim, None")` to spell the arguments. Without it the forward runs with `xp
            = numpy`.
        native: in place of `numpy`, a kernel that returns None where it does not apply: then the
            forward computes the result, or raises the error. It is `half`, too, unless it is
            written in Python.
        real: in place of `numpy`, a kernel for real floating-point arrays; the forward computes all
            others. It is `half`, too.
        write: `write(inputs..., attributes...)` for the in-place form: it changes elements of the
            first input, and returns whether it did; if not, the result is computed and copied. Such
            a row has `inplace` and `out`.
        half: the kernel that is tried first on 16-bit floats; where it returns None, the kernel
            computes them in float32 (see `halves`).
        cuda: the forward for CUDA arrays, `forward(cupy, inputs..., attributes...)`; or its name,
            "module:function" in `ops/cuda`, which is imported at the first call, so that nothing
            imports CuPy before. By default the row's own forward, with `xp = cupy`.
        broadcast: inputs are broadcast against each other, and may be Python numbers; the engine
            sums each gradient to its input's shape.
        promote: "common" (PyTorch's common dtype of the inputs), "float" (the same, and integers
            become the default float); then the names of the promoted inputs if not all: "common x
            y".
        outputs: names of the outputs, separated by spaces. In a pullback, `g` is the gradient of
            the first one.
        saves: names of extras that forward returns after the outputs, for pullbacks only.
        listed: forward returns a list of outputs, of any length; `g` is the list of their
            gradients.
        view: the result may be a view of the first input.
        inplace: declare an in-place form `<name>_`. By default: if `promote` is not None.
        out: the kernel takes the result array as one more positional argument. By default: if it
            is a ufunc.
        method, function: declare a Tensor method, a function of `shmtensor`. By default: both,
            unless the name begins with an underscore: then the op is private.
        name: the op's name, if it cannot be the function's.
        tensors: names of inputs of a broadcasting op that must be tensors in PyTorch, not Python
            numbers (operators take them: `2 < x`).
        numbers: all inputs of a broadcasting op may be Python numbers: `st.add(1, 2)`.
        operator: Python's name of the operator, without underscores: "add" is `__add__`, and
            `__radd__` and `__iadd__` if the op has the forms.
        comparison: a comparison: its operator has no reflected and no in-place form, and a number
            is rounded to bfloat16 before it is compared with an array of that dtype.
        product: the product of matrices that the first two inputs are, for errors of mismatched
            shapes: "x @ y" or "x @ y.T".
        wraps: a Python integer that does not fit the tensor's dtype wraps around. Otherwise the
            kernel handles it.
        layout: the memory format of the results if the operands are not all contiguous:
            "pointwise" as PyTorch's pointwise functions, "contiguous", "like" the first input,
            "images x y": channels_last if one of these inputs is, "all images x": if all tensors of
            the list are; "": the kernel decides. Broadcasting rows and ufuncs are "pointwise" by
            default.
        statistics: names of outputs that are statistics of the first one: `layout` does not concern
            them, and on a device the pullbacks get None for a gradient of theirs that is missing.
        halves: why the kernel takes 16-bit floats without a cast to float32: "copies", it only
            copies elements; "checks", it checks the dtype itself; "dispatches", it chooses a kernel
            by dtype. Others compute in float32 and round once (docs/design/bfloat16.md).
        cuda_halves: the CUDA forward takes bfloat16 itself: cuBLAS and cuDNN add in float32. Others
            compute it in float32, unless `halves` is "copies" or "checks".
        cuda_fallback: of a pointwise row, the forward for CUDA arrays that its traced kernel does
            not take, if it is not the row's own.
        selects: the result is one of the operands, or a number: on CUDA a number beside float16 is
            rounded first, as in a comparison; others compute in float32.
        autocast: the precision inside `autocast`: "lower", "full" (float32), "widest" (of the
            operands), "alone" (unchanged, although it calls products). PyTorch's list for the CPU.
        autocast_cuda: the same for CUDA; also "full reflected" (only the reflected operator) and
            "refused". PyTorch's list for CUDA; what is made of other ops and is not in the list
            leaves the choice to them.
        vmap: its batching rule in func/batching_rules/rules_by_op_kind.py; "": by the other
            columns, or example by example.
        exact_out: `out=` must have the result's dtype, as in PyTorch; others convert.
        out_argument: the function has the argument `out=`. By default: if it is public in
            `shmtensor` or in a namespace of its own (`special_...`).
        between_devices: the inputs may be on several devices.
        of_memory: a view of the memory under the first input, not of its elements: it may begin
            outside of them.
        empty_error: the class of the error of an empty `list` input.
        sized_by_values: the public name of an op whose result's size depends on values: it is
            refused for tensors without data.
        complex_gradients: complex numbers are differentiated, as in PyTorch; the generated test
            checks their gradients.
        diagnose: `diagnose(inputs, attributes)`, after a failed call: a better error, or None.
        check_dtypes: `check_dtypes(*inputs)` raises if the operands' dtypes must not be mixed. It
            is called before the operands are converted to one dtype.
        samples: arguments for the generated test, a tuple each; a tuple of ints as an input means
            its shape.
    """

    def declare(forward: Function) -> Row:
        inputs, attributes = read_signature(forward)
        rule, *promoted = (promote or "").split() or [""]
        if promote is not None and rule not in RULES:
            raise TypeError(f"op: promote: one of {RULES} is needed, not {promote!r}")
        row_name = name or forward.__name__
        is_public = not row_name.startswith("_")
        takes_out = write is not None or hasattr(numpy, "nin") if out is None else out
        row = Row(
            name=row_name,
            forward=forward,
            inputs=inputs,
            attributes=attributes,
            doc=forward.__doc__ or "",
            numpy=cpu_kernel(forward, numpy, native, real, write, takes_out),
            half=half_kernel(half, native, real),
            cuda=cuda,
            broadcast=broadcast,
            promote=rule or None,
            promoted=tuple(promoted or (i.name for i in inputs)),
            outputs=tuple(outputs.split()),
            saves=tuple(saves.split()),
            listed=listed,
            view=view,
            inplace=(
                write is not None or (promote is not None and outputs == "out")
                if inplace is None
                else inplace
            ),
            out=takes_out,
            method=is_public if method is None else method,
            function=is_public if function is None else function,
            samples=samples,
            tensors=tuple(tensors.split()),
            numbers=numbers,
            operator=operator,
            comparison=comparison,
            product=product,
            wraps=wraps,
            layout=layout,
            statistics=tuple(statistics.split()),
            halves=halves,
            cuda_halves=cuda_halves,
            cuda_fallback=cuda_fallback,
            selects=selects,
            autocast=autocast,
            autocast_cuda=autocast_cuda,
            vmap=vmap,
            exact_out=exact_out,
            out_argument=out_argument,
            between_devices=between_devices,
            of_memory=of_memory,
            empty_error=empty_error,
            sized_by_values=sized_by_values,
            complex_gradients=complex_gradients,
            diagnose=diagnose,
            check_dtypes=check_dtypes,
        )
        if row.name in ROWS or row.name in COMPOSITES:
            raise TypeError(f"op: declared twice: {row.name!r}")
        ROWS[row.name] = row
        return row

    return declare


def read_signature(forward: Any) -> tuple[tuple[Input, ...], tuple[Attribute, ...]]:
    """The inputs and attributes of a forward.

    They are read from its code: `inspect.signature` takes 40 us, for about a thousand functions.
    """
    code = forward.__code__
    names, n_positional = code.co_varnames, code.co_posonlyargcount
    if names[:1] != ("xp",) or not n_positional:
        raise TypeError(
            f"op: {forward.__name__}: the first parameter must be xp, before '/': {names[:1]}"
        )
    notes = forward.__annotations__
    tail = forward.__defaults__ or ()
    defaults = dict(zip(names[code.co_argcount - len(tail) : code.co_argcount], tail))
    defaults.update(forward.__kwdefaults__ or {})
    inputs = [
        Input(n, word_of(notes.get(n, "")) == "list", n in defaults) for n in names[1:n_positional]
    ]
    attributes = []
    for i in range(n_positional, code.co_argcount + code.co_kwonlyargcount):
        word = word_of(notes.get(names[i], ""))
        kind = word if word in ANNOTATIONS else ""
        default = defaults.get(names[i], EMPTY)
        attributes.append(Attribute(names[i], default, kind, i >= code.co_argcount))
    return tuple(inputs), tuple(attributes)


def word_of(note: Any) -> str:
    """The name of an annotation."""
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
    method: bool | None = None,
    function: bool | None = None,
    inplace: bool | str | Function = False,
    name: str | None = None,
    operator: str = "",
    autocast: str = "",
    autocast_cuda: str = "",
    exact_out: bool = False,
) -> Any:
    """Declares a function that is plain Python over other ops: public, as a row, unless its name
    begins with an underscore.

    Its first parameter is `ops`, the table: `@composite` / `def addcmul(ops, input, tensor1,
    tensor2, *, value=1):`. The other parameters are the public signature, with PyTorch's names.
    Pullbacks may call it, too, as `ops.addcmul`. `inplace=True` declares an in-place form, which
    copies the result; a function `(ops, arguments...)` works in place without the copy, or returns
    None; with names of rows ("_scatter _scatter_add") the composite itself is called, and these
    rows are replaced by their in-place forms. The other arguments are as for a row.
    """

    def declare(compute: Function) -> Composite:
        composite_name = name or compute.__name__
        is_public = not composite_name.startswith("_")
        result = Composite(
            name=composite_name,
            compute=compute,
            doc=compute.__doc__ or "",
            method=is_public if method is None else method,
            function=is_public if function is None else function,
            inplace=inplace,
            operator=operator,
            autocast=autocast,
            autocast_cuda=autocast_cuda,
            exact_out=exact_out,
        )
        if parameters_of(compute)[:1] != ("ops",):
            raise TypeError(f"composite: {result.name}: the first parameter must be ops")
        if result.name in ROWS or result.name in COMPOSITES:
            raise TypeError(f"composite: declared twice: {result.name!r}")
        COMPOSITES[result.name] = result
        return result

    return declare if compute is None else declare(compute)
