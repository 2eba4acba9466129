// The Python face of compute/.
#include "array.h"
#include "blas.h"
#include "choice.h"
#include "classes.h"
#include "convolution.h"
#include "ctc.h"
#include "curves.h"
#include "distance.h"
#include "drawing.h"
#include "extreme.h"
#include "folding.h"
#include "fused.h"
#include "isa.h"
#include "joining.h"
#include "loops.h"
#include "matmul.h"
#include "measures.h"
#include "moving.h"
#include "neighbours.h"
#include "norms.h"
#include "optimizer.h"
#include "order.h"
#include "packing.h"
#include "picking.h"
#include "places.h"
#include "pointwise.h"
#include "pool.h"
#include "pooling.h"
#include "products.h"
#include "python.h"
#include "random.h"
#include "recurrent.h"
#include "reduction.h"
#include "scan.h"
#include "seeking.h"
#include "softmax.h"
#include "tally.h"
#include "turning.h"
#include "ufunc.h"
#include "unique.h"
#include "variance.h"

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
     "set_num_threads(n): threads of the pool, the caller included."},
    {"get_num_threads", get_num_threads, METH_NOARGS, "get_num_threads() -> int"},
    {"share_threads", share_threads, METH_O,
     "share_threads(n): this process is one of n that work at once; it takes its share of the CPUs, "
     "unless SHMTENSOR_NUM_THREADS or OMP_NUM_THREADS says how many threads."},
    {"isa", isa, METH_NOARGS,
     "isa() -> str: instruction-set level of the kernels: base, v3 or v4."},
    {"blas", blas, METH_NOARGS, "blas() -> str: the BLAS kernels in use; loads the library."},
    {"parallel", parallel, METH_VARARGS,
     "parallel(ufunc, refused='', /) -> ufunc: the same loops on the pool, without warnings; arrays "
     "whose dtype.kind is in `refused` are a TypeError."},
    {"elementwise", elementwise, METH_O,
     "elementwise(name): a ufunc of float32 and float64, as `parallel` makes them, of a function "
     "that NumPy has not."},
    {"matmul", fast<matmul>(), METH_FASTCALL,
     "matmul(x, y, out=None, /): matrix product of any ranks."},
    {"linear", fast<linear>(), METH_FASTCALL,
     "linear(input, weight, bias=None, /): input @ weight.T + bias."},
    {"store", fast<store>(), METH_FASTCALL, "store(out, y, /) -> bool: was it done?"},
    {"steps", fast<steps>(), METH_FASTCALL, "steps(start, step, n, type, /)"},
    {"integers", fast<integers>(), METH_FASTCALL,
     "integers(n, seed, offset, low, span, /): whole numbers from [low, low + span)."},
    {"permutation", fast<permutation>(), METH_FASTCALL,
     "permutation(n, seed, offset, /): 0 to n - 1 in random order."},
    {"clamp", fast<clamp>(), METH_FASTCALL, "clamp(x, low, high, out=None, /): bounds may be None."},
    {"finite", fast<finite>(), METH_FASTCALL,
     "finite(x, nan, posinf, neginf, out=None, /): numbers in place of NaN and the infinities."},
    {"addcmul", fast<addcmul>(), METH_FASTCALL,
     "addcmul(x, a, b, value, out=None, /): x + value * a * b."},
    {"addcdiv", fast<addcdiv>(), METH_FASTCALL,
     "addcdiv(x, a, b, value, out=None, /): x + value * a / b."},
    {"lerp", fast<lerp>(), METH_FASTCALL,
     "lerp(x, end, weight, out=None, /): x + weight * (end - x); one weight, or as many."},
    {"rsqrt", rsqrt, METH_O, "rsqrt(x, /): 1 / sqrt(x)."},
    {"distances", fast<distances>(), METH_FASTCALL,
     "distances(x, y, p, /): of each row of x from each row of y."},
    {"pair_distances", fast<pair_distances>(), METH_FASTCALL,
     "pair_distances(x, p, /): of each row of x from each later one."},
    {"cast", fast<cast>(), METH_FASTCALL, "cast(x, type, /): NumPy's number of the type."},
    {"relu", relu, METH_O, "relu(x, /): max(x, 0); NaN stays NaN."},
    {"relu_backward", fast<relu_backward>(), METH_FASTCALL, "relu_backward(g, out, /)"},
    {"sigmoid", sigmoid, METH_O, "sigmoid(x, /): 1 / (1 + exp(-x))."},
    {"sigmoid_backward", fast<sigmoid_backward>(), METH_FASTCALL, "sigmoid_backward(g, out, /)"},
    {"tanh_backward", fast<tanh_backward>(), METH_FASTCALL, "tanh_backward(g, out, /)"},
    {"gelu", fast<gelu>(), METH_FASTCALL,
     "gelu(x, tanh=False, /): x times the normal distribution function."},
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
     "numbers(x, /): 0 for NaN."},
    {"picked", fast<picked>(), METH_FASTCALL,
     "picked(x, target, weight, ignore_index, reduction, /): -weight[c] x[c] for classes c."},
    {"picked_backward", fast<picked_backward>(), METH_FASTCALL,
     "picked_backward(g, target, weight, shape, ignore_index, reduction, /)"},
    {"gated", fast<gated>(), METH_FASTCALL,
     "gated(x, dim, /): the first half along dim times the logistic function of the second."},
    {"gated_backward", fast<gated_backward>(), METH_FASTCALL, "gated_backward(g, x, dim, /)"},
    {"curve_backward", fast<curve_backward>(), METH_FASTCALL,
     "curve_backward(g, x, name, a, b, c, /): g times the slope of an activation at x."},
    {"measure", fast<measure>(), METH_FASTCALL,
     "measure(x, y, name, reduction, a, b, /): losses of two numbers, their mean or sum."},
    {"measure_backward", fast<measure_backward>(), METH_FASTCALL,
     "measure_backward(g, x, y, name, side, reduction, a, b, /): the gradient of x or y."},
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
    {"product", fast<product>(), METH_FASTCALL,
     "product(x, dim, keepdim, dtype=None, /): integers and bool give int64; None with a dtype."},
    {"count", fast<count>(), METH_FASTCALL,
     "count(x, dim, keepdim, /): how many elements are not 0."},
    {"reduce_into", fast<reduce_into>(), METH_FASTCALL,
     "reduce_into(out, arrays, op, /): sum, prod, min, max or avg of the arrays, the first one "
     "first."},
    {"cat", fast<cat>(), METH_FASTCALL, "cat(arrays, dim=0, /)"},
    {"stack_into", fast<stack_into>(), METH_FASTCALL,
     "stack_into(out, arrays, /): out[i] = arrays[i]."},
    {"choose", fast<choose>(), METH_FASTCALL, "choose(condition, x, y, /): as numpy.where."},
    {"extreme", fast<extreme>(), METH_FASTCALL, "extreme(x, dim, keepdim, largest, /)"},
    {"extreme_place", fast<extreme_place>(), METH_FASTCALL,
     "extreme_place(x, dim, keepdim, largest, /)"},
    {"extreme_along", fast<extreme_along>(), METH_FASTCALL,
     "extreme_along(x, dim, keepdim, largest, /) -> (values, places)"},
    {"variance", fast<variance>(), METH_FASTCALL,
     "variance(x, dim, correction, keepdim, root, /): root takes the square root."},
    {"norm", fast<norm>(), METH_FASTCALL,
     "norm(x, dim, keepdim, power, /): the sum of |x| (1), or the root of that of squares (2)."},
    {"gather", fast<gather>(), METH_FASTCALL, "gather(x, index, dim, /)"},
    {"take", fast<take>(), METH_FASTCALL, "take(x, index, dim, /): slices at a vector of indices."},
    {"scatter_into", fast<scatter_into>(), METH_FASTCALL,
     "scatter_into(out, source, index, dim, how, base=None, /) -> bool: was it done? how: 0 put, 1 add, "
     "2 multiply, 3 the larger one, 4 the smaller one. out becomes base first, and without it is as it was where the answer is False."},
    {"add_slices", fast<add_slices>(), METH_FASTCALL,
     "add_slices(out, source, index, dim, base=None, how=1, /) -> bool: was it done?"},
    {"cross", fast<cross>(), METH_FASTCALL, "cross(x, y, dim, /): vector products, or None."},
    {"combinations", fast<combinations>(), METH_FASTCALL,
     "combinations(n, r, again, /): places of r out of n elements, a row each."},
    {"bars", fast<bars>(), METH_FASTCALL, "bars(x, edges, /): how many lie between each two, or None."},
    {"line", fast<line>(), METH_FASTCALL, "line(start, end, step, n, type, /): numbers at even distances, or None."},
    {"add_scaled", fast<add_scaled>(), METH_FASTCALL, "add_scaled(x, y, value, out=None, /): x + value * y"},
    {"cube", cube, METH_O, "cube(x, /): x * x * x"},
    {"keep", fast<keep>(), METH_FASTCALL, "keep(x, mask, scale, /): x * scale where the mask holds, else 0."},
    {"drawn", fast<drawn>(), METH_FASTCALL,
     "drawn(weights, u, /): a place in each row for each of its uniform numbers, or None where weights are wrong."},
    {"waited", fast<waited>(), METH_FASTCALL,
     "waited(weights, u, k, /) -> bool: u becomes the times after which each is drawn; are k weights of each row above 0?"},
    {"rows_at", fast<rows_at>(), METH_FASTCALL,
     "rows_at(x, index, /): the numbers of the slices x[index] among those of its first dimensions, or None."},
    {"add_at", fast<add_at>(), METH_FASTCALL, "add_at(out, places, values, /) -> bool: was it done?"},
    {"sort", fast<sort>(), METH_FASTCALL, "sort(x, dim, descending, /) -> (values, places)"},
    {"topk", fast<topk>(), METH_FASTCALL, "topk(x, k, dim, largest, /) -> (values, places)"},
    {"rank", fast<rank>(), METH_FASTCALL,
     "rank(x, k, dim, /) -> (values, places): k = -1 the median, -2 that of the numbers."},
    {"running", fast<running>(), METH_FASTCALL,
     "running(x, dim, product, /): running sum or product."},
    {"running_log_sum", fast<running_log_sum>(), METH_FASTCALL,
     "running_log_sum(x, dim, /): the logarithm of the running sum of exp(x)."},
    {"running_extreme", fast<running_extreme>(), METH_FASTCALL,
     "running_extreme(x, dim, largest, /) -> (values, places)"},
    {"sought", fast<sought>(), METH_FASTCALL,
     "sought(sequence, x, sorter, side, /): where x belongs in sorted rows, or None."},
    {"occurrences", fast<occurrences>(), METH_FASTCALL,
     "occurrences(x, weights, least, /): how often 0, 1, ... occur, or None."},
    {"packed", fast<packed>(), METH_FASTCALL, "packed(x, /): a copy in C order."},
    {"stack", fast<stack>(), METH_FASTCALL, "stack(arrays, dim, /)"},
    {"convolved", fast<convolved>(), METH_FASTCALL,
     "convolved(x, weight, bias, stride, padding, dilation, groups, /)"},
    {"unconvolved", fast<unconvolved>(), METH_FASTCALL,
     "unconvolved(y, weight, size, stride, padding, dilation, groups, /)"},
    {"filters", fast<filters>(), METH_FASTCALL,
     "filters(x, y, kernel, stride, padding, dilation, groups, /)"},
    {"max_pooled", fast<max_pooled>(), METH_FASTCALL,
     "max_pooled(x, kernel, stride, padding, dilation, fit, /) -> (values, indices)"},
    {"window_sums", fast<window_sums>(), METH_FASTCALL,
     "window_sums(x, kernel, stride, padding, fit, /)"},
    {"spread_sums", fast<spread_sums>(), METH_FASTCALL,
     "spread_sums(x, size, kernel, stride, padding, /)"},
    {"placed", fast<placed>(), METH_FASTCALL, "placed(g, indices, shape, n, /): added at indices."},
    {"weighed", fast<weighed>(), METH_FASTCALL,
     "weighed(x, weights, places, /): each result is a few elements, weighted."},
    {"dealt", fast<dealt>(), METH_FASTCALL, "dealt(g, weights, places, size, /): its transpose."},
    {"matched", fast<matched>(), METH_FASTCALL,
     "matched(g, x, places, /): the gradient of its weights."},
    {"neighbours", fast<neighbours>(), METH_FASTCALL, "neighbours(x, sizes, reach, frame, /)"},
    {"ctc", fast<ctc>(), METH_FASTCALL,
     "ctc(x, targets, input_lengths, target_lengths, blank, /) -> (loss, alpha)"},
    {"ctc_slope", fast<ctc_slope>(), METH_FASTCALL,
     "ctc_slope(g, x, targets, loss, alpha, input_lengths, target_lengths, blank, zero_infinity, /)"},
    {"recurrent", fast<recurrent>(), METH_FASTCALL,
     "recurrent(kind, x, h, c, w_hh, b_hh, w_hr, sizes, reverse, /) -> (out, cells, gates)"},
    {"recurrent_slope", fast<recurrent_slope>(), METH_FASTCALL,
     "recurrent_slope(kind, g_out, g_cells, h, c, w_hh, w_hr, out, cells, gates, sizes, reverse, /)"},
    {"normed", fast<normed>(), METH_FASTCALL,
     "normed(x, weight, bias, n, groups, eps, centred, /) -> (out, mean, rstd)"},
    {"normed_slope", fast<normed_slope>(), METH_FASTCALL,
     "normed_slope(g, x, weight, mean, rstd, n, groups, centred, /) -> (gx, gw, gb)"},
    {"batch_normed", fast<batch_normed>(), METH_FASTCALL,
     "batch_normed(x, weight, bias, eps, /) -> (out, mean, variance)"},
    {"batch_normed_slope", fast<batch_normed_slope>(), METH_FASTCALL,
     "batch_normed_slope(g, x, weight, mean, variance, eps, /) -> (gx, gw, gb)"},
    {"triangle", fast<triangle>(), METH_FASTCALL, "triangle(x, diagonal, upper, out=None, /): out is x itself."},
    {"nonzero", fast<nonzero>(), METH_FASTCALL, "nonzero(x, /): a row of indices each."},
    {"distinct", fast<distinct>(), METH_FASTCALL, "distinct(x, /): the different values, in order."},
    {"unique_values", fast<unique_values>(), METH_FASTCALL,
     "unique_values(x, dim=None, /) -> (values, inverse, counts), or None."},
    {"longest_runs", fast<longest_runs>(), METH_FASTCALL,
     "longest_runs(x, /): where in each row, (..., 1), the first of the longest runs of equal values ends, or None."},
    {"run_values", fast<run_values>(), METH_FASTCALL, "run_values(x, /): the first values of runs of equal ones."},
    {"unique_runs", fast<unique_runs>(), METH_FASTCALL,
     "unique_runs(x, dim=None, /) -> (values, inverse, counts) of runs of equal ones, or None."},
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
