// The Python bindings of kernels/.
#include "kernels/arguments.h"
#include "kernels/linalg/openblas.h"
#include "kernels/functions.h"
#include "kernels/nn/convolution.h"
#include "simd/cpu_capability.h"
#include "numpy_loops/loops.h"
#include "kernels/shape/contiguous.h"
#include "kernels/index/advanced_indexing.h"
#include "threading/thread_pool.h"
#include "python.h"
#include "kernels/reduce/prod_count.h"
#include "numpy_loops/parallel_ufunc.h"

#include <new>

namespace shmtensor {
namespace {

PyObject* get_num_threads(PyObject*, PyObject*) { return PyLong_FromLong(pool_threads()); }

PyObject* set_num_threads(PyObject*, PyObject* argument) {
  long n = PyLong_AsLong(argument);
  if (n == -1 && PyErr_Occurred()) return nullptr;
  if (n < 1 || n > 1'000'000) return raise("ValueError", "set_num_threads: expected at least 1: %ld", n);
  {
    Unlocked unlocked(true);
    pool_set_threads(static_cast<int>(n));
  }
  Py_RETURN_NONE;
}

PyObject* share_threads(PyObject*, PyObject* argument) {
  const long n = PyLong_AsLong(argument);
  if (n == -1 && PyErr_Occurred()) return nullptr;
  if (n < 1) return raise("ValueError", "share_threads: expected at least 1 process: %ld", n);
  {
    Unlocked unlocked(true);
    pool_share(n);
  }
  Py_RETURN_NONE;
}

PyObject* isa(PyObject*, PyObject*) { return PyUnicode_FromString(isa_name(isa_level())); }

PyObject* has_avx512_bf16(PyObject*, PyObject*) { return PyBool_FromLong(uses_avx512_bf16()); }

PyObject* isa_levels(PyObject*, PyObject*) {
  Ref names(PyList_New(0));
  if (!names) return nullptr;
  for (Level level : {Level::Generic, Level::Avx2, Level::Avx512}) {
    if (!is_compiled(level)) continue;
    Ref name(PyUnicode_FromString(isa_name(level)));
    if (!name || PyList_Append(names.get(), name.get()) < 0) return nullptr;
  }
  return PyList_AsTuple(names.get());
}

PyObject* blas(PyObject*, PyObject*) { return blas_ensure() ? PyUnicode_FromString(blas_core()) : nullptr; }

template <FastFunction* function>
PyMethodDef kernel(const char* name, const char* doc) {
  return method(name, with_memory_error<function>, doc);
}

PyMethodDef methods[] = {
    {"set_num_threads", set_num_threads, METH_O,
     "set_num_threads(n)\n--\n\n"
     "Sets how many threads kernels run in, in this process.\n\n"
     "Parameters\n----------\nn : int\n    At least 1, the calling thread included.\n\n"
     "Returns\n-------\nNone\n\nRaises\n------\nValueError\n    n is less than 1.\n\n"
     "Notes\n-----\nResults have the same bits for any number of threads.\n\n"
     "Examples\n--------\n>>> n = st.get_num_threads()\n>>> st.set_num_threads(1)\n>>> st.get_num_threads()\n1\n"
     ">>> st.set_num_threads(n)\n"},
    {"get_num_threads", get_num_threads, METH_NOARGS,
     "get_num_threads()\n--\n\n"
     "How many threads kernels run in, the calling thread included.\n\n"
     "Returns\n-------\nint\n    SHMTENSOR_NUM_THREADS, OMP_NUM_THREADS, or the processors that this process may use, unless\n"
     "    `set_num_threads` was called.\n\n"
     "Examples\n--------\n>>> st.get_num_threads() >= 1\nTrue\n"},
    {"share_threads", share_threads, METH_O,
     "share_threads(n): this process is one of n that compute at once and uses 1/n of the CPUs, "
     "unless SHMTENSOR_NUM_THREADS or OMP_NUM_THREADS sets the number of threads."},
    {"isa", isa, METH_NOARGS, "isa() -> str: instruction-set level of the kernels: generic, avx2 or avx512."},
    {"uses_avx512_bf16", has_avx512_bf16, METH_NOARGS,
     "uses_avx512_bf16() -> bool: whether products of bfloat16 use AVX512_BF16."},
    {"isa_levels", isa_levels, METH_NOARGS,
     "isa_levels() -> tuple: the levels for which this extension was compiled, the lowest first."},
    kernel<hash_slots>(
        "hash_slots",
        "hash_slots(table, hashes, weights, is_set, limit, /): puts hashes in a table of int64 (-1: free), as CPython's\n"
        "dicts and sets do; what the full slots visited count, more than the limit if it ends early."),
    kernel<crc32>("crc32",
                  "crc32(data, value, /): as zlib.crc32, at the speed of memory; None where the CPU lacks PCLMULQDQ."),
    {"blas", blas, METH_NOARGS, "blas() -> str: the BLAS kernels in use; loads the library."},
    {"parallel", parallel, METH_VARARGS,
     "parallel(ufunc, refused='', /) -> ufunc: the same loops on the thread pool, without warnings; arrays "
     "whose dtype.kind is in `refused` raise TypeError."},
    {"elementwise", elementwise, METH_O,
     "elementwise(name): a ufunc of float32 and float64, as `parallel` makes them, of a function "
     "that NumPy lacks."},
    kernel<matmul>("matmul", "matmul(x, y, out=None, /): matrix product of any ranks."),
    kernel<linear>("linear", "linear(input, weight, bias=None, /): input @ weight.T + bias."),
    {"lu_factor", lu_factor, METH_O, "lu_factor(x, /) -> (LU, pivots, info), as LAPACK's getrf."},
    kernel<ldl_factor>("ldl_factor", "ldl_factor(x, hermitian, /) -> (LD, pivots, info), as LAPACK's sytrf and hetrf."),
    kernel<ldl_solve>("ldl_solve", "ldl_solve(LD, pivots, b, hermitian, /): x with a @ x = b."),
    {"clone", clone, METH_O, "clone(x, /): a copy with x's order of axes in memory."},
    kernel<copy_into>("copy_into", "copy_into(out, y, /) -> bool: False if there is no kernel for it."),
    kernel<steps>("steps", "steps(start, step, n, type, /): start + i * step; type is NumPy's type number."),
    kernel<randint>("randint", "randint(n, seed, offset, low, span, /): integers in [low, low + span)."),
    kernel<randperm>("randperm", "randperm(n, seed, offset, /): 0 to n - 1 in random order."),
    kernel<splitmix64>("splitmix64", "splitmix64(out, start, /): fills out with SplitMix64's words."),
    kernel<clamp>("clamp", "clamp(x, low, high, out=None, /): bounds may be None."),
    kernel<nan_to_num>("nan_to_num",
                       "nan_to_num(x, nan, posinf, neginf, out=None, /): numbers in place of NaN and the infinities."),
    kernel<addcmul>("addcmul", "addcmul(x, a, b, value, out=None, /): x + value * a * b."),
    kernel<addcdiv>("addcdiv", "addcdiv(x, a, b, value, out=None, /): x + value * a / b."),
    kernel<lerp>("lerp",
                 "lerp(x, end, weight, out=None, /): x + weight * (end - x); weight is a number or an array of x's shape."),
    {"rsqrt", rsqrt, METH_O, "rsqrt(x, /): 1 / sqrt(x)."},
    kernel<cdist>("cdist", "cdist(x, y, p, /): p-norm distance of each row of x from each row of y."),
    kernel<pdist>("pdist", "pdist(x, p, /): p-norm distance of each row of x from each later row."),
    kernel<cast>("cast", "cast(x, type, /): x in another dtype; type is NumPy's type number."),
    {"relu", relu, METH_O, "relu(x, /): max(x, 0); NaN stays NaN."},
    kernel<relu_backward>("relu_backward", "relu_backward(g, out, /)"),
    {"sigmoid", sigmoid, METH_O, "sigmoid(x, /): 1 / (1 + exp(-x))."},
    kernel<sigmoid_backward>("sigmoid_backward", "sigmoid_backward(g, out, /)"),
    kernel<tanh_backward>("tanh_backward", "tanh_backward(g, out, /)"),
    kernel<gelu>("gelu", "gelu(x, tanh=False, /): x times the normal cumulative distribution function."),
    kernel<gelu_backward>("gelu_backward", "gelu_backward(g, x, tanh=False, /)"),
    {"activation", activation, METH_O,
     "activation(name, /): the kernel of an activation, of x and its parameters; it returns None where the forward must "
     "compute the call."},
    kernel<count_correct>(
        "count_correct",
        "count_correct(scores, targets, /): how many rows (n, classes) have their first greatest score at the target, or None."),
    kernel<count_equal>("count_equal",
                        "count_equal(x, value, /): how many elements of a vector of int64 have a value, or None."),
    kernel<nll_loss>("nll_loss", "nll_loss(x, target, weight, ignore_index, reduction, /): -weight[c] x[c] for classes c."),
    kernel<nll_loss_backward>("nll_loss_backward",
                              "nll_loss_backward(g, target, weight, shape, ignore_index, reduction, /)"),
    kernel<glu>("glu", "glu(x, dim, /): the first half along dim times the sigmoid of the second."),
    kernel<glu_backward>("glu_backward", "glu_backward(g, x, dim, /)"),
    kernel<activation_backward>(
        "activation_backward", "activation_backward(g, x, name, a, b, c, /): g times the derivative of an activation at x."),
    kernel<pointwise_loss>(
        "pointwise_loss",
        "pointwise_loss(x, y, name, reduction, a, b, /): the losses of each pair of elements, their mean or their sum."),
    kernel<pointwise_loss_backward>(
        "pointwise_loss_backward",
        "pointwise_loss_backward(g, x, y, name, side, reduction, a, b, /): the gradient of x or y."),
    kernel<dropout>("dropout", "dropout(x, p, seed, offset, /) -> (out, mask)"),
    kernel<softmax>("softmax", "softmax(x, dim, /)"),
    kernel<log_softmax>("log_softmax", "log_softmax(x, dim, /)"),
    kernel<softmax_backward>("softmax_backward", "softmax_backward(g, out, dim, /)"),
    kernel<log_softmax_backward>("log_softmax_backward", "log_softmax_backward(g, out, dim, /)"),
    kernel<cross_entropy>("cross_entropy",
                          "cross_entropy(logits, target, ignore_index, reduction, /) -> (loss, normalizers)"),
    kernel<cross_entropy_backward>("cross_entropy_backward",
                                   "cross_entropy_backward(g, logits, normalizers, target, ignore_index, reduction, /)"),
    kernel<sum>("sum", "sum(x, dim=None, keepdim=False, /); integers and bool give int64."),
    kernel<prod>("prod", "prod(x, dim, keepdim, dtype=None, /): integers and bool give int64; None with a dtype."),
    kernel<count>("count", "count(x, dim, keepdim, /): the number of nonzero elements."),
    kernel<reduce_into>(
        "reduce_into",
        "reduce_into(out, arrays, op, /): out becomes the sum, prod, min, max or avg of the arrays, in their "
        "order."),
    kernel<cat>("cat", "cat(arrays, dim=0, /)"),
    kernel<stack_into>("stack_into", "stack_into(out, arrays, /): out[i] = arrays[i]."),
    kernel<copy_to_rows>(
        "copy_to_rows",
        "copy_to_rows(sample, fields, i, /): the sample with each array that nothing else refers to replaced by\n"
        "row i of an array of `fields`, a list of (key, array), with a copy."),
    kernel<where>("where", "where(condition, x, y, /): as numpy.where."),
    kernel<minmax>("minmax", "minmax(x, dim, keepdim, largest, /)"),
    kernel<argminmax>("argminmax", "argminmax(x, dim, keepdim, largest, /)"),
    kernel<minmax_dim>("minmax_dim", "minmax_dim(x, dim, keepdim, largest, /) -> (values, indices)"),
    kernel<var>("var", "var(x, dim, correction, keepdim, root, /): root takes the square root."),
    kernel<norm>("norm",
                 "norm(x, dim, keepdim, power, /): the sum of |x| (power 1), or the root of the sum of x^2 (power 2)."),
    kernel<gather>("gather", "gather(x, index, dim, /)"),
    kernel<take>("take", "take(x, index, dim, /): slices at a vector of indices."),
    kernel<scatter>(
        "scatter",
        "scatter(out, source, index, dim, reduce, base=None, /) -> bool: False if there is no kernel for it or an index is "
        "out of range. reduce: 0 assign, 1 add, 2 multiply, 3 maximum, 4 minimum. With base, out is first overwritten by "
        "base; without it, out is unchanged if the result is False."),
    kernel<index_add>(
        "index_add",
        "index_add(out, source, index, dim, base=None, reduce=1, /) -> bool: False if there is no kernel for it."),
    kernel<cross>("cross", "cross(x, y, dim, /): vector products, or None."),
    kernel<combinations>("combinations",
                         "combinations(n, r, with_replacement, /): indices of r out of n elements, one combination a row."),
    kernel<histogram>("histogram", "histogram(x, edges, /): the number of elements in each bin, or None."),
    kernel<linspace>("linspace", "linspace(start, end, step, n, type, /): n evenly spaced numbers, or None."),
    kernel<add_alpha>("add_alpha", "add_alpha(x, y, value, out=None, /): x + value * y"),
    {"cube", cube, METH_O, "cube(x, /): x * x * x"},
    kernel<masked_scale>("masked_scale", "masked_scale(x, mask, scale, /): x * scale where mask is true, else 0."),
    kernel<multinomial>(
        "multinomial",
        "multinomial(weights, u, /): an index into the row for each of its uniform numbers, or None if weights are invalid."),
    kernel<multinomial_without_replacement>(
        "multinomial_without_replacement",
        "multinomial_without_replacement(weights, u, k, /) -> bool: u becomes the time at which each element is drawn; "
        "False if a row has fewer than k positive weights."),
    kernel<poisson>("poisson", "poisson(rates, seed, offset, /): a Poisson number for each rate."),
    kernel<binomial>("binomial",
                     "binomial(counts, chances, seed, offset, /): the number of successes in each count of trials."),
    kernel<standard_gamma>("standard_gamma",
                           "standard_gamma(shapes, seed, offset, log, /): a gamma number of rate 1 for each shape, at "
                           "least the smallest normal float, or its logarithm."),
    kernel<standard_gamma_grad>("standard_gamma_grad",
                                "standard_gamma_grad(shapes, samples, log, /): the derivatives of gamma numbers, or of "
                                "their logarithms, by the shapes."),
    kernel<take_rows>(
        "take_rows",
        "take_rows(x, index, /): the flat indices of the slices x[index] over the leading dimensions, or None."),
    {"private_index", private_index, METH_O,
     "private_index(index, /): the index of x[index] with copies of its arrays; each byte of a mask that is not 0 becomes 1."},
    kernel<add_at>("add_at", "add_at(out, indices, values, /) -> bool: False if there is no kernel for it."),
    kernel<sort>("sort", "sort(x, dim, descending, /) -> (values, indices)"),
    kernel<topk>("topk", "topk(x, k, dim, largest, /) -> (values, indices)"),
    kernel<kthvalue>("kthvalue", "kthvalue(x, k, dim, /) -> (values, indices): k = -1 is the median, -2 the nanmedian."),
    kernel<cumsum_cumprod>("cumsum_cumprod", "cumsum_cumprod(x, dim, product, /): cumulative sum or product."),
    kernel<logcumsumexp>("logcumsumexp", "logcumsumexp(x, dim, /): the logarithm of the cumulative sum of exp(x)."),
    kernel<cummax_cummin>("cummax_cummin", "cummax_cummin(x, dim, largest, /) -> (values, indices)"),
    kernel<searchsorted>("searchsorted",
                         "searchsorted(sequence, x, sorter, side, /): insertion indices of x in sorted rows, or None."),
    kernel<bincount>("bincount", "bincount(x, weights, minlength, /): the counts of 0, 1, ..., or None."),
    kernel<contiguous>("contiguous", "contiguous(x, /): a copy in C order."),
    kernel<stack>("stack", "stack(arrays, dim, /)"),
    kernel<convolution>("convolution", "convolution(x, weight, bias, stride, padding, dilation, groups, /)"),
    kernel<conv_transpose>("conv_transpose", "conv_transpose(y, weight, size, stride, padding, dilation, groups, /)"),
    kernel<convolution_backward_weight>("convolution_backward_weight",
                                        "convolution_backward_weight(x, y, kernel, stride, padding, dilation, groups, /)"),
    kernel<max_pool>("max_pool", "max_pool(x, kernel, stride, padding, dilation, out_size, /) -> (values, indices)"),
    kernel<adaptive_max_pool>("adaptive_max_pool", "adaptive_max_pool(x, size, /) -> (values, indices)"),
    kernel<fractional_max_pool>("fractional_max_pool",
                                "fractional_max_pool(x, samples, kernel, size, /) -> (values, indices)"),
    kernel<resample>(
        "resample",
        "resample(x, taps, /): each result is a weighted sum of elements; taps are (elements, weights, counts) for each of the "
        "last dimensions."),
    kernel<sum_pool>("sum_pool",
                     "sum_pool(x, kernel, stride, padding, include_pad, divisor, out_size, /): the sum of each "
                     "window, over the divisor; 0: over its number of elements."),
    kernel<sum_pool_backward>("sum_pool_backward",
                              "sum_pool_backward(g, size, kernel, stride, padding, include_pad, divisor, /)"),
    kernel<value_selecting_reduction_backward>(
        "value_selecting_reduction_backward",
        "value_selecting_reduction_backward(g, indices, shape, n, /): g added at indices of zeros of that shape."),
    kernel<grid_sample>(
        "grid_sample",
        "grid_sample(x, grid, mode, padding_mode, align_corners, /): images read at the points of grids; modes "
        "are numbers, as in grid_sampler."),
    kernel<grid_sample_backward>(
        "grid_sample_backward",
        "grid_sample_backward(g, x, grid, mode, padding_mode, align_corners, needs_x, needs_grid, /) -> (gradient of x or "
        "None, of grid or None)"),
    kernel<ctc_loss>("ctc_loss", "ctc_loss(x, targets, input_lengths, target_lengths, blank, /) -> (loss, alpha)"),
    kernel<ctc_loss_backward>(
        "ctc_loss_backward",
        "ctc_loss_backward(g, x, targets, loss, alpha, input_lengths, target_lengths, blank, zero_infinity, /)"),
    kernel<attention>("attention",
                      "attention(query, key, value, mask, scale, is_causal, p, seed, offset, /) -> (out, logsumexp)"),
    kernel<attention_backward>(
        "attention_backward",
        "attention_backward(g, out, logsumexp, query, key, value, mask, scale, is_causal, p, seed, offset, /) -> (g_query, "
        "g_key, g_value)"),
    kernel<rnn_layer>("rnn_layer", "rnn_layer(kind, x, h, c, w_hh, b_hh, w_hr, sizes, reverse, /) -> (out, cells, gates)"),
    kernel<rnn_layer_backward>(
        "rnn_layer_backward",
        "rnn_layer_backward(kind, g_out, g_cells, h, c, w_hh, w_hr, out, cells, gates, sizes, reverse, /)"),
    kernel<cosine_similarity>(
        "cosine_similarity",
        "cosine_similarity(x, y, eps, is_added, /) -> (cosines, x_norm, y_norm): of rows; eps is the smallest norm, or added "
        "to its square."),
    kernel<cosine_similarity_backward>(
        "cosine_similarity_backward",
        "cosine_similarity_backward(g, x, y, cosines, x_norm, y_norm, eps, is_added, /) -> (gx, gy)"),
    kernel<layer_norm>("layer_norm", "layer_norm(x, weight, bias, n, groups, eps, centred, /) -> (out, mean, rstd)"),
    kernel<layer_norm_backward>(
        "layer_norm_backward",
        "layer_norm_backward(g, x, weight, mean, rstd, n, groups, centred, needs_x, needs_weights, /) -> (gx, gw, gb)"),
    kernel<batch_norm>("batch_norm", "batch_norm(x, weight, bias, eps, /) -> (out, mean, variance)"),
    kernel<batch_norm_backward>("batch_norm_backward",
                                "batch_norm_backward(g, x, weight, mean, variance, eps, needs_x, /) -> (gx, gw, gb)"),
    kernel<flip>("flip", "flip(x, dims, /)"),
    kernel<roll>("roll", "roll(x, shift, dim, /)"),
    kernel<tril_triu>("tril_triu", "tril_triu(x, diagonal, upper, out=None, /): out is None or x itself."),
    kernel<embed>("embed", "embed(x, shape, starts, value, /): x inside an array of one number."),
    kernel<nonzero>("nonzero", "nonzero(x, /): the indices of the nonzero elements, one a row."),
    kernel<unique>("unique", "unique(x, /): the distinct values, sorted."),
    kernel<unique2>("unique2", "unique2(x, dim=None, /) -> (values, inverse, counts), or None."),
    kernel<longest_runs>(
        "longest_runs",
        "longest_runs(x, /): the index (..., 1) at which the first longest run of equal values ends in each row, or None."),
    kernel<unique_consecutive_values>("unique_consecutive_values",
                                      "unique_consecutive_values(x, /): the first value of each run of equal values."),
    kernel<unique_consecutive>(
        "unique_consecutive",
        "unique_consecutive(x, dim=None, /) -> (values, inverse, counts) of runs of equal values, or None."),
    kernel<logsumexp>("logsumexp", "logsumexp(x, dim, keepdim, /)"),
    kernel<dot>("dot", "dot(x, y, /): matmul of two vectors, or None."),
    kernel<bmm>("bmm", "bmm(x, y, /): matmul of two batches of matrices, or None."),
    kernel<adam_>("adam_", "adam_(p, g, m, v, vmax, step, lr, beta1, beta2, eps, weight_decay, decoupled, maximize, /)"),
    kernel<sgd_>("sgd_", "sgd_(p, g, buf, lr, momentum, dampening, weight_decay, nesterov, maximize, first, /)"),
    kernel<adadelta_>("adadelta_",
                      "adadelta_(p, g, square_avg, acc_delta, lr, rho, one_minus_rho, eps, weight_decay, maximize, /)"),
    kernel<adagrad_>("adagrad_", "adagrad_(p, g, sum, lr, eps, weight_decay, maximize, /)"),
    kernel<adamax_>("adamax_",
                    "adamax_(p, g, exp_avg, exp_inf, step_size, one_minus_beta1, beta2, eps, weight_decay, maximize, /)"),
    kernel<asgd_>("asgd_", "asgd_(p, g, ax, eta, mu, shrink, weight_decay, maximize, /)"),
    kernel<nadam_>(
        "nadam_",
        "nadam_(p, g, exp_avg, exp_avg_sq, gradient_size, average_size, one_minus_beta1, beta2, one_minus_beta2, correction, eps, shrink, weight_decay, maximize, /)"),
    kernel<radam_>(
        "radam_",
        "radam_(p, g, exp_avg, exp_avg_sq, step_size, rectification, one_minus_beta1, beta2, one_minus_beta2, eps, shrink, weight_decay, maximize, /)"),
    kernel<rmsprop_>(
        "rmsprop_",
        "rmsprop_(p, g, square_avg, momentum_buffer, grad_avg, lr, alpha, one_minus_alpha, eps, momentum, weight_decay, maximize, /)"),
    kernel<rprop_>("rprop_",
                   "rprop_(p, g, prev, step_size, eta_minus, eta_plus, smallest, largest, weight_decay, maximize, /)"),
    kernel<uniform_>("uniform_", "uniform_(out, seed, offset, low, high, /) -> out"),
    kernel<normal_>("normal_", "normal_(out, seed, offset, mean, std, /) -> out"),
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_compute(PyObject* module) {
  pool_install();
  return PyModule_AddFunctions(module, methods);
}

}  // namespace shmtensor
