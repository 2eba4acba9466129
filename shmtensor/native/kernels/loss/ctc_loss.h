// Connectionist temporal classification: the sum over all alignments, and its gradient.
#pragma once

#include "python.h"

namespace shmtensor {

// (x, targets, input_lengths, target_lengths, blank) -> (loss, alpha)
PyObject* ctc_loss(PyObject*, PyObject* const* args, Py_ssize_t n);
// (g, x, targets, loss, alpha, input_lengths, target_lengths, blank, zero_infinity)
PyObject* ctc_loss_backward(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
