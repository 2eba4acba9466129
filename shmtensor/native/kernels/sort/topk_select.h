// The k first of a row: most elements meet one comparison, a block at a time.
#pragma once

#include <algorithm>

#include "kernels/sort/sort_keys.h"

namespace shmtensor {

constexpr int64_t kBlock = 32;

// The keys of a block, and whether one of them is below the limit. Apart, so that it becomes vector
// code.
template <class T>
[[gnu::noinline]] bool any_below(const T* x, KeyOf<T> turn, KeyOf<T> limit, KeyOf<T>* keys) {
  KeyOf<T> any = 0;
  for (int64_t l = 0; l < kBlock; ++l) keys[l] = static_cast<KeyOf<T>>(key_of(x[l]) ^ turn);
  for (int64_t l = 0; l < kBlock; ++l) any |= keys[l] < limit;
  return any != 0;
}

// What first_of needs: twice k, so that choosing among them is rare, and a block.
inline int64_t first_room(int64_t k) { return 2 * k + 2 * kBlock; }

// Leaves the k first of n (places from `place` on) in `a`, in no order; k > 0. `a` has room for
// first_room(k), or n if that is less. Returns how many there are: k, or n.
template <class T>
int64_t first_of(const T* x, int64_t n, int64_t step, int64_t k, bool descending, uint32_t place,
                 Pair<KeyOf<T>>* a) {
  using K = KeyOf<T>;
  const K turn = descending ? static_cast<K>(~K(0)) : K(0);
  int64_t held = 0;
  K limit = static_cast<K>(~K(0));
  bool full = false;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    T line[kBlock];
    const T* from = x + i * step;
    if (step != 1 || m < kBlock) {
      for (int64_t l = 0; l < kBlock; ++l) line[l] = from[(l < m ? l : 0) * step];
      from = line;
    }
    K keys[kBlock];
    if (!any_below(from, turn, limit, keys) && full) continue;
    for (int64_t l = 0; l < m; ++l) {  // without a branch: what is not below is overwritten
      a[held] = {keys[l], place + static_cast<uint32_t>(i + l)};
      held += (keys[l] < limit) | !full;
    }
    if (held < 2 * k + kBlock) continue;
    std::nth_element(a, a + k - 1, a + held);
    limit = a[k - 1].key;
    held = k;
    full = true;
  }
  if (held > k) std::nth_element(a, a + k - 1, a + held);
  return std::min(held, k);
}

}  // namespace shmtensor
