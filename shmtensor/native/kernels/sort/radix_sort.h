// One long row by all threads: sorting, the k-th smallest, the k first.
//
// Rows are contiguous and shorter than 2^32; pieces depend on the row's length alone, so that any
// number of threads finds the same. Of equal elements the first one comes first, whatever the
// direction.
#pragma once

#include <cstdint>

namespace shmtensor {

constexpr int64_t kLongRow = 32768;  // from here on the threads of one row are worth it

// Bytes of scratch that radix_sort needs for n elements of such a size.
int64_t radix_scratch(int64_t n, int64_t itemsize);

// `type` is NumPy's number of a real type that with_type knows.
void radix_sort(int type, const void* x, int64_t n, bool descending, void* scratch, void* values,
                int64_t* places);

// Where the element is that k others come before.
int64_t radix_rank(int type, const void* x, int64_t n, int64_t k);

// Where the k first ones are, in order; k is at most kMostFirst.
constexpr int64_t kMostFirst = 2048;
void radix_first(int type, const void* x, int64_t n, int64_t k, bool descending, int64_t* places);

}  // namespace shmtensor
