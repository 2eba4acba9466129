"""Types for the stubs that rows and composites do not say themselves: of arguments by their names,
and of results that are not one Tensor.

tests/typing checks them against calls.
"""

from __future__ import annotations

# Written at the top of each stub; `builtins` and `_Dim` because functions are named as the types.
ALIASES = """
_Number: TypeAlias = builtins.complex | np.number[Any] | np.bool_
_Operand: TypeAlias = Tensor | np.ndarray[Any, Any] | _Number
_Dims: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
_DType: TypeAlias = _OwnDtype | Dtype | np.dtype[Any] | type[Any] | builtins.str
_Device: TypeAlias = Device | builtins.str | builtins.int
_Item: TypeAlias = (
    SupportsIndex
    | slice[Any, Any, Any]
    | EllipsisType
    | Tensor
    | np.ndarray[Any, Any]
    | list[Any]
    | builtins.range
    | None
)
_Index: TypeAlias = _Item | tuple[_Item | tuple[Any, ...], ...]
"""

# ---------------------------------------------------------------- arguments, by their names

NAMES_OF_TYPES = {
    "Tensor": """
        A B L LU LD LU_data LU_pivots anchor attn_mask b_hh b_ih batch1 batch2 bias boundaries
        condition data elements grid hx index indices input
        key key_padding_mask linear_bias linear_weight log_probs mask mat mat1 mat2 negative
        offsets other out_proj_weight pivots pos_weight positive prob query
        running_mean running_var sorted_sequence sorter source src tau target targets tensor tensor1
        tensor2 test_elements the_template theta v value vec vec1 vec2 w_hh w_ih weight weights
        window x x1 x2 y batch prepend append fweights aweights input_mask other_mask
        q_proj_weight k_proj_weight v_proj_weight static_k static_v
    """,
    "Tensor | None": "bias_k bias_v in_proj_bias in_proj_weight out_proj_bias",
    "Sequence[Tensor]": "tensors",
    "SupportsIndex": """
        N chunks col decimals diagonal dim0 dim1 dim2 dimension downscale_factor embed_dim_to_check
        end_dim groups k length m minlength n n_fft niter num_classes num_groups num_heads
        num_samples offset q r row start_dim steps upscale_factor window_length hop_length
        win_length storage_offset
    """,
    "_Dims": """
        destination dim dims kernel_size normalized_shape output_padding shape shifts
        shifts size source_dims split_size split_size_or_sections stride dilation physical_layout
    """,
    "Tensor | Sequence[builtins.int]": "input_lengths target_lengths",
    "_Dims | builtins.str": "padding",
    "_Dims | Tensor": "indices_or_sections",
    "_Number": "alpha beta fill_value lambd nan posinf neginf negative_slope",
    "_DType": "dtype",
    "_Device": "device",
    "_Layout": "layout",
    "_MemoryFormat": "memory_format",
    "Generator": "generator",
    "builtins.float | builtins.str": "p ord",
    "builtins.float": "correction rtol atol rcond tol scale eps",
    "builtins.bool": "unbiased onesided return_complex align_corners size_average",
    "builtins.str": "driver norm indexing side rounding_mode reduction interpolation",
}  # fmt: skip
ARGUMENTS = {name: type_ for type_, names in NAMES_OF_TYPES.items() for name in names.split()}

# function.argument: where the same name is something else.
TYPES_IN_FUNCTIONS = {
    "Tensor": """
        binomial.count lu_solve.b scaled_dot_product_attention.value tensordot.a tensordot.b
    """,
    "_Operand": """
        arange.end arange.start arange.step bernoulli.p bernoulli_.p bucketize.input clamp.max
        clamp.min clamp_max.max clamp_min.min fill.value float_power.exponent float_power.input
        full.fill_value full_like.fill_value histc.max histc.min index_fill.value isin.elements
        isin.test_elements ldexp.other lerp.weight linspace.end linspace.start logspace.end
        logspace.start masked_fill.value new_full.fill_value normal.mean normal.std range.end
        range.start range.step rsub.other scatter.src searchsorted.input where.input where.other
    """,
    "_Number": """
        addcdiv.value addcmul.value constant_pad_nd.value pad.value scatter.value threshold.value
    """,
    "_Dims": "movedim.source repeat.repeats unravel_index.shape",
    "_Dims | _OwnDtype | Dtype | type[Any]": "view.shape",
    "Tensor | _Dims": "repeat_interleave.repeats",
    "SupportsIndex": """
        log_softmax.dim polygamma.n select.index select_scatter.index softmax.dim
    """,
    "Sequence[SupportsIndex]": "constant_pad_nd.pad pad.pad",
    "Sequence[Any]": "index_put.indices",
    "builtins.float | Tensor": "nanquantile.q quantile.q",
    "Any": "lstm_cell.hx narrow.start tensordot.dims",
}
IN_FUNCTIONS = {
    name: type_ for type_, names in TYPES_IN_FUNCTIONS.items() for name in names.split()
}

# Methods that sparse/ adds to Tensor.
SPARSE_METHODS = """\
    def to_sparse(self, sparse_dim: builtins.int | None = ...) -> SparseTensor: ...
    def to_sparse_coo(self, sparse_dim: builtins.int | None = ...) -> SparseTensor: ...
    def to_sparse_csr(self, dense_dim: builtins.int | None = ...) -> SparseCompressedTensor: ...
    def to_sparse_csc(self, dense_dim: builtins.int | None = ...) -> SparseCompressedTensor: ...
    def to_dense(self, dtype: _DType | None = ..., **unused: Any) -> Tensor: ...
    def coalesce(self) -> SparseTensor: ...
    def indices(self) -> Tensor: ...
    def values(self) -> Tensor: ...
    def is_coalesced(self) -> builtins.bool: ...
    def sparse_dim(self) -> builtins.int: ...
    def dense_dim(self) -> builtins.int: ...
    def sparse_mask(self, mask: SparseTensor) -> SparseTensor: ...
"""

# ---------------------------------------------------------------- results

TENSORS = "tuple[Tensor, ...]"
PAIR = "tuple[Tensor, Tensor]"
TRIPLE = "tuple[Tensor, Tensor, Tensor]"

# Of composites, by name, where it is not Tensor.
RESULTS = {
    **dict.fromkeys(("allclose", "equal"), "builtins.bool"),
    **dict.fromkeys(
        (
            "broadcast_tensors", "chunk", "dsplit", "gradient", "hsplit", "lu", "meshgrid", "split",
            "split_copy", "split_with_sizes_copy", "tensor_split", "unbind_copy", "unravel_index",
            "unsafe_chunk", "unsafe_split", "vsplit",
        ),
        TENSORS,
    ),
    **dict.fromkeys(("gru", "lstm_cell", "rnn_relu", "rnn_tanh", "std_mean", "var_mean"), PAIR),
    **dict.fromkeys(
        ("linalg_pca_lowrank", "linalg_svd_lowrank", "lstm", "pca_lowrank", "svd_lowrank"), TRIPLE
    ),
    "broadcast_shapes": "Size",
    "histogramdd": "tuple[Tensor, tuple[Tensor, ...]]",
    "multi_head_attention_forward": "tuple[Tensor, Tensor | None]",
}  # fmt: skip

# Of composites that return tuples with named fields: the fields; rows say theirs themselves.
FIELDS = {
    name: tuple(fields.split())
    for name, fields in {
        "aminmax": "min max",
        "geqrf": "a tau",
        "histogram": "hist bin_edges",
        "linalg_cholesky_ex": "L info",
        "linalg_eig": "eigenvalues eigenvectors",
        "linalg_eigh": "eigenvalues eigenvectors",
        "linalg_geqrf": "a tau",
        "linalg_inv_ex": "inverse info",
        "linalg_ldl_factor": "LD pivots",
        "linalg_ldl_factor_ex": "LD pivots info",
        "linalg_lstsq": "solution residuals rank singular_values",
        "linalg_lu": "P L U",
        "linalg_lu_factor": "LU pivots",
        "linalg_lu_factor_ex": "LU pivots info",
        "linalg_lu_unpacked": "P L U",
        "linalg_qr": "Q R",
        "linalg_slogdet": "sign logabsdet",
        "linalg_solve_ex": "result info",
        "linalg_svd": "U S Vh",
        "lu_unpack": "P L U",
        "max": "values indices",
        "median": "values indices",
        "min": "values indices",
        "nanmedian": "values indices",
        "qr": "Q R",
        "sort": "values indices",
        "svd": "U S V",
        "triangular_solve": "solution cloned_coefficient",
    }.items()
}

DIM = "dim: builtins.int, keepdim: builtins.bool = ..."
YES, NO = "Literal[True]", "Literal[False]"
INPUT = "input: Tensor"


def extreme(name: str, *others: tuple[str, str]) -> list[tuple[str, str]]:
    """The forms of `max` and the like: of all elements, or along a dimension, by its name, too."""
    return [(INPUT, "Tensor"), *others, (f"{INPUT}, {DIM}", f"_return_types.{name}")]


def unique_forms(first: str, last: str) -> list[tuple[str, str]]:
    """The forms of `unique`: one tensor more for each of two flags."""
    forms = []
    for inverse, counts in ((NO, NO), (YES, NO), (NO, YES), (YES, YES)):
        flags = ", ".join(
            f"{name}: {flag}" + (" = ..." if flag == NO else "")
            for name, flag in (("return_inverse", inverse), ("return_counts", counts))
        )
        n = 1 + (inverse == YES) + (counts == YES)
        result = "Tensor" if n == 1 else f"tuple[{', '.join(['Tensor'] * n)}]"
        forms.append((f"{INPUT}, {first}*, {flags}, {last}", result))
    any_flags = "return_inverse: builtins.bool = ..., return_counts: builtins.bool = ..."
    forms.append((f"{INPUT}, {first}{any_flags}, {last}", "Any"))
    return forms


def pool_forms(arguments: str) -> list[tuple[str, str]]:
    """The forms of a pooling: with the places of the maxima, or without."""
    return [
        (f"{INPUT}, {arguments}, return_indices: {NO} = ...", "Tensor"),
        (f"{INPUT}, {arguments}, *, return_indices: {YES}", PAIR),
        (f"{INPUT}, {arguments}, return_indices: builtins.bool = ...", "Any"),
    ]


MAX_POOL = (
    "kernel_size: _Dims, stride: _Dims | None = ..., padding: _Dims = ..., dilation: _Dims = ..., "
    "ceil_mode: builtins.bool = ..."
)
FRACTIONAL = "kernel_size: _Dims, output_size: _Dims | None = ..., output_ratio: Any = ..."
DIM_OR_NONE = "dim: builtins.int | None = ..."

# Functions whose result depends on the arguments: (parameters, result) of each form. `out=` is
# added to the functions that have it; methods leave the first parameter out.
OVERLOADS: dict[str, list[tuple[str, str]]] = {
    "max": extreme("max", (f"{INPUT}, other: Tensor", "Tensor")),
    "min": extreme("min", (f"{INPUT}, other: Tensor", "Tensor")),
    "median": extreme("median"),
    "nanmedian": extreme("nanmedian"),
    "unique": unique_forms("sorted: builtins.bool = ..., ", DIM_OR_NONE),
    "unique_consecutive": unique_forms("", DIM_OR_NONE),
    "nonzero": [
        (f"{INPUT}, *, as_tuple: {NO} = ...", "Tensor"),
        (f"{INPUT}, *, as_tuple: {YES}", TENSORS),
    ],
    "where": [
        ("condition: Tensor", TENSORS),
        ("condition: Tensor, input: _Operand, other: _Operand", "Tensor"),
    ],
    **{
        f"atleast_{n}d": [
            ("input: Tensor, /", "Tensor"),
            ("tensors: Sequence[Tensor], /", TENSORS),
            ("input: Tensor, other: Tensor, /, *tensors: Tensor", TENSORS),
        ]
        for n in (1, 2, 3)
    },
    **{f"max_pool{n}d": pool_forms(MAX_POOL) for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": pool_forms("output_size: Any") for n in (1, 2, 3)},
    **{f"fractional_max_pool{n}d": pool_forms(FRACTIONAL) for n in (2, 3)},
}
