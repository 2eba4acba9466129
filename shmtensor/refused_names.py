"""Names of PyTorch's that can be imported and written in annotations, and that say why when they
are called: `cuda.CUDAGraph`, `hub.load`.

Their modules have no files: the finder of `absent_names` makes them from the table here, and the
build writes their types.
"""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

ROOT = __name__.rpartition(".")[0]

# A module, from the top level of the package; its names; the reason. A name with a capital letter,
# and `graph`, is a class. A question (`is_`) answers False; to turn something off does nothing.
_TABLE = [
    (
        "hub",
        "download_url_to_file get_dir help list load load_state_dict_from_url load_url set_dir",
        "shmtensor does not use the network: download the file yourself, and read it with "
        "shmtensor.load, which takes PyTorch's .pt files",
    ),
    (
        "cuda.graphs",
        "CUDAGraph graph graph_pool_handle is_current_stream_capturing make_graphed_callables",
        "CUDA graphs are not supported: ops allocate memory while they run",
    ),
    (
        "cuda.jiterator",
        "create_jit_fn create_multi_output_jit_fn",
        "kernels from C++ text are made by CuPy, hint: cupy.ElementwiseKernel",
    ),
    (
        "cuda.tunable",
        """
        enable get_filename get_max_tuning_duration get_max_tuning_iterations get_results
        get_rotating_buffer_size get_validators is_enabled mgpu_tune_gemm_in_file read_file
        record_untuned_enable record_untuned_is_enabled set_filename set_max_tuning_duration
        set_max_tuning_iterations set_numerical_check_tolerances set_rotating_buffer_size
        tune_gemm_in_file tuning_enable tuning_is_enabled write_file
        """,
        "products are not tuned: CuPy calls cuBLAS, which chooses their kernels",
    ),
    (
        "cuda.nccl",
        "all_gather all_reduce broadcast reduce reduce_scatter",
        "NCCL is used between processes only, hint: shmtensor.distributed, or cuda.comm in one "
        "process",
    ),
    (
        "cuda.sparse",
        """
        ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor ShortTensor
        """,
        "old types of sparse tensors are not there, hint: sparse_coo_tensor(..., device='cuda')",
    ),
    (
        "cuda.refused",
        "GreenContext",
        "a part of a GPU's processors cannot be chosen: CuPy has no such function",
    ),
    (
        "cuda.refused",
        "MemPool use_mem_pool",
        "there is one pool for each GPU, whose blocks other processes can receive",
    ),
    (
        "cuda.refused",
        "CUDAPluggableAllocator change_current_allocator",
        "memory comes from shmtensor's allocator, which can send it to other processes, hint: "
        "cupy.cuda.set_allocator",
    ),
    (
        "cuda.refused",
        """
        BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage
        ComplexFloatStorage DoubleStorage FloatStorage HalfStorage IntStorage LongStorage
        ShortStorage
        """,
        "old types of storages are not there, hint: tensor.untyped_storage()",
    ),
]
REASONS = {f"{module}.{name}": reason for module, names, reason in _TABLE for name in names.split()}
MODULES = sorted({module for module, _, _ in _TABLE} - {"cuda.nccl"})  # which has a file


def is_question(name: str) -> bool:
    """Whether a function asks something: `is_enabled`."""
    return "is_" in name


def is_class(name: str) -> bool:
    """Whether a name is a class."""
    return name == "graph" or name[0].isupper()


def names_of(module: str) -> list[str]:
    """The names of a module of the table."""
    places = (name.rpartition(".") for name in sorted(REASONS))
    return [name for place, _, name in places if place == module]


def doc_of(where: str, reason: str) -> str:
    """The docstring of a name that is not there."""
    own = where.rpartition(".")[2]
    result, raised = "NoReturn\n    It raises.", "Always."
    example = f">>> st.{where}()\nTraceback (most recent call last):\nNotImplementedError: ..."
    if is_question(own):
        result, raised, example = "bool\n    False.", "", f">>> st.{where}()\nFalse"
    elif own.endswith("enable"):
        result, raised, example = "None\n    Of False.", "Of True.", f">>> st.{where}(False)"
    returns = "" if is_class(own) else f"Returns\n-------\n{result}\n\n"
    raises = f"Raises\n------\nNotImplementedError\n    {raised}\n\n" if raised else ""
    return (
        f"Not there: {reason}.\n\n"
        "Parameters\n----------\n*args, **kwargs : object\n    PyTorch's.\n\n"
        f"{returns}{raises}Examples\n--------\n{example}\n"
    )


def refused(name: str) -> Any:
    """The class or function of a name, as `cuda.graphs.graph`: a call raises
    NotImplementedError.
    """
    module, _, own = name.rpartition(".")
    reason = REASONS[name]
    where = f"{module.removesuffix('.graphs').removesuffix('.refused')}.{own}"

    def refuse(*args: Any, **kwargs: Any) -> Any:
        if is_question(own):
            return False
        if own.endswith("enable") and (*args, *kwargs.values()) == (False,):
            return None
        raise NotImplementedError(f"{where}: {reason}")

    texts = {"__module__": f"{ROOT}.{module}", "__doc__": doc_of(where, reason)}
    if is_class(own):
        return type(own, (), {"__new__": refuse, **texts})
    refuse.__name__ = refuse.__qualname__ = own
    refuse.__module__, refuse.__doc__ = texts.values()
    return refuse


class Loader:
    """Makes a module of the table."""

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """None: a plain module."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Sets its names."""
        own = module.__name__.removeprefix(f"{ROOT}.")
        names = names_of(own)

        def later(name: str) -> Any:
            if f"{own}.{name}" == "hub.tqdm":  # which programs import from there
                from tqdm import tqdm

                return tqdm
            text = f"module {module.__name__!r} has no attribute {name!r}"
            raise AttributeError(text, name=name, obj=module)

        values = {name: refused(f"{own}.{name}") for name in names}
        doc = f"Names of PyTorch's `{own}` that are not there; see `refused_names`."
        vars(module).update(values, __all__=names, __doc__=doc, __getattr__=later)


def spec_of(module: str) -> ModuleSpec | None:
    """The spec of a module of the table; None of any other."""
    if module.removeprefix(f"{ROOT}.") not in MODULES:
        return None
    return ModuleSpec(module, Loader)  # type: ignore[arg-type]
