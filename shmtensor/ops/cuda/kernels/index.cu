// Rows at indices, and sums at indices that may coincide, by atomics: the order of a sum's terms is not fixed. Sums are of
// acc_t, so that float16 numbers are rounded once, afterwards.
//
// Blocks are (x, y) threads, x a power of 2: threadIdx.x counts the elements of a row, so that loads are coalesced.

__device__ __forceinline__ index_t first_row() { return static_cast<index_t>(blockIdx.y) * blockDim.y + threadIdx.y; }
__device__ __forceinline__ index_t row_step() { return static_cast<index_t>(gridDim.y) * blockDim.y; }
__device__ __forceinline__ index_t first_column() { return static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ __forceinline__ index_t column_step() { return static_cast<index_t>(gridDim.x) * blockDim.x; }

// out[i] = table[index[i]] for rows of `width` elements, or, if `packs`, of width packs of 16 bytes. An index that is not
// there gives NaN: an error would have to wait for the device.
constexpr int kPack = 16 / sizeof(scalar_t);

template <class T>
__device__ __forceinline__ void copy_rows(const T* table, const index_t* index, T* out, index_t n, index_t width,
                                          index_t rows, T missing) {
  for (index_t i = first_row(); i < n; i += row_step()) {
    const index_t at = index[i];
    const bool exists = at >= 0 && at < rows;
    for (index_t k = first_column(); k < width; k += column_step())
      out[i * width + k] = exists ? table[at * width + k] : missing;
  }
}

extern "C" __global__ void embedding(const scalar_t* __restrict__ table, const index_t* __restrict__ index,
                                     scalar_t* __restrict__ out, index_t n, index_t width, index_t rows, int packs) {
  const scalar_t missing = to_scalar(NAN);
  if (!packs) {
    copy_rows(table, index, out, n, width, rows, missing);
    return;
  }
  typedef pack_t<kPack> pack;
  pack many;
  for (int k = 0; k < kPack; k++) many.at[k] = missing;
  copy_rows(reinterpret_cast<const pack*>(table), index, reinterpret_cast<pack*>(out), n, width, rows, many);
}

// out[o, index[j], k] += values[o, j, k] for values (outer, n, inner) and out (outer, size, inner). Indices from -size on
// count from the end if `wrap`. What is not there, and `skipped`, is left out.
extern "C" __global__ void index_add(acc_t* __restrict__ out, const index_t* __restrict__ index,
                                     const scalar_t* __restrict__ values, index_t outer, index_t n, index_t inner,
                                     index_t size, index_t skipped, int wrap) {
  for (index_t r = first_row(); r < outer * n; r += row_step()) {
    const index_t o = r / n;
    index_t at = index[r - o * n];
    if (wrap && at < 0) at += size;
    if (at < 0 || at >= size || at == skipped) continue;
    for (index_t k = first_column(); k < inner; k += column_step())
      atomicAdd(out + (o * size + at) * inner + k, to_acc(values[r * inner + k]));
  }
}

// out[o, index[o, j, k], k] += values[o, j, k] for an index (outer, n, inner) and out (outer, size, inner).
extern "C" __global__ void scatter_add(acc_t* __restrict__ out, const index_t* __restrict__ index,
                                       const scalar_t* __restrict__ values, index_t outer, index_t n, index_t inner,
                                       index_t size) {
  for (index_t r = first_row(); r < outer * n; r += row_step()) {
    const index_t o = r / n;
    for (index_t k = first_column(); k < inner; k += column_step()) {
      const index_t at = index[r * inner + k];
      if (at >= 0 && at < size) atomicAdd(out + (o * size + at) * inner + k, to_acc(values[r * inner + k]));
    }
  }
}
