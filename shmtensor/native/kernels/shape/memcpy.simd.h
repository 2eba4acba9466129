// Long runs of bytes copied, filled and turned round, with stores on whole vectors. Included inside a
// level's namespace, after vector.simd.h.

template <class T>
struct Wording {
  typedef T type __attribute__((vector_size(kWidth)));
  typedef T loose __attribute__((vector_size(kWidth), aligned(1), may_alias));  // any address
};
typedef Wording<uint64_t>::type Bulk;
typedef Wording<uint64_t>::loose LooseBulk;

INLINE Bulk bulk_at(const char* p) { return *reinterpret_cast<const LooseBulk*>(p); }
INLINE void put_bulk(char* p, Bulk w) { *reinterpret_cast<LooseBulk*>(p) = w; }

// Bytes from p to where whole vectors begin.
INLINE int64_t to_vector(const char* p) {
  return kWidth - static_cast<int64_t>(reinterpret_cast<uintptr_t>(p) & (kWidth - 1));
}

// n bytes that do not overlap. Both ends by a vector each, which may write a part a second time.
void copy_run(char* to, const char* from, int64_t n) {
  int64_t i = 0;
  if (n < kWidth) {
    for (; i < n; ++i) to[i] = from[i];
    return;
  }
  put_bulk(to, bulk_at(from));
  i = to_vector(to);
  for (; i + 4 * kWidth <= n; i += 4 * kWidth) {
    const Bulk a = bulk_at(from + i), b = bulk_at(from + i + kWidth);
    const Bulk c = bulk_at(from + i + 2 * kWidth), d = bulk_at(from + i + 3 * kWidth);
    put_bulk(to + i, a);
    put_bulk(to + i + kWidth, b);
    put_bulk(to + i + 2 * kWidth, c);
    put_bulk(to + i + 3 * kWidth, d);
  }
  for (; i + kWidth <= n; i += kWidth) put_bulk(to + i, bulk_at(from + i));
  put_bulk(to + n - kWidth, bulk_at(from + n - kWidth));
}

// Eight bytes again and again; the last time perhaps a part of them.
void fill_run(char* to, int64_t n, uint64_t word) {
  int64_t i = 0;
  if (n >= kWidth) {
    const Bulk w = Bulk{} + word;
    put_bulk(to, w);
    i = to_vector(to) & ~int64_t{7};  // whole words, and so in step with the first
    for (; i + 4 * kWidth <= n; i += 4 * kWidth) {
      put_bulk(to + i, w);
      put_bulk(to + i + kWidth, w);
      put_bulk(to + i + 2 * kWidth, w);
      put_bulk(to + i + 3 * kWidth, w);
    }
    for (; i + kWidth <= n; i += kWidth) put_bulk(to + i, w);
  }
  for (; i + 8 <= n; i += 8) __builtin_memcpy(to + i, &word, 8);
  if (i < n) __builtin_memcpy(to + i, &word, static_cast<size_t>(n - i));
}

template <int... k>
struct Numbered {};
template <class T, int... k>
INLINE typename Wording<T>::type reversed(typename Wording<T>::type x, Numbered<k...>) {
  constexpr typename Wording<T>::type order = {static_cast<T>(sizeof...(k) - 1 - k)...};
  return __builtin_shuffle(x, order);
}

// to[i] = last[-i]
template <class T>
void reverse_run(char* out, const char* from, int64_t n) {
  typedef typename Wording<T>::loose Loose;
  constexpr int kMany = kWidth / static_cast<int>(sizeof(T));
  T* to = reinterpret_cast<T*>(out);
  const T* last = reinterpret_cast<const T*>(from);
  int64_t i = 0;
  for (; i + kMany <= n; i += kMany) {
    *reinterpret_cast<Loose*>(to + i) = reversed<T>(
        *reinterpret_cast<const Loose*>(last - i - (kMany - 1)), Numbered<__integer_pack(kMany)...>());
  }
  if (i < n && n >= kMany) {  // the end by a vector, too, of which a part is written again
    i = n - kMany;
    *reinterpret_cast<Loose*>(to + i) =
        reversed<T>(*reinterpret_cast<const Loose*>(last - (n - 1)), Numbered<__integer_pack(kMany)...>());
    return;
  }
  for (; i < n; ++i) to[i] = last[-i];
}
