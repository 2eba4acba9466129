"""The ops: a table of rows, a file for each family. They work on arrays; `autograd` turns them into
functions of Tensors.
"""

from importlib import import_module as _import_module

from .table.op_table import COMPOSITES, ROWS, Row, composite, op

__all__ = ["COMPOSITES", "FAMILIES", "LATER", "ROWS", "Row", "composite", "load", "op"]

FAMILIES = (
    "table.cast_copy_sum_to_size",
    "pointwise.arithmetic",
    "pointwise.add_alpha",
    "pointwise.pow",
    "pointwise.nextafter_frexp",
    "pointwise.maximum_clamp",
    "pointwise.round_remainder",
    "pointwise.exp_log_erf",
    "pointwise.trigonometry",
    "pointwise.complex",
    "pointwise.comparison",
    "pointwise.bitwise",
    "reduce.sum_mean_var",
    "reduce.norm_logsumexp",
    "special.lgamma_polygamma",
    "reduce.quantile_cov",
    "linalg.cross_combinations",
    "linalg.cdist",
    "nn.cosine_similarity",
    "sort.sort_topk_median",
    "sort.searchsorted_isin",
    "sort.unique",
    "reduce.cumulative",
    "shape.view_expand_flip",
    "shape.slice_unfold",
    "shape.cat_split",
    "index.getitem_index_put_where",
    "index.gather_scatter",
    "index.scatter_reduce",
    "shape.tril_diag",
    "linalg.matmul",
    "linalg.einsum",
    "linalg.sparse_matmul",
    "linalg.inverse_det_matrix_exp",
    "nn.activation",
    "nn.glu",
    "nn.softmax",
    "nn.layer_norm",
    "nn.embedding_dropout",
    "nn.pad",
    "nn.conv",
    "nn.pooling",
    "nn.pooling_names",
    "nn.fractional_max_pool",
    "nn.interpolate",
    "nn.fold_pixel_shuffle",
    "nn.scaled_dot_product_attention",
    "nn.multi_head_attention",
    "nn.weighted_sample",
    "nn.grid_sample",
    "loss.cross_entropy",
    "loss.ctc_loss",
    "loss.pointwise_loss",
    "loss.mse_bce_kl",
    "loss.margin_loss",
    "loss.linear_cross_entropy",
    "nn.embedding_bag",
    "nn.batch_norm",
    "reduce.histogram",
    "signal.gradient",
    "creation.zeros_full_arange",
    "creation.linspace",
    "creation.meshgrid",
    "signal.window_functions",
    "random.rand_multinomial",
    "random.poisson_binomial",
    "random.standard_gamma",
    "random.normal_uniform_inplace",
    "shape.as_strided",
    "shape.view_copies",
    "linalg.linalg_names",
    "special.igamma_mvlgamma",
    "signal.stft_segment_reduce_names",
    "nn.rnn_names",
)

# Families that are declared on the first use of one of their ops, so that the import stays cheap.
# The names of their ops begin with the prefix; users call them by a namespace (shmtensor.linalg).
LATER = {
    "fft": ("signal.fft", "signal.stft_segment_reduce"),
    "linalg": (
        "linalg.cholesky_qr",
        "linalg.lu_ldl",
        "linalg.eig_svd",
        "linalg.solve_lstsq",
        "linalg.matrix_norm",
        "linalg.multi_dot_vander",
    ),
    "masked": ("reduce.masked",),
    "rnn": ("nn.rnn_layer", "nn.rnn"),
    "special": ("special.ndtr_zeta_gammainc", "special.bessel", "special.orthogonal_polynomials"),
}


def load(prefix: str = "") -> bool:
    """Declares the later families of a prefix, or all of them. Returns whether there were any."""
    prefixes = (prefix,) if prefix else tuple(LATER)
    families = [family for p in prefixes for family in LATER.get(p, ())]
    declared = len(ROWS) + len(COMPOSITES)
    for family in families:
        _import_module(f"{__name__}.{family}")
    return len(ROWS) + len(COMPOSITES) > declared


for _family in FAMILIES:  # the order of the rows in the table, and in the reference
    _import_module(f"{__name__}.{_family}")
