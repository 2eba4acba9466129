// The functions of kernels/ that Python calls, by source file; bind.cc has their table, with the arguments.
//
// Most return None, and some False, for dtypes, layouts and arguments without a kernel, wrong ones among them: the caller
// computes those without the kernel, or raises.
#pragma once

#include <new>

#include "methods.h"

namespace shmtensor {

struct Activation;  // simd/kernel_table.h

// What Python calls for a kernel, which allocates temporary memory in C++ (std::vector, Buffer): without memory, MemoryError.
template <FastFunction* function>
PyObject* with_memory_error(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  try {
    return function(self, args, n);
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
}

// Does Python call this kernel by that object?
template <FastFunction* function>
bool is_kernel(PyObject* object) {
  return PyCFunction_CheckExact(object) &&
         PyCFunction_GET_FUNCTION(object) ==
             reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(with_memory_error<function>));
}

using Kernel = FastFunction;
using UnaryKernel = PyObject*(PyObject*, PyObject* x);

// crc32.cc
Kernel crc32;
// hash_slots.cc
Kernel hash_slots;
// index/gather.cc
Kernel gather, take;
// index/scatter.cc
Kernel scatter, index_add, add_at;
// linalg/cdist.cc
Kernel cdist, pdist;
// linalg/cross_combinations.cc
Kernel cross, combinations;
// linalg/lapack.cc
UnaryKernel lu_factor;
Kernel ldl_factor, ldl_solve;
// linalg/matmul.cc
Kernel matmul, linear;
// loss/accuracy.cc
Kernel count_correct, count_equal;
// loss/ctc_loss.cc
Kernel ctc_loss, ctc_loss_backward;
// loss/nll_loss.cc
Kernel nll_loss, nll_loss_backward;
// loss/pointwise_loss.cc
Kernel pointwise_loss, pointwise_loss_backward;
// loss/softmax_cross_entropy.cc
Kernel softmax, log_softmax, softmax_backward, log_softmax_backward, cross_entropy, cross_entropy_backward;
// nn/attention.cc
Kernel attention, attention_backward;
// nn/batch_norm.cc
Kernel batch_norm, batch_norm_backward;
// nn/grid_sample.cc
Kernel grid_sample, grid_sample_backward;
// nn/cosine_similarity.cc
Kernel cosine_similarity, cosine_similarity_backward;
// nn/layer_norm.cc
Kernel layer_norm, layer_norm_backward;
// nn/pooling.cc
Kernel max_pool, adaptive_max_pool, fractional_max_pool, value_selecting_reduction_backward;
// nn/resample.cc
Kernel resample, sum_pool, sum_pool_backward;
// nn/rnn.cc
Kernel rnn_layer, rnn_layer_backward;
// optim/optimizer_step.cc
Kernel adam_, sgd_, adadelta_, adagrad_, adamax_, asgd_, nadam_, radam_, rmsprop_, rprop_;
// pointwise/clamp_addcmul_lerp_cast.cc
UnaryKernel cube, rsqrt;
Kernel clamp, nan_to_num, add_alpha, masked_scale, addcmul, addcdiv, lerp, cast;
// pointwise/relu_sigmoid_gelu.cc
UnaryKernel relu, sigmoid;
Kernel gelu, relu_backward, sigmoid_backward, tanh_backward, gelu_backward, dropout;
// pointwise/silu_elu_shrink.cc
UnaryKernel activation;
Kernel glu, glu_backward, activation_backward;
const Activation* activation_of(PyObject* kernel);  // of a function that `activation` made, else nullptr
// pointwise/where.cc
Kernel where;
// random/multinomial.cc
Kernel multinomial, multinomial_without_replacement;
// random/poisson_binomial.cc
Kernel poisson, binomial;
// random/standard_gamma.cc
Kernel standard_gamma, standard_gamma_grad;
// random/uniform_normal.cc
Kernel uniform_, randint, randperm, splitmix64, normal_;
// reduce/cumulative.cc
Kernel cumsum_cumprod, logcumsumexp, cummax_cummin;
// reduce/logsumexp_dot.cc
Kernel logsumexp, dot, bmm;
// reduce/minmax.cc
Kernel minmax, argminmax, minmax_dim;
// reduce/sum.cc
Kernel sum, reduce_into;
// reduce/var.cc
Kernel var, norm;
// shape/cat_stack.cc
Kernel cat, stack_into;
// shape/clone_copy_arange.cc
UnaryKernel clone;
Kernel copy_into, linspace, steps;
// shape/flip_roll_tril.cc
Kernel flip, roll, tril_triu, embed;
// shape/sample_rows.cc
Kernel copy_to_rows;
// sort/searchsorted_bincount.cc
Kernel searchsorted, histogram, bincount;
// sort/sort_topk.cc
Kernel sort, topk, kthvalue;
// sort/unique.cc
Kernel unique, unique2, unique_consecutive_values, unique_consecutive, longest_runs;

}  // namespace shmtensor
