"""Names of PyTorch's that are not there: what to do without them, and the errors that say so.

An attribute (`shmtensor.fx`) and every form of import (`from shmtensor import fx`, `import
shmtensor.fx`, `from shmtensor.fx import symbolic_trace`) end in the same sentence.
"""

from __future__ import annotations

import sys
from typing import Any

ROOT = __name__.rpartition(".")[0]

_QUANTIZED = "quantized tensors are not there: integers with a scale are no dtype here"
_GRAPHS = "models are not traced or compiled, they run as they are"
_DEVICES = "tensors are on the CPU and on GPUs of CUDA: device('cuda'), cuda.is_available()"
_COO = "sparse tensors are COO, CSR or CSC: sparse_coo_tensor, sparse_csr_tensor, to_sparse_csr"
_FLOAT8 = "NumPy has no numbers of 8 bits and less with a fraction: use float16 or bfloat16"
_BITS = "NumPy has no integers of less than 8 bits: use int8 or uint8"
_SIZES = "sizes are plain integers, as there is no compiler: use Python's own functions"
_SHARDS = (
    "parameters and tensors are not sharded: the ranks of a machine share them, "
    "use nn.parallel.DistributedDataParallel, or distributed.optim.ZeroRedundancyOptimizer"
)
_COMPRESSED = (
    "compression costs more time than shared memory: use default_hooks.allreduce_hook, "
    "or fp16_compress_hook"
)
_LOCAL_SGD = (
    "ranks do not train apart to average their models later: use "
    "nn.parallel.DistributedDataParallel, which averages the gradients of each step"
)
_PRIVATE = "private modules of PyTorch are not there: use the public names"
_OPS = "users do not register ops: use autograd.Function"

# Reason -> names, from the top level of the package.
_REASONS = {
    _QUANTIZED: """
        ao quantization nn.intrinsic nn.qat nn.quantizable nn.quantized
        dequantize fake_quantize_per_channel_affine fake_quantize_per_tensor_affine int_repr
        per_channel_affine per_channel_affine_float_qparams per_channel_symmetric per_tensor_affine
        per_tensor_symmetric q_per_channel_axis q_per_channel_scales q_per_channel_zero_points
        q_scale q_zero_point qint32 qint8 qscheme quantize_per_channel quantize_per_tensor
        quantize_per_tensor_dynamic quint2x4 quint4x2 quint8 empty_quantized QInt32Storage
        QInt8Storage QUInt2x4Storage QUInt4x2Storage QUInt8Storage
    """,
    _GRAPHS: """
        fx nativert _dynamo _export _functorch _higher_order_ops _inductor _jit_internal
        _subclasses
    """,
    "models are not exported: save their state_dict": "export onnx",
    "models are not packaged with their code: save their state_dict": "package",
    "tensors of several lengths are not there: use nn.utils.rnn.pad_sequence, or pack_sequence": (
        "nested jagged"
    ),
    _DEVICES: "mps mtia xpu",
    _OPS: "_custom_op _custom_ops _library classes library",
    "use distributed.Future, or concurrent.futures": "futures Future fork wait",
    "use profiler.profile": """
        autograd.profiler_legacy autograd.profiler_util utils.bottleneck
    """,
    "its functions are those of shmtensor itself": "functional",
    _COO: """
        sparse_bsc sparse_bsc_tensor sparse_bsr sparse_bsr_tensor
    """,
    "NumPy has no complex numbers of 16-bit parts: use complex64": """
        chalf complex32 ComplexHalfStorage
    """,
    _FLOAT8: """
        float4_e2m1fn_x2 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu
    """,
    _BITS: """
        bit bits16 bits1x8 bits2x4 bits4x2 bits8 int1 int2 int3 int4 int5 int6 int7 uint1 uint2
        uint3 uint4 uint5 uint6 uint7
    """,
    _SIZES: """
        SymBool SymFloat SymInt sym_float sym_fresh_size sym_int sym_ite sym_max sym_min sym_not
        sym_sqrt sym_sum
    """,
    "use Python's own `if` and `while`": "cond while_loop",
    "removed from PyTorch: use linalg.eig": "eig",
    "removed from PyTorch: use linalg.lstsq": "lstsq",
    "removed from PyTorch: use linalg.matrix_rank": "matrix_rank",
    "removed from PyTorch: use linalg.solve": "solve",
    "removed from PyTorch: use linalg.eigh": "symeig",
    "an iteration for large sparse matrices: linalg.eigh is exact": "lobpcg",
    "PyTorch's C++ library is not there": "_C _VF contrib cpp nn.cpp",
    _PRIVATE: """
        _awaits _classes _compile _decomp _dispatch _environment _guards _lazy _linalg_utils
        _lobpcg _logging _lowrank _meta_registrations _ops _prims _prims_common _refs _six _tensor
        _utils _utils_internal _weights_only_unpickler utils._pytree utils._python_dispatch
        distributed._functional_collectives nn.parallel._functions
    """,
    "results are named tuples of their functions": "return_types",
    "use version.__version__": "torch_version",
    "processes are not bound to memory here: use numactl": "numa",
    "Linux only": "windows",
    "tensors are registered for sending at import: multiprocessing.reduction": (
        "multiprocessing.reductions"
    ),
    "events of the launcher are not counted: use statistics()": "monitor",
    "extensions in C++ are not built here: use NumPy's API in C, or ctypes, on tensor.numpy()": """
        utils.cpp_extension
    """,
    "use viz.summary": "utils.flop_counter",
    "shmtensor does not use the network: download the file, and read it with load": """
        utils.model_zoo
    """,
    "models are not exported to phones": """
        utils.bundled_inputs utils.mkldnn utils.mobile_optimizer utils.model_dump
    """,
    "removed from PyTorch's data library: use a Dataset": "utils.data.datapipes utils.data.graph",
    _SHARDS: """
        distributed._composable distributed._shard distributed._tensor distributed.checkpoint
        distributed.fsdp distributed.tensor distributed.pipelining fsdp
    """,
    "functions are not called in other processes: use send and recv, or multiprocessing": """
        distributed.autograd distributed.rpc
    """,
    _COMPRESSED: """
        distributed.algorithms.ddp_comm_hooks.powerSGD_hook
        distributed.algorithms.ddp_comm_hooks.quantization_hooks
    """,
    _LOCAL_SGD: """
        distributed.algorithms.ddp_comm_hooks.post_localSGD_hook
        distributed.algorithms.model_averaging
        distributed.optim.PostLocalSGDOptimizer distributed.optim.post_localSGD_optimizer
    """,
    "use distributed.new_subgroups_by_enumeration": "distributed.split_group",
    "collectives have no gradient: use nn.parallel.DistributedDataParallel": "distributed.nn",
    "one process has one replica: use nn.parallel.DistributedDataParallel": (
        "nn.parallel.comm nn.parallel.scatter_gather"
    ),
}
ABSENT = {name: reason for reason, names in _REASONS.items() for name in names.split()}

# Python does not look for similar names among so many, or more.
MANY = 750


def reason_of(name: str) -> str:
    """What to do without a name, as `shmtensor.fx` or `shmtensor.fx.symbolic_trace`; "" if it has
    no entry.
    """
    parts = name.split(".")[1:]
    return next(
        (ABSENT[key] for n in range(len(parts), 0, -1) if (key := ".".join(parts[:n])) in ABSENT),
        "",
    )


def missing(module: str, name: str) -> AttributeError:
    """The error of a module's `__getattr__`: with the reason if the name has one; else Python adds
    "Did you mean", to which `name` and `obj` belong.
    """
    text = f"module {module!r} has no attribute {name!r}"
    place = sys.modules.get(module)
    if reason := reason_of(f"{module}.{name}"):
        text += f": {reason}"
    elif (similar := similar_name(name, dir(place))) is not None:
        text += f". Did you mean: {similar!r}?"
    return AttributeError(text, name=name, obj=place)


def similar_name(name: str, names: list[str]) -> str | None:
    """The most similar of many names; None of fewer names, among which Python itself looks."""
    if len(names) < MANY or name.startswith("__"):
        return None
    from difflib import get_close_matches  # imports re

    nearly = [n for n in names if abs(len(n) - len(name)) < 3]
    return next(iter(get_close_matches(name, nearly, 1, 0.7)), None)


class AbsentModules:
    """The last finder of modules: refuses PyTorch's modules that are not there, with the reason;
    finds those whose names refuse to be called.
    """

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> Any:
        """The spec of a module of `refused_names`, or None.

        Raises:
            ModuleNotFoundError: the module has an entry, and is imported. (It bears no `name`: with
                one, `from shmtensor import fx` would drop it for a text without the reason.)
        """
        if not fullname.startswith(f"{ROOT}."):
            return None
        # importlib.util.find_spec only asks whether it exists.
        asks = sys._getframe(2).f_globals.get("__name__") == "importlib.util"
        if (reason := reason_of(fullname)) and not asks:
            raise ModuleNotFoundError(f"No module named {fullname!r}: {reason}")
        from .refused_names import spec_of

        return spec_of(fullname)


def install() -> None:
    """Adds the finder, once."""
    if AbsentModules not in sys.meta_path:
        sys.meta_path.append(AbsentModules)
