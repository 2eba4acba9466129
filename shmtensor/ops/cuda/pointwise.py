"""Pointwise functions of dense CUDA arrays, at the bandwidth of a copy.

CuPy's elementwise kernels compute one element in a thread, which leaves half of a large GPU's
bandwidth unused. `cuda_ufunc(ufunc)` is a CuPy ufunc whose kernels for dense arrays of one shape
compute 16 bytes in a thread, from the ufunc's own routine: dtypes and values are CuPy's. All other
calls are the ufunc's. `native.DevicePointwise` has the fast path; this module makes the kernels.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Callable
from typing import Any

import cupy
import cupy_backends.cuda.stream as backend_stream
import numpy as np
from cupy._core._scalar import CScalar, format_type_decls, get_typename
from cupy._core.core import compile_with_cache
from cupy._sorting.search import _where_ufunc as where_ufunc

from ... import cupy_runtime, native

VECTOR = 16  # bytes that a thread loads or stores at once

SOURCE = string.Template(
    """
${declarations}
${typedefs}
${preamble}
template <int BYTES> struct raw_t;
template <> struct raw_t<16> { struct alignas(16) type { unsigned int at[4]; }; };
template <> struct raw_t<8> { struct alignas(8) type { unsigned int at[2]; }; };
template <> struct raw_t<4> { typedef unsigned int type; };
template <> struct raw_t<2> { typedef unsigned short type; };
template <> struct raw_t<1> { typedef unsigned char type; };
template <int BYTES>
__device__ __forceinline__ bool is_aligned(const void* p) {
  return reinterpret_cast<unsigned long long>(p) % BYTES == 0;
}
template <class T, int N>
__device__ __forceinline__ void load(T* to, const T* from) {
  typedef typename raw_t<sizeof(T) * N>::type type;
  const type raw = *reinterpret_cast<const type*>(from);
  memcpy(to, &raw, sizeof raw);
}
template <class T, int N>
__device__ __forceinline__ void store(T* to, const T* from) {
  typename raw_t<sizeof(T) * N>::type raw;
  memcpy(&raw, from, sizeof raw);
  *reinterpret_cast<typename raw_t<sizeof(T) * N>::type*>(to) = raw;
}
#define N ${per_thread}

extern "C" __global__ void ${name}(${parameters}) {
  ${loop_prep};
  ${singles}
  auto compute = [&](${arguments}) -> out_type {
    ${casts}
    out0_type out0;
    ${routine};
    return ${result};
  };
  typedef long long index_t;
  const index_t first = static_cast<index_t>(blockIdx.x) * blockDim.x * N;
  if (first + static_cast<index_t>(blockDim.x) * N <= n${aligned}) {
    const index_t at = first + threadIdx.x * N;
    ${declared}
    ${loads}
    out_type out[N];
    #pragma unroll
    for (int k = 0; k < N; ++k) out[k] = compute(${computed});
    store<out_type, N>(_out + at, out);
  } else {
    ${declared}
    #pragma unroll
    for (int k = 0; k < N; ++k) {
      const index_t at = first + k * blockDim.x + threadIdx.x;
      if (at < n) { ${single_loads} }
    }
    #pragma unroll
    for (int k = 0; k < N; ++k) {
      const index_t at = first + k * blockDim.x + threadIdx.x;
      if (at < n) _out[at] = compute(${computed});
    }
  }
}
"""
)


def cast_expression(source: np.dtype[Any], target: np.dtype[Any], expression: str) -> str | None:
    """An element in another dtype, as CuPy's ufuncs cast it; None: not by an assignment."""
    if source.kind == target.kind:
        return expression
    if source.kind == "b":
        return f"({expression}) ? 1 : 0"
    return None if source.kind == "c" else expression


class Routine:
    """What a kernel computes: text that sets out0, of `out_dtype`, from in0, ... of `in_dtypes`."""

    def __init__(
        self,
        name: str,
        text: str,
        in_dtypes: tuple[Any, ...],
        out_dtype: Any,
        preamble: str = "",
        loop_prep: str = "",
    ) -> None:
        self.name, self.text, self.preamble, self.loop_prep = name, text, preamble, loop_prep
        self.in_dtypes, self.out_dtype = in_dtypes, out_dtype

    def elementwise(self, kinds: tuple[Any, ...]) -> Any:
        """A kernel for operands of any shapes and strides; None: a ufunc has its own."""
        return None

    def kernel(self, kinds: tuple[Any, ...], out: Any, singles: int) -> Any:
        """The DeviceKernel for operands, or None if they are cast in other ways.

        Args:
            kinds: of each operand, the dtype of an array, or the class of a number.
            out: the dtype of the array for the result, or None.
            singles: a bit for each operand that is an array without dimensions.
        """
        out = self.out_dtype if out is None else out
        if out is not self.out_dtype and out != self.out_dtype:
            return None
        declarations: set[Any] = set()

        def type_of(dtype: Any) -> str:
            return str(get_typename(dtype, declarations))

        arrays = [i for i, kind in enumerate(kinds) if isinstance(kind, np.dtype)]
        sizes = [kinds[i].itemsize for i in arrays if not singles >> i & 1]
        per_thread = VECTOR // max([out.itemsize, *sizes])
        parts: dict[str, list[str]] = {
            name: []
            for name in (
                "typedefs", "parameters", "singles", "arguments", "casts", "aligned", "declared",
                "loads", "single_loads", "computed",
            )
        }  # fmt: skip
        for i, dtype in enumerate(self.in_dtypes):
            if dtype is None:
                continue
            parts["typedefs"].append(f"typedef {type_of(dtype)} in{i}_type;")
            if i not in arrays:
                parts["parameters"].append(f"const in{i}_type in{i}")
                continue
            value = cast_expression(kinds[i], dtype, f"_x{i}")
            if value is None:
                return None
            parts["typedefs"].append(f"typedef {type_of(kinds[i])} raw{i}_type;")
            parts["parameters"].append(f"const raw{i}_type* _in{i}")
            if singles >> i & 1:
                parts["singles"].append(f"const raw{i}_type _x{i} = *_in{i};")
                parts["singles"].append(f"const in{i}_type in{i}({value});")
                continue
            parts["arguments"].append(f"const raw{i}_type _x{i}")
            parts["casts"].append(f"const in{i}_type in{i}({value});")
            parts["aligned"].append(f" && is_aligned<sizeof(raw{i}_type) * N>(_in{i})")
            parts["declared"].append(f"raw{i}_type _v{i}[N];")
            parts["loads"].append(f"load<raw{i}_type, N>(_v{i}, _in{i} + at);")
            parts["single_loads"].append(f"_v{i}[k] = _in{i}[at];")
            parts["computed"].append(f"_v{i}[k]")
        parts["typedefs"].append(f"typedef {type_of(self.out_dtype)} out0_type;")
        parts["typedefs"].append("typedef out0_type out_type;")
        parts["parameters"] += ["out_type* _out", "long long n"]
        parts["aligned"].append(" && is_aligned<sizeof(out_type) * N>(_out)")
        joined = {
            name: (", " if name in ("parameters", "arguments", "computed") else "\n").join(values)
            for name, values in parts.items()
        }
        joined["aligned"] = joined["aligned"].replace("\n", "")
        source = SOURCE.substitute(
            joined,
            declarations=format_type_decls(declarations),
            preamble=self.preamble,
            loop_prep=self.loop_prep,
            per_thread=per_thread,
            name=self.name,
            routine=self.text,
            result="out0",
        )
        dtypes = tuple(d for d in self.in_dtypes)
        return native.DeviceKernel(Loader(source, self.name), dtypes, out, per_thread)


class Loader:
    """Compiles a kernel for the current device; keeps its module loaded."""

    def __init__(self, source: str, name: str) -> None:
        self.source, self.name = source, name
        self.functions: dict[int, Any] = {}

    def __call__(self, number: int) -> int:
        if number not in self.functions:
            module = compile_with_cache(self.source, ("--std=c++17",))
            self.functions[number] = module.get_function(self.name)
        address: int = self.functions[number].ptr
        return address


def use_launch() -> bool:
    """Lets kernels be launched by the driver directly, on CuPy's current stream."""
    number = cupy.cuda.runtime.getDevice if cupy_runtime.device_count() > 1 else None
    stream = getattr(backend_stream, "__pyx_capi__", {}).get("get_current_stream_ptr")
    return native.set_device_launch(stream, number)


def example(kind: Any) -> Any:
    """An operand of a kind, as CuPy's search for a routine takes it."""
    if isinstance(kind, np.dtype):
        return cupy.ndarray((0,), kind)
    return CScalar(kind(0) if isinstance(kind, type) else kind)


def routine_of_ufunc(ufunc: Any, kinds: tuple[Any, ...]) -> Routine | None:
    """The routine that a CuPy ufunc runs for operands; None if it is none of one expression, or the
    ufunc raises an error for them.
    """
    # a bool stands for itself in a key, and for its class here
    kinds = tuple(bool if kind is True or kind is False else kind for kind in kinds)
    if ufunc.nout != 1 or any(kind is None or isinstance(kind, str) for kind in kinds):
        return None
    try:
        op = ufunc._ops.guess_routine(
            ufunc.name, ufunc._routine_cache, list(map(example, kinds)), None, ufunc._out_ops
        )
    except (TypeError, ValueError):
        return None
    text = op.routine
    if op._resolution_func is not None or not isinstance(text, str):
        return None
    if any(word in text for word in ("_ind", "_raw_", "continue", "return")):
        return None
    out_dtype = op._out_dtypes[0]
    return Routine(ufunc.name, text, op._in_dtypes, out_dtype, ufunc._preamble, ufunc._loop_prep)


def find_ufunc(ufunc: Any) -> Callable[[tuple[Any, ...]], Any]:
    """The `find` of `native.DevicePointwise` for a CuPy ufunc."""

    def find(key: tuple[Any, ...]) -> Any:
        *kinds, out, singles = key
        routine = routine_of_ufunc(ufunc, tuple(kinds))
        return None if routine is None else routine.kernel(tuple(kinds), out, singles)

    return find


def cuda_ufunc(ufunc: Any, fallback: Any = None) -> Any:
    """A CuPy ufunc with kernels of its own for dense arrays of one shape."""
    return native.DevicePointwise(fallback or ufunc, find_ufunc(ufunc), ufunc.nin, 0, cupy.ndarray)


def find_where(key: tuple[Any, ...]) -> Any:
    """The kernel of `where`; the condition is bool."""
    return find_ufunc(where_ufunc)(key) if key[0] == np.bool_ else None


class Namespace:
    """CuPy for the forwards of rows: its attributes, with `cuda_ufunc` of each ufunc."""

    def __init__(self, module: Any) -> None:
        self.__dict__.update(vars(module))
        ufuncs: dict[int, Any] = {}
        for name, value in vars(module).items():
            if isinstance(value, cupy.ufunc) and value.nout == 1:
                setattr(self, name, ufuncs.setdefault(id(value), cuda_ufunc(value)))
        self.where = native.DevicePointwise(cupy.where, find_where, 3, 0, cupy.ndarray)
        self.module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.module, name)
        setattr(self, name, value)
        return value


@functools.cache
def pointwise() -> Namespace:
    """CuPy with faster ufuncs; launches by the driver are on from the first call on."""
    use_launch()
    return Namespace(cupy)
