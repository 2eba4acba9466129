// Poisson and binomial random numbers.
#pragma once

#include "python.h"

namespace shmtensor {

// (rates, seed, offset): a count for each rate, in the rates' shape and dtype (float32 or float64); element e draws from
// the counters offset + e.
PyObject* poisson(PyObject*, PyObject* const* args, Py_ssize_t n);
// (counts, chances, seed, offset): the number of successes in trials, for counts and chances of one shape and dtype.
PyObject* binomial(PyObject*, PyObject* const* args, Py_ssize_t n);

}  // namespace shmtensor
