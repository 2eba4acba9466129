"""In which precision ops compute inside `autocast`: the lists of PyTorch's CPU backend.

Names of rows and composites of the table; what is in none of them computes in what it is given.
"""

__all__ = ["KINDS", "kind"]

# Products: 16-bit floats where the hardware gains by it, with sums of float32 inside.
LOWER = """
    addbmm addmm baddbmm bmm conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d
    conv_transpose3d linalg_vecdot linear matmul mm prelu scaled_dot_product_attention
"""

# What loses too much in 16 bits, or has no kernel for them there.
FULL = """
    adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy
    binary_cross_entropy_with_logits cdist cholesky cholesky_inverse cholesky_solve cross_entropy
    ctc_loss fft_fft fft_fft2 fft_fftn fft_hfft fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_irfft
    fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn fractional_max_pool2d fractional_max_pool3d
    geqrf grid_sampler huber_loss inverse kl_div l1_loss linalg_cholesky linalg_cholesky_ex
    linalg_cond linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_householder_product
    linalg_inv linalg_inv_ex linalg_lstsq linalg_matrix_rank linalg_qr linalg_solve linalg_svd
    linalg_svdvals linalg_tensorinv linalg_tensorsolve lu_solve max_pool3d max_unpool2d max_unpool3d
    mse_loss multi_margin_loss multilabel_margin_loss nanquantile nll_loss orgqr ormqr pinverse
    polar prod qr quantile smooth_l1_loss stft svd trace triangular_solve view_as_complex
"""

# The widest type among the operands.
WIDEST = "cat index_copy stack"

# A matrix product inside, here but not there: computed in what they are given.
ALONE = "addmv dot linalg_lu_solve mv vdot"

KINDS = {
    name: kind
    for kind, names in [("lower", LOWER), ("full", FULL), ("widest", WIDEST), ("alone", ALONE)]
    for name in names.split()
}


def kind(name: str) -> str:
    """ "lower", "full", "widest" or "alone"; "" for an op that autocast does not know."""
    return KINDS.get(name, "")
