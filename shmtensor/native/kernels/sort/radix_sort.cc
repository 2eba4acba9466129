// A stable pass over pairs of key and place for each digit in which keys can differ: pieces count
// their digits, the counts become where each piece writes each digit, and all pieces write at once.
// Keys count from the smallest: whole numbers below 1000 take one pass, which writes the result.
#include "kernels/sort/radix_sort.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/sort/topk_select.h"
#include "simd/kernel_table.h"
#include "kernels/sort/sort_keys.h"
#include "threading/thread_pool.h"
#include "kernels/dtypes.h"

namespace shmtensor {
namespace {

constexpr int64_t kPiece = 65536;
constexpr int kDigit = 11;  // bits of a pass, at most

int64_t pieces_of(int64_t n) { return (n + kPiece - 1) / kPiece; }

int width_of(uint64_t x) { return x ? 64 - __builtin_clzll(x) : 0; }

template <class T>
struct Extent {
  KeyOf<T> low, high;
};

template <class T>
Extent<T> extent_of(const T* x, int64_t n) {
  const T low = folds<T>().extreme[0](x, n), high = folds<T>().extreme[1](x, n);
  if (low == low && high == high) return {key_of(low), key_of(high)};
  Extent<T> e{key_of(x[0]), key_of(x[0])};
  for (int64_t i = 1; i < n; ++i) {
    const KeyOf<T> key = key_of(x[i]);
    e.low = key < e.low ? key : e.low;
    e.high = key > e.high ? key : e.high;
  }
  return e;
}

template <class T>
Extent<T> extent(const T* x, int64_t n) {
  std::vector<Extent<T>> found(static_cast<size_t>(pieces_of(n)));
  slices(pieces_of(n), [&](int64_t p) {
    found[static_cast<size_t>(p)] = extent_of(x + p * kPiece, std::min(kPiece, n - p * kPiece));
  });
  Extent<T> e = found[0];
  for (const Extent<T>& f : found) e = {std::min(e.low, f.low), std::max(e.high, f.high)};
  return e;
}

// Counts of each piece's digits become where the piece's first pair of that digit goes.
void starts_of(uint32_t* counts, int64_t pieces, int64_t buckets) {
  uint32_t sum = 0;
  for (int64_t b = 0; b < buckets; ++b) {
    for (int64_t p = 0; p < pieces; ++p) {
      const uint32_t here = counts[p * buckets + b];
      counts[p * buckets + b] = sum;
      sum += here;
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

template <class Source, class Sink>
void deal(const Source source, const Sink sink, const Digit digit, int64_t i, int64_t stop,
          uint32_t* at) {
  for (; i < stop; ++i) {
    const auto pair = source(i);
    sink(at[digit.of(pair.key)]++, pair);
  }
}

// sink(position, pair) for each pair, in the order of the digit.
template <class Source, class Sink>
void pass(int64_t n, Digit digit, const Source& source, const Sink& sink) {
  const int64_t pieces = pieces_of(n), buckets = digit.buckets();
  std::vector<uint32_t> counts(static_cast<size_t>(pieces * buckets));
  const auto each = [&](auto&& body) {
    slices(pieces, [&](int64_t p) {
      body(p * kPiece, std::min(n, (p + 1) * kPiece), counts.data() + p * buckets);
    });
  };
  each([&](int64_t i, int64_t stop, uint32_t* mine) { count(source, digit, i, stop, mine); });
  starts_of(counts.data(), pieces, buckets);
  each([&](int64_t i, int64_t stop, uint32_t* mine) { deal(source, sink, digit, i, stop, mine); });
}

template <class T, class K>
struct Elements {  // pairs of x's elements: keys from the first one in order
  const T* x;
  KeyOf<T> first;
  bool descending;
  Pair<K> operator()(int64_t i) const {
    const KeyOf<T> key = key_of(x[i]);
    return {static_cast<K>(descending ? first - key : key - first), static_cast<uint32_t>(i)};
  }
};

template <class K>
struct Pairs {
  const Pair<K>* from;
  Pair<K> operator()(int64_t i) const { return from[i]; }
};

template <class K>
struct Write {
  Pair<K>* to;
  void operator()(uint32_t at, const Pair<K>& pair) const { to[at] = pair; }
};

template <class T>
struct Finish {
  const T* x;
  T* values;
  int64_t* places;
  template <class K>
  void operator()(uint32_t at, const Pair<K>& pair) const {
    places[at] = pair.place;
    values[at] = x[pair.place];
  }
};

template <class T, class K>
void sort_row(const Elements<T, K>& elements, int64_t n, int bits, void* scratch,
              const Finish<T>& finish) {
  const int passes = std::max(1, (bits + kDigit - 1) / kDigit);
  const int each = (bits + passes - 1) / passes;
  auto *from = static_cast<Pair<K>*>(scratch), *to = from + n;
  for (int k = 0; k < passes; ++k) {
    const Digit digit{k * each, each};
    const bool last = k == passes - 1;
    if (k == 0) {
      last ? pass(n, digit, elements, finish) : pass(n, digit, elements, Write<K>{to});
    } else {
      last ? pass(n, digit, Pairs<K>{from}, finish) : pass(n, digit, Pairs<K>{from}, Write<K>{to});
    }
    std::swap(from, to);
  }
}

// The top bits in which keys can differ.
Digit top_digit(uint64_t range) {
  const int bits = width_of(range), shift = std::max(0, bits - kDigit);
  return {shift, bits - shift};
}

template <class T>
int64_t rank_row(const T* x, int64_t n, int64_t k) {
  using K = KeyOf<T>;
  const Extent<T> e = extent(x, n);
  if (e.low == e.high) return k;
  const Elements<T, K> elements{x, e.low, false};
  const Digit digit = top_digit(e.high - e.low);
  const int64_t pieces = pieces_of(n), buckets = digit.buckets();
  std::vector<uint32_t> counts(static_cast<size_t>(pieces * buckets));
  slices(pieces, [&](int64_t p) {
    count(elements, digit, p * kPiece, std::min(n, (p + 1) * kPiece), counts.data() + p * buckets);
  });
  int64_t bucket = 0, before = 0;  // of which k is, and how many come before that
  std::vector<int64_t> starts(static_cast<size_t>(pieces));
  for (;; ++bucket) {
    int64_t here = 0;
    for (int64_t p = 0; p < pieces; ++p) {
      starts[static_cast<size_t>(p)] = here;
      here += counts[static_cast<size_t>(p * buckets + bucket)];
    }
    if (before + here <= k) {
      before += here;
      continue;
    }
    std::vector<Pair<K>> found(static_cast<size_t>(here));
    slices(pieces, [&](int64_t p) {
      Pair<K>* to = found.data() + starts[static_cast<size_t>(p)];
      for (int64_t i = p * kPiece; i < std::min(n, (p + 1) * kPiece); ++i) {
        const Pair<K> pair = elements(i);
        if (digit.of(pair.key) == static_cast<size_t>(bucket)) *to++ = pair;
      }
    });
    std::nth_element(found.begin(), found.begin() + (k - before), found.end());
    return found[static_cast<size_t>(k - before)].place;
  }
}

template <class T>
void first_row(const T* x, int64_t n, int64_t k, bool descending, int64_t* places) {
  using P = Pair<KeyOf<T>>;
  const int64_t pieces = pieces_of(n), room = first_room(k);
  std::vector<P> found(static_cast<size_t>(pieces * room));
  std::vector<int64_t> held(static_cast<size_t>(pieces));
  slices(pieces, [&](int64_t p) {
    const int64_t start = p * kPiece;
    held[static_cast<size_t>(p)] =
        first_of(x + start, std::min(kPiece, n - start), 1, k, descending,
                 static_cast<uint32_t>(start), found.data() + p * room);
  });
  P* end = found.data();
  for (int64_t p = 0; p < pieces; ++p)
    end = std::copy_n(found.data() + p * room, held[static_cast<size_t>(p)], end);
  std::partial_sort(found.data(), found.data() + k, end);
  for (int64_t i = 0; i < k; ++i) places[i] = found[static_cast<size_t>(i)].place;
}

}  // namespace

int64_t radix_scratch(int64_t n, int64_t itemsize) { return 2 * n * (itemsize == 8 ? 16 : 8); }

void radix_sort(int type, const void* x, int64_t n, bool descending, void* scratch, void* values,
                int64_t* places) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const T* row = static_cast<const T*>(x);
    const Extent<T> e = extent(row, n);
    const Finish<T> finish{row, static_cast<T*>(values), places};
    const int bits = width_of(e.high - e.low);
    const KeyOf<T> first = descending ? e.high : e.low;
    if (sizeof(T) == 8 && bits > 32) {
      sort_row(Elements<T, KeyOf<T>>{row, first, descending}, n, bits, scratch, finish);
    } else {
      sort_row(Elements<T, uint32_t>{row, first, descending}, n, bits, scratch, finish);
    }
  });
}

int64_t radix_rank(int type, const void* x, int64_t n, int64_t k) {
  int64_t place = 0;
  with_type(type, [&](auto zero) {
    place = rank_row(static_cast<const decltype(zero)*>(x), n, k);
  });
  return place;
}

void radix_first(int type, const void* x, int64_t n, int64_t k, bool descending, int64_t* places) {
  with_type(type, [&](auto zero) {
    first_row(static_cast<const decltype(zero)*>(x), n, k, descending, places);
  });
}

}  // namespace shmtensor
