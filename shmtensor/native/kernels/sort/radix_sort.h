// One long row on all threads: sort, kth smallest element, topk.
//
// Rows are contiguous and shorter than 2^32. Pieces depend on the row's length alone, so results do not depend on the
// number of threads. Sorting is stable in both directions.
#pragma once

#include <cstdint>

namespace shmtensor {

constexpr int64_t kLongRow = 32768;  // elements of a row from which on threads pay

// Bytes of scratch memory that radix_sort needs for n elements of this size.
int64_t radix_scratch(int64_t n, int64_t itemsize);

// `type` is the type number of a real dtype that with_type supports.
void radix_sort(int type, const void* x, int64_t n, bool descending, void* scratch, void* values, int64_t* indices);

// The index of the element with rank k, counted from 0.
int64_t radix_kth(int type, const void* x, int64_t n, int64_t k);

// The indices of the first k elements in order; k is at most kMostFirst.
constexpr int64_t kMostFirst = 2048;
void radix_topk(int type, const void* x, int64_t n, int64_t k, bool descending, int64_t* indices);

}  // namespace shmtensor
