// The Python bindings of kernels/.
#include "kernels/arguments.h"
#include "kernels/linalg/openblas.h"
#include "kernels/functions.h"
#include "kernels/nn/convolution.h"
#include "simd/cpu_capability.h"
#include "ufunc/loops.h"
#include "kernels/shape/contiguous.h"
#include "kernels/index/advanced_getitem.h"
#include "threading/thread_pool.h"
#include "python.h"
#include "kernels/reduce/prod_count.h"
#include "ufunc/parallel_ufunc.h"

namespace shmtensor {
namespace {

PyObject* get_num_threads(PyObject*, PyObject*) { return PyLong_FromLong(pool_threads()); }

PyObject* set_num_threads(PyObject*, PyObject* argument) {
  long n = PyLong_AsLong(argument);
  if (n == -1 && PyErr_Occurred()) return nullptr;
  if (n < 1 || n > 1'000'000)
    return raise("ValueError", "set_num_threads: expected at least 1: %ld", n);
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

PyObject* isa(PyObject*, PyObject*) { return PyUnicode_FromString(isa_name()); }
PyObject* blas(PyObject*, PyObject*) {
  return blas_ensure() ? PyUnicode_FromString(blas_core()) : nullptr;
}

template <PyObject* (*F)(PyObject*, PyObject* const*, Py_ssize_t)>
PyCFunction fast() {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(F));
}

PyMethodDef methods[] = {
    {"set_num_threads", set_num_threads, METH_O,
     "set_num_threads(n): number of threads of the pool, the caller included."},
    {"get_num_threads", get_num_threads, METH_NOARGS, "get_num_threads() -> int"},
    {"share_threads", share_threads, METH_O,
     "share_threads(n): this process is one of n that compute at once and uses 1/n of the CPUs, "
     "unless SHMTENSOR_NUM_THREADS or OMP_NUM_THREADS sets the number of threads."},
    {"isa", isa, METH_NOARGS,
     "isa() -> str: instruction-set level of the kernels: generic, avx2 or avx512."},
    {"hash_slots", fast<hash_slots>(), METH_FASTCALL,
     "hash_slots(table, hashes, weights, is_set, limit, /): puts hashes in a table of int64 (-1: free), as CPython's\n"
     "dicts and sets do; what the full slots visited count, more than the limit if it ends early."},
    {"crc32", fast<crc32>(), METH_FASTCALL,
     "crc32(data, value, /): as zlib.crc32, at the speed of memory; None where the CPU lacks PCLMULQDQ."},
    {"blas", blas, METH_NOARGS, "blas() -> str: the BLAS kernels in use; loads the library."},
    {"parallel", parallel, METH_VARARGS,
     "parallel(ufunc, refused='', /) -> ufunc: the same loops on the thread pool, without warnings; arrays "
     "whose dtype.kind is in `refused` raise TypeError."},
    {"elementwise", elementwise, METH_O,
     "elementwise(name): a ufunc of float32 and float64, as `parallel` makes them, of a function "
     "that NumPy lacks."},
    {"matmul", fast<matmul>(), METH_FASTCALL,
     "matmul(x, y, out=None, /): matrix product of any ranks."},
    {"linear", fast<linear>(), METH_FASTCALL,
     "linear(input, weight, bias=None, /): input @ weight.T + bias."},
    {"lu_factor", lu_factor, METH_O, "lu_factor(x, /) -> (LU, pivots, info), as LAPACK's getrf."},
    {"ldl_factor", fast<ldl_factor>(), METH_FASTCALL,
     "ldl_factor(x, hermitian, /) -> (LD, pivots, info), as LAPACK's sytrf and hetrf."},
    {"ldl_solve", fast<ldl_solve>(), METH_FASTCALL,
     "ldl_solve(LD, pivots, b, hermitian, /): x with a @ x = b."},
    {"clone", clone, METH_O, "clone(x, /): a copy with x's order of axes in memory."},
    {"copy_into", fast<copy_into>(), METH_FASTCALL, "copy_into(out, y, /) -> bool: False if there is no kernel for it."},
    {"steps", fast<steps>(), METH_FASTCALL, "steps(start, step, n, type, /): start + i * step; type is NumPy's type number."},
    {"randint", fast<randint>(), METH_FASTCALL,
     "randint(n, seed, offset, low, span, /): integers in [low, low + span)."},
    {"randperm", fast<randperm>(), METH_FASTCALL,
     "randperm(n, seed, offset, /): 0 to n - 1 in random order."},
    {"splitmix64", fast<splitmix64>(), METH_FASTCALL,
     "splitmix64(out, start, /): fills out with SplitMix64's words."},
    {"clamp", fast<clamp>(), METH_FASTCALL, "clamp(x, low, high, out=None, /): bounds may be None."},
    {"nan_to_num", fast<nan_to_num>(), METH_FASTCALL,
     "nan_to_num(x, nan, posinf, neginf, out=None, /): numbers in place of NaN and the infinities."},
    {"addcmul", fast<addcmul>(), METH_FASTCALL,
     "addcmul(x, a, b, value, out=None, /): x + value * a * b."},
    {"addcdiv", fast<addcdiv>(), METH_FASTCALL,
     "addcdiv(x, a, b, value, out=None, /): x + value * a / b."},
    {"lerp", fast<lerp>(), METH_FASTCALL,
     "lerp(x, end, weight, out=None, /): x + weight * (end - x); weight is a number or an array of x's shape."},
    {"rsqrt", rsqrt, METH_O, "rsqrt(x, /): 1 / sqrt(x)."},
    {"cdist", fast<cdist>(), METH_FASTCALL,
     "cdist(x, y, p, /): p-norm distance of each row of x from each row of y."},
    {"pdist", fast<pdist>(), METH_FASTCALL,
     "pdist(x, p, /): p-norm distance of each row of x from each later row."},
    {"cast", fast<cast>(), METH_FASTCALL, "cast(x, type, /): x in another dtype; type is NumPy's type number."},
    {"relu", relu, METH_O, "relu(x, /): max(x, 0); NaN stays NaN."},
    {"relu_backward", fast<relu_backward>(), METH_FASTCALL, "relu_backward(g, out, /)"},
    {"sigmoid", sigmoid, METH_O, "sigmoid(x, /): 1 / (1 + exp(-x))."},
    {"sigmoid_backward", fast<sigmoid_backward>(), METH_FASTCALL, "sigmoid_backward(g, out, /)"},
    {"tanh_backward", fast<tanh_backward>(), METH_FASTCALL, "tanh_backward(g, out, /)"},
    {"gelu", fast<gelu>(), METH_FASTCALL,
     "gelu(x, tanh=False, /): x times the normal cumulative distribution function."},
    {"gelu_backward", fast<gelu_backward>(), METH_FASTCALL, "gelu_backward(g, x, tanh=False, /)"},
    {"silu", fast<silu>(), METH_FASTCALL,
     "silu(x, /): x / (1 + exp(-x))."},
    {"softplus", fast<softplus>(), METH_FASTCALL,
     "softplus(x, beta, threshold, /): log(1 + exp(beta x)) / beta."},
    {"logsigmoid", fast<logsigmoid>(), METH_FASTCALL,
     "logsigmoid(x, /): -log(1 + exp(-x))."},
    {"mish", fast<mish>(), METH_FASTCALL,
     "mish(x, /): x tanh(log(1 + exp(x)))."},
    {"leaky_relu", fast<leaky_relu>(), METH_FASTCALL,
     "leaky_relu(x, slope, /)"},
    {"elu", fast<elu>(), METH_FASTCALL,
     "elu(x, alpha, scale, input_scale, /)"},
    {"hardtanh", fast<hardtanh>(), METH_FASTCALL,
     "hardtanh(x, low, high, /)"},
    {"hardsigmoid", fast<hardsigmoid>(), METH_FASTCALL,
     "hardsigmoid(x, /)"},
    {"hardswish", fast<hardswish>(), METH_FASTCALL,
     "hardswish(x, /)"},
    {"hardshrink", fast<hardshrink>(), METH_FASTCALL,
     "hardshrink(x, lambd, /)"},
    {"softshrink", fast<softshrink>(), METH_FASTCALL,
     "softshrink(x, lambd, /)"},
    {"threshold", fast<threshold>(), METH_FASTCALL,
     "threshold(x, limit, value, /)"},
    {"numbers", fast<numbers>(), METH_FASTCALL,
     "numbers(x, /): x with NaN replaced by 0."},
    {"nll_loss", fast<nll_loss>(), METH_FASTCALL,
     "nll_loss(x, target, weight, ignore_index, reduction, /): -weight[c] x[c] for classes c."},
    {"nll_loss_backward", fast<nll_loss_backward>(), METH_FASTCALL,
     "nll_loss_backward(g, target, weight, shape, ignore_index, reduction, /)"},
    {"glu", fast<glu>(), METH_FASTCALL,
     "glu(x, dim, /): the first half along dim times the sigmoid of the second."},
    {"glu_backward", fast<glu_backward>(), METH_FASTCALL, "glu_backward(g, x, dim, /)"},
    {"activation_backward", fast<activation_backward>(), METH_FASTCALL,
     "activation_backward(g, x, name, a, b, c, /): g times the derivative of an activation at x."},
    {"pointwise_loss", fast<pointwise_loss>(), METH_FASTCALL,
     "pointwise_loss(x, y, name, reduction, a, b, /): the losses of each pair of elements, their mean or their sum."},
    {"pointwise_loss_backward", fast<pointwise_loss_backward>(), METH_FASTCALL,
     "pointwise_loss_backward(g, x, y, name, side, reduction, a, b, /): the gradient of x or y."},
    {"dropout", fast<dropout>(), METH_FASTCALL, "dropout(x, p, seed, offset, /) -> (out, mask)"},
    {"softmax", fast<softmax>(), METH_FASTCALL, "softmax(x, dim, /)"},
    {"log_softmax", fast<log_softmax>(), METH_FASTCALL, "log_softmax(x, dim, /)"},
    {"softmax_backward", fast<softmax_backward>(), METH_FASTCALL,
     "softmax_backward(g, out, dim, /)"},
    {"log_softmax_backward", fast<log_softmax_backward>(), METH_FASTCALL,
     "log_softmax_backward(g, out, dim, /)"},
    {"cross_entropy", fast<cross_entropy>(), METH_FASTCALL,
     "cross_entropy(logits, target, ignore_index, reduction, /) -> (loss, probabilities)"},
    {"cross_entropy_backward", fast<cross_entropy_backward>(), METH_FASTCALL,
     "cross_entropy_backward(g, probabilities, target, ignore_index, reduction, /)"},
    {"sum", fast<sum>(), METH_FASTCALL,
     "sum(x, dim=None, keepdim=False, /); integers and bool give int64."},
    {"prod", fast<prod>(), METH_FASTCALL,
     "prod(x, dim, keepdim, dtype=None, /): integers and bool give int64; None with a dtype."},
    {"count", fast<count>(), METH_FASTCALL,
     "count(x, dim, keepdim, /): the number of nonzero elements."},
    {"reduce_into", fast<reduce_into>(), METH_FASTCALL,
     "reduce_into(out, arrays, op, /): out becomes the sum, prod, min, max or avg of the arrays, in their "
     "order."},
    {"cat", fast<cat>(), METH_FASTCALL, "cat(arrays, dim=0, /)"},
    {"stack_into", fast<stack_into>(), METH_FASTCALL,
     "stack_into(out, arrays, /): out[i] = arrays[i]."},
    {"copy_to_rows", fast<copy_to_rows>(), METH_FASTCALL,
     "copy_to_rows(sample, fields, i, /): the sample with each array that nothing else refers to replaced by\n"
     "row i of an array of `fields`, a list of (key, array), with a copy."},
    {"where", fast<where>(), METH_FASTCALL, "where(condition, x, y, /): as numpy.where."},
    {"minmax", fast<minmax>(), METH_FASTCALL, "minmax(x, dim, keepdim, largest, /)"},
    {"argminmax", fast<argminmax>(), METH_FASTCALL,
     "argminmax(x, dim, keepdim, largest, /)"},
    {"minmax_dim", fast<minmax_dim>(), METH_FASTCALL,
     "minmax_dim(x, dim, keepdim, largest, /) -> (values, indices)"},
    {"var", fast<var>(), METH_FASTCALL,
     "var(x, dim, correction, keepdim, root, /): root takes the square root."},
    {"norm", fast<norm>(), METH_FASTCALL,
     "norm(x, dim, keepdim, power, /): the sum of |x| (power 1), or the root of the sum of x^2 (power 2)."},
    {"gather", fast<gather>(), METH_FASTCALL, "gather(x, index, dim, /)"},
    {"take", fast<take>(), METH_FASTCALL, "take(x, index, dim, /): slices at a vector of indices."},
    {"scatter", fast<scatter>(), METH_FASTCALL,
     "scatter(out, source, index, dim, reduce, base=None, /) -> bool: False if there is no kernel for it or an index is "
     "out of range. reduce: 0 assign, 1 add, 2 multiply, 3 maximum, 4 minimum. With base, out is first overwritten by "
     "base; without it, out is unchanged if the result is False."},
    {"index_add", fast<index_add>(), METH_FASTCALL,
     "index_add(out, source, index, dim, base=None, reduce=1, /) -> bool: False if there is no kernel for it."},
    {"cross", fast<cross>(), METH_FASTCALL, "cross(x, y, dim, /): vector products, or None."},
    {"combinations", fast<combinations>(), METH_FASTCALL,
     "combinations(n, r, with_replacement, /): indices of r out of n elements, one combination a row."},
    {"histogram", fast<histogram>(), METH_FASTCALL, "histogram(x, edges, /): the number of elements in each bin, or None."},
    {"linspace", fast<linspace>(), METH_FASTCALL, "linspace(start, end, step, n, type, /): n evenly spaced numbers, or None."},
    {"add_alpha", fast<add_alpha>(), METH_FASTCALL, "add_alpha(x, y, value, out=None, /): x + value * y"},
    {"cube", cube, METH_O, "cube(x, /): x * x * x"},
    {"masked_scale", fast<masked_scale>(), METH_FASTCALL, "masked_scale(x, mask, scale, /): x * scale where mask is true, else 0."},
    {"multinomial", fast<multinomial>(), METH_FASTCALL,
     "multinomial(weights, u, /): an index into the row for each of its uniform numbers, or None if weights are invalid."},
    {"multinomial_without_replacement", fast<multinomial_without_replacement>(), METH_FASTCALL,
     "multinomial_without_replacement(weights, u, k, /) -> bool: u becomes the time at which each element is drawn; "
     "False if a row has fewer than k positive weights."},
    {"poisson", fast<poisson>(), METH_FASTCALL, "poisson(rates, seed, offset, /): a Poisson number for each rate."},
    {"binomial", fast<binomial>(), METH_FASTCALL,
     "binomial(counts, chances, seed, offset, /): the number of successes in each count of trials."},
    {"take_rows", fast<take_rows>(), METH_FASTCALL,
     "take_rows(x, index, /): the flat indices of the slices x[index] over the leading dimensions, or None."},
    {"private_index", private_index, METH_O,
     "private_index(index, /): the index of x[index] with copies of its arrays; each byte of a mask that is not 0 becomes 1."},
    {"add_at", fast<add_at>(), METH_FASTCALL, "add_at(out, indices, values, /) -> bool: False if there is no kernel for it."},
    {"sort", fast<sort>(), METH_FASTCALL, "sort(x, dim, descending, /) -> (values, indices)"},
    {"topk", fast<topk>(), METH_FASTCALL, "topk(x, k, dim, largest, /) -> (values, indices)"},
    {"kthvalue", fast<kthvalue>(), METH_FASTCALL,
     "kthvalue(x, k, dim, /) -> (values, indices): k = -1 is the median, -2 the nanmedian."},
    {"cumsum_cumprod", fast<cumsum_cumprod>(), METH_FASTCALL,
     "cumsum_cumprod(x, dim, product, /): cumulative sum or product."},
    {"logcumsumexp", fast<logcumsumexp>(), METH_FASTCALL,
     "logcumsumexp(x, dim, /): the logarithm of the cumulative sum of exp(x)."},
    {"cummax_cummin", fast<cummax_cummin>(), METH_FASTCALL,
     "cummax_cummin(x, dim, largest, /) -> (values, indices)"},
    {"searchsorted", fast<searchsorted>(), METH_FASTCALL,
     "searchsorted(sequence, x, sorter, side, /): insertion indices of x in sorted rows, or None."},
    {"bincount", fast<bincount>(), METH_FASTCALL,
     "bincount(x, weights, minlength, /): the counts of 0, 1, ..., or None."},
    {"contiguous", fast<contiguous>(), METH_FASTCALL, "contiguous(x, /): a copy in C order."},
    {"stack", fast<stack>(), METH_FASTCALL, "stack(arrays, dim, /)"},
    {"convolution", fast<convolution>(), METH_FASTCALL,
     "convolution(x, weight, bias, stride, padding, dilation, groups, /)"},
    {"conv_transpose", fast<conv_transpose>(), METH_FASTCALL,
     "conv_transpose(y, weight, size, stride, padding, dilation, groups, /)"},
    {"convolution_backward_weight", fast<convolution_backward_weight>(), METH_FASTCALL,
     "convolution_backward_weight(x, y, kernel, stride, padding, dilation, groups, /)"},
    {"max_pool", fast<max_pool>(), METH_FASTCALL,
     "max_pool(x, kernel, stride, padding, dilation, out_size, /) -> (values, indices)"},
    {"sum_pool", fast<sum_pool>(), METH_FASTCALL,
     "sum_pool(x, kernel, stride, padding, out_size, /)"},
    {"sum_pool_backward", fast<sum_pool_backward>(), METH_FASTCALL,
     "sum_pool_backward(x, size, kernel, stride, padding, /)"},
    {"value_selecting_reduction_backward", fast<value_selecting_reduction_backward>(), METH_FASTCALL,
     "value_selecting_reduction_backward(g, indices, shape, n, /): g added at indices of zeros of that shape."},
    {"weighted_gather", fast<weighted_gather>(), METH_FASTCALL,
     "weighted_gather(x, weights, indices, /): each result is a weighted sum of a few elements."},
    {"weighted_scatter", fast<weighted_scatter>(), METH_FASTCALL, "weighted_scatter(g, weights, indices, size, /): the transpose of weighted_gather."},
    {"weighted_gather_backward_weights", fast<weighted_gather_backward_weights>(), METH_FASTCALL,
     "weighted_gather_backward_weights(g, x, indices, /): the gradient of weighted_gather's weights."},
    {"sample_indices", fast<sample_indices>(), METH_FASTCALL, "sample_indices(x, sizes, kernel_size, padding_mode, /)"},
    {"ctc_loss", fast<ctc_loss>(), METH_FASTCALL,
     "ctc_loss(x, targets, input_lengths, target_lengths, blank, /) -> (loss, alpha)"},
    {"ctc_loss_backward", fast<ctc_loss_backward>(), METH_FASTCALL,
     "ctc_loss_backward(g, x, targets, loss, alpha, input_lengths, target_lengths, blank, zero_infinity, /)"},
    {"rnn_layer", fast<rnn_layer>(), METH_FASTCALL,
     "rnn_layer(kind, x, h, c, w_hh, b_hh, w_hr, sizes, reverse, /) -> (out, cells, gates)"},
    {"rnn_layer_backward", fast<rnn_layer_backward>(), METH_FASTCALL,
     "rnn_layer_backward(kind, g_out, g_cells, h, c, w_hh, w_hr, out, cells, gates, sizes, reverse, /)"},
    {"layer_norm", fast<layer_norm>(), METH_FASTCALL,
     "layer_norm(x, weight, bias, n, groups, eps, centred, /) -> (out, mean, rstd)"},
    {"layer_norm_backward", fast<layer_norm_backward>(), METH_FASTCALL,
     "layer_norm_backward(g, x, weight, mean, rstd, n, groups, centred, /) -> (gx, gw, gb)"},
    {"batch_norm", fast<batch_norm>(), METH_FASTCALL,
     "batch_norm(x, weight, bias, eps, /) -> (out, mean, variance)"},
    {"batch_norm_backward", fast<batch_norm_backward>(), METH_FASTCALL,
     "batch_norm_backward(g, x, weight, mean, variance, eps, /) -> (gx, gw, gb)"},
    {"flip", fast<flip>(), METH_FASTCALL, "flip(x, dims, /)"},
    {"roll", fast<roll>(), METH_FASTCALL, "roll(x, shift, dim, /)"},
    {"tril_triu", fast<tril_triu>(), METH_FASTCALL, "tril_triu(x, diagonal, upper, out=None, /): out is None or x itself."},
    {"nonzero", fast<nonzero>(), METH_FASTCALL, "nonzero(x, /): the indices of the nonzero elements, one a row."},
    {"unique", fast<unique>(), METH_FASTCALL, "unique(x, /): the distinct values, sorted."},
    {"unique2", fast<unique2>(), METH_FASTCALL,
     "unique2(x, dim=None, /) -> (values, inverse, counts), or None."},
    {"longest_runs", fast<longest_runs>(), METH_FASTCALL,
     "longest_runs(x, /): the index (..., 1) at which the first longest run of equal values ends in each row, or None."},
    {"unique_consecutive_values", fast<unique_consecutive_values>(), METH_FASTCALL, "unique_consecutive_values(x, /): the first value of each run of equal values."},
    {"unique_consecutive", fast<unique_consecutive>(), METH_FASTCALL,
     "unique_consecutive(x, dim=None, /) -> (values, inverse, counts) of runs of equal values, or None."},
    {"logsumexp", fast<logsumexp>(), METH_FASTCALL, "logsumexp(x, dim, keepdim, /)"},
    {"dot", fast<dot>(), METH_FASTCALL, "dot(x, y, /): matmul of two vectors, or None."},
    {"bmm", fast<bmm>(), METH_FASTCALL, "bmm(x, y, /): matmul of two batches of matrices, or None."},
    {"adam_", fast<adam_>(), METH_FASTCALL,
     "adam_(p, g, m, v, vmax, step, lr, beta1, beta2, eps, weight_decay, decoupled, maximize, /)"},
    {"sgd_", fast<sgd_>(), METH_FASTCALL,
     "sgd_(p, g, buf, lr, momentum, dampening, weight_decay, nesterov, maximize, first, /)"},
    {"adadelta_", fast<adadelta_>(), METH_FASTCALL,
     "adadelta_(p, g, square_avg, acc_delta, lr, rho, one_minus_rho, eps, weight_decay, maximize, /)"},
    {"adagrad_", fast<adagrad_>(), METH_FASTCALL,
     "adagrad_(p, g, sum, lr, eps, weight_decay, maximize, /)"},
    {"adamax_", fast<adamax_>(), METH_FASTCALL,
     "adamax_(p, g, exp_avg, exp_inf, step_size, one_minus_beta1, beta2, eps, weight_decay, maximize, /)"},
    {"asgd_", fast<asgd_>(), METH_FASTCALL,
     "asgd_(p, g, ax, eta, mu, shrink, weight_decay, maximize, /)"},
    {"nadam_", fast<nadam_>(), METH_FASTCALL,
     "nadam_(p, g, exp_avg, exp_avg_sq, gradient_size, average_size, one_minus_beta1, beta2, one_minus_beta2, correction, eps, shrink, weight_decay, maximize, /)"},
    {"radam_", fast<radam_>(), METH_FASTCALL,
     "radam_(p, g, exp_avg, exp_avg_sq, step_size, rectification, one_minus_beta1, beta2, one_minus_beta2, eps, shrink, weight_decay, maximize, /)"},
    {"rmsprop_", fast<rmsprop_>(), METH_FASTCALL,
     "rmsprop_(p, g, square_avg, momentum_buffer, grad_avg, lr, alpha, one_minus_alpha, eps, momentum, weight_decay, maximize, /)"},
    {"rprop_", fast<rprop_>(), METH_FASTCALL,
     "rprop_(p, g, prev, step_size, eta_minus, eta_plus, smallest, largest, weight_decay, maximize, /)"},
    {"uniform_", fast<uniform_>(), METH_FASTCALL,
     "uniform_(out, seed, offset, low, high, /) -> out"},
    {"normal_", fast<normal_>(), METH_FASTCALL, "normal_(out, seed, offset, mean, std, /) -> out"},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_compute(PyObject* module) {
  pool_install();
  return PyModule_AddFunctions(module, methods);
}

}  // namespace shmtensor
