// A stable pass over pairs of key and index for each digit in which keys can differ: pieces count their digits, prefix
// sums of the counts say where each piece writes each digit, and all pieces write in parallel. Keys are relative to the
// smallest: integers below 1000 need one pass, which writes the result directly.
//
// The first pass reads the row twice, and another process may change it in between: then a piece writes more pairs of a
// digit than it has counted, into the range of the next, but never beyond the end, and the pass reports it. The row is
// sorted again, from a private copy. Later passes read private pairs. Note [Memory that others change] in
// kernels/index/indices.h.
#include "kernels/sort/radix_sort.h"

#include <algorithm>
#include <atomic>
#include <type_traits>
#include <vector>

#include "kernels/arguments.h"
#include "kernels/sort/topk_select.h"
#include "simd/kernel_table.h"
#include "kernels/sort/sort_keys.h"
#include "threading/thread_pool.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 65536;
constexpr int kDigit = 11;  // bits of a pass, at most

int64_t piece_count(int64_t n) { return (n + kPiece - 1) / kPiece; }

int bit_width(uint64_t x) { return x ? 64 - __builtin_clzll(x) : 0; }

template <class T>
struct KeyRange {
  KeyOf<T> low, high;
};

template <class T>
KeyRange<T> piece_key_range(const T* x, int64_t n) {
  const T low = folds<T>().minmax[kMinimum](x, n), high = folds<T>().minmax[kMaximum](x, n);
  if (low == low && high == high) return {key_of(low), key_of(high)};
  KeyRange<T> range{key_of(x[0]), key_of(x[0])};
  for (int64_t i = 1; i < n; ++i) {
    const KeyOf<T> key = key_of(x[i]);
    range.low = key < range.low ? key : range.low;
    range.high = key > range.high ? key : range.high;
  }
  return range;
}

template <class T>
KeyRange<T> key_range(const T* x, int64_t n) {
  std::vector<KeyRange<T>> piece_ranges(static_cast<size_t>(piece_count(n)));
  slices(piece_count(n), [&](int64_t p) {
    piece_ranges[static_cast<size_t>(p)] = piece_key_range(x + p * kPiece, std::min(kPiece, n - p * kPiece));
  });
  KeyRange<T> range = piece_ranges[0];
  for (const KeyRange<T>& f : piece_ranges) range = {std::min(range.low, f.low), std::max(range.high, f.high)};
  return range;
}

// Replaces the counts of each piece's digits by the position of the piece's first pair of that digit.
void prefix_sums(uint32_t* counts, int64_t pieces, int64_t buckets) {
  uint32_t sum = 0;
  for (int64_t b = 0; b < buckets; ++b) {
    for (int64_t p = 0; p < pieces; ++p) {
      const uint32_t count = counts[p * buckets + b];
      counts[p * buckets + b] = sum;
      sum += count;
    }
  }
}

struct Digit {
  int shift, bits;
  int64_t buckets() const { return int64_t(1) << bits; }
  template <class K>
  size_t of(K key) const {
    return static_cast<size_t>(key >> shift) & static_cast<size_t>(buckets() - 1);
  }
};

template <class Source>
void count(const Source source, const Digit digit, int64_t i, int64_t stop, uint32_t* counts) {
  for (; i < stop; ++i) ++counts[digit.of(source(i).key)];
}

// No position is beyond the last of n.
template <class Source, class Sink>
void scatter_by_digit(const Source source, const Sink sink, const Digit digit, int64_t i, int64_t stop, uint32_t* at,
                      int64_t n) {
  for (; i < stop; ++i) {
    const auto pair = source(i);
    const uint32_t position = at[digit.of(pair.key)]++;
    if (position < n) sink(position, pair);
  }
}

// sink(position, pair) for each pair, in the order of the digit. False: the pairs have changed meanwhile.
template <class Source, class Sink>
bool radix_pass(int64_t n, Digit digit, const Source& source, const Sink& sink) {
  const int64_t pieces = piece_count(n), buckets = digit.buckets();
  std::vector<uint32_t> counts(static_cast<size_t>(pieces * buckets));
  const auto for_pieces = [&](auto&& body) {
    slices(pieces, [&](int64_t p) { body(p * kPiece, std::min(n, (p + 1) * kPiece), counts.data() + p * buckets); });
  };
  for_pieces([&](int64_t i, int64_t stop, uint32_t* piece_counts) { count(source, digit, i, stop, piece_counts); });
  prefix_sums(counts.data(), pieces, buckets);
  std::atomic<bool> unchanged{true};
  for_pieces([&](int64_t i, int64_t stop, uint32_t* starts) {
    uint32_t at[1 << kDigit];
    std::copy_n(starts, buckets, at);
    scatter_by_digit(source, sink, digit, i, stop, at, n);
    // Each digit's range ends where the next piece's begins, of the last piece where the next digit's does.
    const uint32_t* ends = stop < n ? starts + buckets : counts.data() + 1;
    const int64_t last = stop < n ? buckets : buckets - 1;
    if (!std::equal(at, at + last, ends) || (stop == n && at[last] != n)) unchanged = false;
  });
  return unchanged;
}

template <class T, class K>
struct ElementPairs {  // pairs of x's elements; keys are relative to the first in order
  const T* x;
  KeyOf<T> first;
  bool descending;
  Pair<K> operator()(int64_t i) const {
    const KeyOf<T> key = key_of(load_once(x + i));
    return {static_cast<K>(descending ? first - key : key - first), static_cast<uint32_t>(i)};
  }
};

template <class K>
struct StoredPairs {
  const Pair<K>* from;
  Pair<K> operator()(int64_t i) const { return from[i]; }
};

template <class K>
struct WritePairs {
  Pair<K>* to;
  void operator()(uint32_t at, const Pair<K>& pair) const { to[at] = pair; }
};

template <class T>
struct WriteResults {
  const T* x;
  T* values;
  int64_t* indices;
  template <class K>
  void operator()(uint32_t at, const Pair<K>& pair) const {
    indices[at] = pair.index;
    values[at] = x[pair.index];
  }
};

template <class T, class K>
bool sort_row(const ElementPairs<T, K>& elements, int64_t n, int bits, void* scratch, const WriteResults<T>& write_results) {
  const int passes = std::max(1, (bits + kDigit - 1) / kDigit);
  const int for_pieces = (bits + passes - 1) / passes;
  auto *from = static_cast<Pair<K>*>(scratch), *to = from + n;
  for (int k = 0; k < passes; ++k) {
    const Digit digit{k * for_pieces, for_pieces};
    const bool last = k == passes - 1;
    if (k == 0) {
      if (!(last ? radix_pass(n, digit, elements, write_results) : radix_pass(n, digit, elements, WritePairs<K>{to})))
        return false;
    } else {
      last ? radix_pass(n, digit, StoredPairs<K>{from}, write_results)
           : radix_pass(n, digit, StoredPairs<K>{from}, WritePairs<K>{to});
    }
    std::swap(from, to);
  }
  return true;
}

// The top bits in which keys can differ.
Digit highest_digit(uint64_t range) {
  const int bits = bit_width(range), shift = std::max(0, bits - kDigit);
  return {shift, bits - shift};
}

template <class T>
int64_t kth_row(const T* x, int64_t n, int64_t k) {
  using K = KeyOf<T>;
  const KeyRange<T> range = key_range(x, n);
  if (range.low == range.high) return k;
  const ElementPairs<T, K> elements{x, range.low, false};
  const Digit digit = highest_digit(range.high - range.low);
  const int64_t pieces = piece_count(n), buckets = digit.buckets();
  std::vector<uint32_t> counts(static_cast<size_t>(pieces * buckets));
  slices(pieces,
         [&](int64_t p) { count(elements, digit, p * kPiece, std::min(n, (p + 1) * kPiece), counts.data() + p * buckets); });
  int64_t bucket = 0, preceding = 0;  // the bucket that contains k, and the number of elements before it
  std::vector<int64_t> starts(static_cast<size_t>(pieces));
  for (;; ++bucket) {
    int64_t bucket_size = 0;
    for (int64_t p = 0; p < pieces; ++p) {
      starts[static_cast<size_t>(p)] = bucket_size;
      bucket_size += counts[static_cast<size_t>(p * buckets + bucket)];
    }
    if (preceding + bucket_size <= k) {
      preceding += bucket_size;
      continue;
    }
    std::vector<Pair<K>> candidates(static_cast<size_t>(bucket_size));
    slices(pieces, [&](int64_t p) {
      Pair<K>* to = candidates.data() + starts[static_cast<size_t>(p)];
      const Pair<K>* end = to + counts[static_cast<size_t>(p * buckets + bucket)];  // the row may have changed
      for (int64_t i = p * kPiece; i < std::min(n, (p + 1) * kPiece); ++i) {
        const Pair<K> pair = elements(i);
        if (digit.of(pair.key) == static_cast<size_t>(bucket) && to < end) *to++ = pair;
      }
    });
    std::nth_element(candidates.begin(), candidates.begin() + (k - preceding), candidates.end());
    return candidates[static_cast<size_t>(k - preceding)].index;
  }
}

template <class T>
void topk_row(const T* x, int64_t n, int64_t k, bool descending, int64_t* indices) {
  using P = Pair<KeyOf<T>>;
  const int64_t pieces = piece_count(n), capacity = select_capacity(k);
  std::vector<P> candidates(static_cast<size_t>(pieces * capacity));
  std::vector<int64_t> counts(static_cast<size_t>(pieces));
  slices(pieces, [&](int64_t p) {
    const int64_t start = p * kPiece;
    counts[static_cast<size_t>(p)] = select_first(x + start, std::min(kPiece, n - start), 1, k, descending,
                                                  static_cast<uint32_t>(start), candidates.data() + p * capacity);
  });
  P* end = candidates.data();
  for (int64_t p = 0; p < pieces; ++p)
    end = std::copy_n(candidates.data() + p * capacity, counts[static_cast<size_t>(p)], end);
  std::partial_sort(candidates.data(), candidates.data() + k, end);
  for (int64_t i = 0; i < k; ++i) indices[i] = candidates[static_cast<size_t>(i)].index;
}

}  // namespace

int64_t radix_scratch(int64_t n, int64_t itemsize) { return 2 * n * (itemsize == 8 ? 16 : 8); }

void radix_sort(int type, const void* x, int64_t n, bool descending, void* scratch, void* values, int64_t* indices) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const auto sort = [&](const T* row) {
      const KeyRange<T> range = key_range(row, n);
      const WriteResults<T> write_results{row, static_cast<T*>(values), indices};
      const int bits = bit_width(range.high - range.low);
      const KeyOf<T> first = descending ? range.high : range.low;
      return sizeof(T) == 8 && bits > 32
                 ? sort_row(ElementPairs<T, KeyOf<T>>{row, first, descending}, n, bits, scratch, write_results)
                 : sort_row(ElementPairs<T, uint32_t>{row, first, descending}, n, bits, scratch, write_results);
    };
    const T* row = static_cast<const T*>(x);
    if (sort(row)) return;
    std::vector<T> copy(row, row + n);
    sort(copy.data());
  });
}

int64_t radix_kth(int type, const void* x, int64_t n, int64_t k) {
  int64_t index = 0;
  with_type(type, [&](auto zero) { index = kth_row(static_cast<const decltype(zero)*>(x), n, k); });
  return index;
}

void radix_topk(int type, const void* x, int64_t n, int64_t k, bool descending, int64_t* indices) {
  with_type(type, [&](auto zero) { topk_row(static_cast<const decltype(zero)*>(x), n, k, descending, indices); });
}

}  // namespace shmtensor
