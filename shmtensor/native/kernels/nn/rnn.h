// One direction of a recurrent layer over all steps of a packed batch, and backpropagation through time.
#pragma once

#include "python.h"

namespace shmtensor {

// (kind, x, h, c, w_hh, b_hh, w_hr, sizes, reverse) -> (out, cells, gates)
PyObject* rnn_layer(PyObject*, PyObject* const* args, Py_ssize_t n);
// (kind, g_out, g_cells, h, c, w_hh, w_hr, out, cells, gates, sizes, reverse) ->
// (grad_x, grad_h_product, grad_h, grad_c, grad_h_steps)
PyObject* rnn_layer_backward(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
