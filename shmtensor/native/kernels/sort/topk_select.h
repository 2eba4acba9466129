// The first k elements of a row in sort order: most elements need one comparison, a block at a time.
#pragma once

#include <algorithm>

#include "kernels/sort/sort_keys.h"

namespace shmtensor {

constexpr int64_t kBlock = 32;

// Computes the keys of a block; is one of them below the limit? A separate function, so that it is vectorised.
template <class T>
[[gnu::noinline]] bool keys_below(const T* x, KeyOf<T> flip_mask, KeyOf<T> limit, KeyOf<T>* keys) {
  KeyOf<T> any = 0;
  for (int64_t l = 0; l < kBlock; ++l) keys[l] = static_cast<KeyOf<T>>(key_of(x[l]) ^ flip_mask);
  for (int64_t l = 0; l < kBlock; ++l) any |= keys[l] < limit;
  return any != 0;
}

// The capacity that select_first needs: twice k, so that nth_element runs rarely, and a block.
inline int64_t select_capacity(int64_t k) { return 2 * k + 2 * kBlock; }

// Writes the first k of n elements (with indices from `index` on) to `a`, unordered; k > 0. `a` has capacity
// select_capacity(k), or n if that is less. Returns their number: k, or n if that is less.
template <class T>
int64_t select_first(const T* x, int64_t n, int64_t step, int64_t k, bool descending, uint32_t index, Pair<KeyOf<T>>* a) {
  using K = KeyOf<T>;
  const K flip_mask = descending ? static_cast<K>(~K(0)) : K(0);
  int64_t count = 0;
  K limit = static_cast<K>(~K(0));
  bool full = false;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    T padded[kBlock];
    const T* from = x + i * step;
    if (step != 1 || m < kBlock) {
      for (int64_t l = 0; l < kBlock; ++l) padded[l] = from[(l < m ? l : 0) * step];
      from = padded;
    }
    K keys[kBlock];
    if (!keys_below(from, flip_mask, limit, keys) && full) continue;
    for (int64_t l = 0; l < m; ++l) {  // branchless: a pair that is not below is overwritten
      a[count] = {keys[l], index + static_cast<uint32_t>(i + l)};
      count += (keys[l] < limit) | !full;
    }
    if (count < 2 * k + kBlock) continue;
    std::nth_element(a, a + k - 1, a + count);
    limit = a[k - 1].key;
    count = k;
    full = true;
  }
  if (count > k) std::nth_element(a, a + k - 1, a + count);
  return std::min(count, k);
}

}  // namespace shmtensor
