"""What autocast does with each op, by device type.

The CPU's list is the column `autocast` of the op table; CUDA's is here: that of PyTorch 2.13's CUDA
backend (aten/src/ATen/autocast_mode.h), by the names of our rows and composites. An op that is
made of others and is not in the list (`gelu` is not, `layer_norm` is) leaves the choice to them.
"""

from __future__ import annotations

from ...native import AUTOCAST, AUTOCAST_CUDA, OBSERVED

Precisions = dict[str, str]  # device type -> "", "lower", "full", "widest", "alone" or "refused"

BITS = {"cpu": AUTOCAST, "cuda": AUTOCAST_CUDA}
ALL = AUTOCAST | AUTOCAST_CUDA

CUDA_LISTS = {
    "lower": """
        addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_tbc
        conv_transpose1d conv_transpose2d conv_transpose3d einsum gru_cell linalg_multi_dot
        linalg_vecdot linear lstm_cell matmul mm mv prelu rnn_relu_cell rnn_tanh_cell
        scaled_dot_product_attention
    """,
    "full": """
        acos asin binary_cross_entropy_with_logits cdist cosh cross_entropy cumprod cumsum dist
        erfinv exp expm1 group_norm huber_loss interpolate kl_div l1_loss layer_norm linalg_norm
        linalg_matrix_norm linalg_vector_norm log log10 log1p log2 log_softmax logsumexp mse_loss
        multi_margin_loss multilabel_margin_loss nll_loss norm pdist pow prod rdiv reciprocal
        renorm rsqrt sinh smooth_l1_loss softmax softplus sum tan
    """,
    "widest": "addcdiv addcmul atan2 cat cross dot grid_sampler index_put linalg_cross scatter_add "
    "stack tensordot vdot",
    "refused": "binary_cross_entropy",
}

CUDA = {name: kind for kind, names in CUDA_LISTS.items() for name in names.split()}

NONE: Precisions = {"cpu": "", "cuda": ""}


def precisions_of(name: str, on_cpu: str) -> Precisions:
    """The precisions of an op whose column is `on_cpu`; "rdiv" is the reflected form of `div`."""
    on_cuda = CUDA.get(name, "")
    return {"cpu": on_cpu, "cuda": on_cuda} if on_cpu or on_cuda else NONE


def modes_of(precisions: Precisions) -> int:
    """The modes that concern an op."""
    return OBSERVED | sum(bit for device, bit in BITS.items() if precisions[device])
