// Recurrent layers in one direction, all steps of a packed batch, and the gradients back through time.
#pragma once

#include "python.h"

namespace shmtensor {

// (kind, x, h, c, w_hh, b_hh, w_hr, sizes, reverse) -> (out, cells, gates)
PyObject* rnn_layer(PyObject*, PyObject* const* args, Py_ssize_t n);
// (kind, g_out, g_cells, h, c, w_hh, w_hr, out, cells, gates, sizes, reverse) -> (by_x, by_back, by_h,
// by_c, totals)
PyObject* rnn_layer_backward(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
