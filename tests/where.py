"""Where things are, by the names that people look for: `python -m tests.where` writes
docs/design/where.md.
"""

from __future__ import annotations

import inspect
import re
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import shmtensor
from shmtensor import native
from shmtensor.autograd.dispatch.op_function import declare
from shmtensor.ops import COMPOSITES, ROWS, Row

declare()  # the later families, too

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "design" / "where.md"

# Name; the row that does its work; the C++ file of its kernel, "" where NumPy computes.
PARALLEL = "numpy_loops/parallel_ufunc.cc"
OPS: list[tuple[str, str, str]] = [
    ("add", "add", PARALLEL),
    ("exp", "exp", "math/exp_log_hyperbolic.simd.h"),
    ("erf", "erf", "math/erf.simd.h"),
    ("sin", "sin", "math/sin_cos.simd.h"),
    ("bitwise_and", "bitwise_and", PARALLEL),
    ("where", "_where", "kernels/pointwise/where.cc"),
    ("clamp", "_clamp", "kernels/pointwise/clamp_addcmul_lerp_cast.cc"),
    ("addcmul", "addcmul", "kernels/pointwise/clamp_addcmul_lerp_cast.cc"),
    ("lerp", "lerp", "kernels/pointwise/clamp_addcmul_lerp_cast.cc"),
    ("sum", "sum", "kernels/reduce/sum.cc"),
    ("mean", "mean", "kernels/reduce/sum.cc"),
    ("var", "_var", "kernels/reduce/var.cc"),
    ("prod", "_prod", "kernels/reduce/prod_count.cc"),
    ("amax", "amax", "kernels/reduce/minmax.cc"),
    ("argmax", "argmax", "kernels/reduce/minmax.cc"),
    ("logsumexp", "logsumexp", "kernels/reduce/logsumexp_dot.cc"),
    ("norm", "_vector_norm", "kernels/reduce/logsumexp_dot.cc"),
    ("cumsum", "cumsum", "kernels/reduce/cumulative.cc"),
    ("histogram", "_histogram", ""),
    ("bincount", "_bincount", "kernels/sort/searchsorted_bincount.cc"),
    ("sort", "_sort", "kernels/sort/sort_topk.cc"),
    ("topk", "topk", "kernels/sort/sort_topk.cc"),
    ("median", "_median", "kernels/sort/sort_topk.cc"),
    ("quantile", "_sort", "kernels/sort/sort_topk.cc"),
    ("searchsorted", "_searchsorted", "kernels/sort/searchsorted_bincount.cc"),
    ("unique", "_unique2", "kernels/sort/unique.cc"),
    ("index_select", "_index_select", "kernels/index/gather.cc"),
    ("gather", "_gather", "kernels/index/gather.cc"),
    ("index_put", "_index_put", "kernels/index/scatter.cc"),
    ("scatter_add", "_scatter_add", "kernels/index/scatter.cc"),
    ("scatter_reduce", "_scatter_reduce", "kernels/index/scatter.cc"),
    ("masked_select", "_getitem", "kernels/index/advanced_indexing.cc"),
    ("view", "_view", "dispatch/views.cc"),
    ("expand", "expand", "dispatch/numpy_array.cc"),
    ("flip", "flip", "kernels/shape/flip_roll_tril.cc"),
    ("tril", "tril", "kernels/shape/flip_roll_tril.cc"),
    ("cat", "cat", "kernels/shape/cat_stack.cc"),
    ("split", "_split_with_sizes", ""),
    ("clone", "clone", "kernels/shape/clone_copy_arange.cc"),
    ("pad", "_index_select", "kernels/index/gather.cc"),
    ("bernoulli", "_bernoulli", "kernels/random/uniform_normal.cc"),
    ("multinomial", "_multinomial", "kernels/random/multinomial.cc"),
    ("matmul", "matmul", "kernels/linalg/matmul.cc"),
    ("linear", "linear", "kernels/linalg/matmul.cc"),
    ("cdist", "_cdist", "kernels/linalg/cdist.cc"),
    ("linalg_svd", "_svd", ""),
    ("linalg_lu_factor", "_linalg_lu_factor", "kernels/linalg/lapack.cc"),
    ("linalg_cholesky", "_linalg_cholesky", ""),
    ("fft_fft", "_fft_c2c", ""),
    ("relu", "relu", "kernels/pointwise/relu_sigmoid_gelu.cc"),
    ("gelu", "_gelu", "kernels/pointwise/relu_sigmoid_gelu.cc"),
    ("dropout", "_dropout", "kernels/pointwise/relu_sigmoid_gelu.cc"),
    ("softmax", "_softmax", "kernels/loss/softmax_cross_entropy.cc"),
    ("layer_norm", "_native_layer_norm", "kernels/nn/layer_norm.cc"),
    ("batch_norm", "_native_batch_norm", "kernels/nn/batch_norm.cc"),
    ("embedding", "_embedding", "kernels/index/gather.cc"),
    ("conv2d", "_convolution", "kernels/nn/convolution.cc"),
    ("max_pool2d", "_max_pool", "kernels/nn/pooling.cc"),
    ("grid_sample", "_grid_sample", "kernels/nn/grid_sample.cc"),
    ("lstm", "_rnn_layer", "kernels/nn/rnn.cc"),
    ("scaled_dot_product_attention", "_attention", "kernels/nn/attention.cc"),
    ("cross_entropy", "_cross_entropy", "kernels/loss/softmax_cross_entropy.cc"),
    ("nll_loss", "_nll_loss", "kernels/loss/nll_loss.cc"),
    ("ctc_loss", "_ctc_loss", "kernels/loss/ctc_loss.cc"),
    ("mse_loss", "_pointwise_loss", "kernels/loss/pointwise_loss.cc"),
    ("special_gammainc", "special_gammainc", "math/gammainc.simd.h"),
]

# What is no op of the table: where it is, and a name that the file defines.
SUBJECTS: dict[str, list[tuple[str, str, str]]] = {
    "Tensors and autograd": [
        ("the class Tensor", "shmtensor/tensor/tensor.py", "Tensor"),
        ("what a column of a row means", "shmtensor/ops/table/op_table.py", "op"),
        ("the call of an op", "shmtensor/native/dispatch/op_function.cc", "call_op"),
        ("type promotion", "shmtensor/dtypes.py", "promote_types"),
        ("the class `dtype`", "shmtensor/native/kernels/dtype_object.cc", "Dtype"),
        (
            "NumPy's messages in our words",
            "shmtensor/autograd/dispatch/numpy_messages.py",
            "translate",
        ),
        ("tensors without data (meta)", "shmtensor/meta_arrays.py", "MetaArray"),
        ("shapes of ops on meta", "shmtensor/autograd/dispatch/meta_device.py", "kernel_of"),
        ("why a name is not there", "shmtensor/absent_names.py", "missing"),
        ("`import torch` as this library", "shmtensor/as_torch/torch_modules.py", "TorchFinder"),
        ("types of the generated stubs", "shmtensor/autograd/dispatch/stub_types.py", "RESULTS"),
        ("`loss.backward()`", "shmtensor/autograd/engine/backward.py", "run_nodes"),
        ("broadcasting's gradient", "shmtensor/autograd/engine/sum_to_size.py", "sum_to_size"),
        ("what `.grad` becomes", "shmtensor/native/dispatch/gradients.cc", "steal_gradient"),
        ("`autograd.Function`", "shmtensor/autograd/function.py", "Function"),
        ("`no_grad`", "shmtensor/autograd/grad_mode.py", "no_grad"),
        ("checkpointing of activations", "shmtensor/autograd/checkpoint.py", "checkpoint"),
        ("`gradcheck`", "shmtensor/autograd/gradcheck.py", "gradcheck"),
        ("`vmap`", "shmtensor/func/vmap.py", "vmap"),
        ("`autocast`", "shmtensor/amp/autocast_mode.py", "autocast"),
        ("`GradScaler`", "shmtensor/amp/grad_scaler.py", "GradScaler"),
    ],
    "Layers and optimizers": [
        ("`Module`", "shmtensor/nn/modules/module.py", "Module"),
        ("`MultiheadAttention`", "shmtensor/nn/modules/attention.py", "MultiheadAttention"),
        ("Adam", "shmtensor/optim/adam.py", "Adam"),
        ("Adam's mathematics", "shmtensor/native/kernels/optim/adam_sgd.simd.h", "adam"),
        ("parameters in one block", "shmtensor/optim/flat/flat_parameters.py", "Flat"),
        (
            "`ReduceLROnPlateau`",
            "shmtensor/optim/lr_scheduler/reduce_on_plateau.py",
            "ReduceLROnPlateau",
        ),
    ],
    "Shared memory": [
        ("allocation of a block", "shmtensor/native/memory/heap/heap.cc", "heap_alloc"),
        ("NumPy's memory handler", "shmtensor/native/memory/heap/numpy_handler.cc", "make_handler"),
        ("who holds a block", "shmtensor/native/memory/ledger/hold.cc", "publish_hold"),
        (
            "reclaiming a dead process's memory",
            "shmtensor/native/memory/ledger/release_holds_of_dead.cc",
            "sweep",
        ),
        (
            "whether a process lives",
            "shmtensor/native/memory/domain/process_table.cc",
            "liveness_of",
        ),
        ("the layout of shared words", "shmtensor/native/memory/domain/layout.h", "Header"),
        ("sending a tensor", "shmtensor/multiprocessing/reduction.py", "reduce_for_stdlib"),
        ("queues between processes", "shmtensor/native/ipc/channel/channel.cc", "put"),
        ("`SharedList`", "shmtensor/shared_containers/shared_list.py", "SharedList"),
        ("`multiprocessing.spawn`", "shmtensor/multiprocessing/spawn.py", "spawn"),
        ("saving and loading", "shmtensor/serialization/save.py", "save"),
    ],
    "Data loading": [
        ("`DataLoader`", "dataloaders/data_loader.py", "DataLoader"),
        ("the worker's loop", "dataloaders/loader/worker.py", "run_worker"),
        ("collating a batch into a block", "dataloaders/loader/batch_block.py", "stack_into"),
        ("`default_collate`", "dataloaders/collate.py", "default_collate"),
        ("the death of a worker", "dataloaders/loader/worker_death.py", "describe_loss"),
    ],
    "Data parallel": [
        (
            "`DistributedDataParallel`",
            "shmtensor/distributed/ddp/distributed_data_parallel.py",
            "DistributedDataParallel",
        ),
        ("a bucket of gradients", "shmtensor/distributed/ddp/bucket.py", "Bucket"),
        (
            "`init_process_group`",
            "shmtensor/distributed/group/init_process_group.py",
            "init_process_group",
        ),
        (
            "all_reduce in shared memory",
            "shmtensor/native/ipc/process_group/reduce_ranks.cc",
            "reduce_tiles",
        ),
        ("`TCPStore`", "shmtensor/distributed/rendezvous/tcp_store.py", "TCPStore"),
        ("the launcher (torchrun)", "shmtensor/distributed/launcher/launcher.py", "launch"),
        ("`Trainer`", "shmtensor/trainer/trainer.py", "Trainer"),
        (
            "`ZeroRedundancyOptimizer`",
            "shmtensor/distributed/ddp/zero_redundancy_optimizer.py",
            "ZeroRedundancyOptimizer",
        ),
    ],
}


def defines(path: str, name: str) -> bool:
    """Whether a source defines a function, class or struct of a name."""
    text = (ROOT / path).read_text()
    if path.endswith(".py"):
        return re.search(rf"^ *(?:def|class) {name}\b|^{name} = ", text, re.M) is not None
    return re.search(rf"^[^\s/#}}].*\b{name}(?:\(.*\{{| \{{)", text, re.M) is not None


# ---------------------------------------------------------------- the op table


def file_of(function: Any) -> str:
    """The source of a function, from the project's root."""
    path = Path(inspect.unwrap(function).__code__.co_filename)
    return str(path.resolve().relative_to(Path(shmtensor.__file__).resolve().parents[1]))


@cache
def bindings() -> dict[str, str]:
    """For each function of `native` the C++ files that define one of its name, in its room."""
    root = ROOT / "shmtensor" / "native"
    texts = {path: path.read_text() for path in sorted(root.rglob("*.cc"))}
    definition = re.compile(r"^(?:static )?PyObject\* (\w+)\([^;{]*\{", re.M)
    kernels: dict[str, list[str]] = {}
    for path, text in texts.items():
        relative = path.relative_to(root)
        if "kernels" in relative.parts:
            for name in definition.findall(text):
                kernels.setdefault(name, []).append(str(relative))
    entry = re.compile(r'\{"(\w+)",\s*(?:fast<)?(\w+)')
    table = entry.findall(texts[root / "kernels" / "bind.cc"])
    return {name: kernels[function][0] for name, function in table if function in kernels}


def kernel_file(row: Row) -> str | None:
    """The C++ file of a row's kernel, if the row names a native function; else None."""
    kernel = row.numpy
    if isinstance(kernel, native.KernelOrFallback):
        kernel = kernel.kernel
    return bindings().get(getattr(kernel, "__name__", ""))


def gradient_files(row: Row) -> list[str]:
    """The files of a row's pullbacks and of the functions that they call."""
    own, functions = file_of(row.forward), [p.function for p in row.pullbacks.values()]
    files = [file_of(f) for f in functions]
    for function in functions:
        called = [function.__globals__.get(name) for name in function.__code__.co_names]
        called_files = [file_of(f) for f in called if isinstance(f, FunctionType)]
        files += [f for f in called_files if f == own or ("ops/" in f and "ops/table/" not in f)]
    return list(dict.fromkeys(files))


def declarations() -> dict[str, Any]:
    """The functions of rows and composites by all of their names."""
    functions = {}
    for made in (*ROWS.values(), *COMPOSITES.values()):
        function = made.forward if isinstance(made, Row) else made.compute
        functions.update(dict.fromkeys((made.name, *made.aliases), function))
    return functions


def page() -> str:
    """The text of docs/design/where.md."""
    declared = declarations()
    lines = [
        "# Where is ...?",
        "",
        "Written by `python -m tests.where`; `tests/test_where.py` checks it. Ops are declared in",
        "`shmtensor/ops`, with their gradients; their kernels are in `shmtensor/native`. Where no",
        "kernel is named, NumPy computes.",
        "",
        "| op | row | declared | gradient | kernel |",
        "|---|---|---|---|---|",
    ]
    for name, row_name, kernel in OPS:
        row = ROWS[row_name]
        path = file_of(declared.get(name, row.forward)).removeprefix("shmtensor/")
        others = [f.removeprefix("shmtensor/") for f in gradient_files(row)]
        gradient = ", ".join("there" if f == path else f"`{f}`" for f in others) or "none"
        cells = f"`{name}`", f"`{row_name}`", f"`{path}`", gradient, kernel and f"`{kernel}`"
        lines.append("| " + " | ".join(cells) + " |")
    for title, subjects in SUBJECTS.items():
        lines += ["", f"## {title}", "", "| what | file | name there |", "|---|---|---|"]
        lines += [f"| {what} | `{path}` | `{name}` |" for what, path, name in subjects]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
