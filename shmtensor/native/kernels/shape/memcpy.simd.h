// Copies, fills and reverses runs of bytes, with aligned vector stores. Included inside a
// level's namespace, after vector.simd.h.

template <class T>
struct AnyWord {
  typedef T type __attribute__((vector_size(kWidth)));
  typedef T loose __attribute__((vector_size(kWidth), aligned(1), may_alias));  // any address
};
typedef AnyWord<uint64_t>::type ByteVector;
typedef AnyWord<uint64_t>::loose LooseByteVector;

INLINE ByteVector load_bytes(const char* p) { return *reinterpret_cast<const LooseByteVector*>(p); }
INLINE void store_bytes(char* p, ByteVector w) { *reinterpret_cast<LooseByteVector*>(p) = w; }

// Bytes from p to the next vector boundary.
INLINE int64_t bytes_to_alignment(const char* p) {
  return kWidth - static_cast<int64_t>(reinterpret_cast<uintptr_t>(p) & (kWidth - 1));
}

// Copies n bytes that do not overlap. Each end is one unaligned vector, which may overlap the aligned ones.
void copy_bytes(char* to, const char* from, int64_t n) {
  int64_t i = 0;
  if (n < kWidth) {
    for (; i < n; ++i) to[i] = from[i];
    return;
  }
  store_bytes(to, load_bytes(from));
  i = bytes_to_alignment(to);
  for (; i + 4 * kWidth <= n; i += 4 * kWidth) {
    const ByteVector a = load_bytes(from + i), b = load_bytes(from + i + kWidth);
    const ByteVector c = load_bytes(from + i + 2 * kWidth), d = load_bytes(from + i + 3 * kWidth);
    store_bytes(to + i, a);
    store_bytes(to + i + kWidth, b);
    store_bytes(to + i + 2 * kWidth, c);
    store_bytes(to + i + 3 * kWidth, d);
  }
  for (; i + kWidth <= n; i += kWidth) store_bytes(to + i, load_bytes(from + i));
  store_bytes(to + n - kWidth, load_bytes(from + n - kWidth));
}

// Repeats eight bytes; the last repeat may be partial.
void fill_bytes(char* to, int64_t n, uint64_t word) {
  int64_t i = 0;
  if (n >= kWidth) {
    const ByteVector w = ByteVector{} + word;
    store_bytes(to, w);
    i = bytes_to_alignment(to) & ~int64_t{7};  // a multiple of 8, in phase with the first vector
    for (; i + 4 * kWidth <= n; i += 4 * kWidth) {
      store_bytes(to + i, w);
      store_bytes(to + i + kWidth, w);
      store_bytes(to + i + 2 * kWidth, w);
      store_bytes(to + i + 3 * kWidth, w);
    }
    for (; i + kWidth <= n; i += kWidth) store_bytes(to + i, w);
  }
  for (; i + 8 <= n; i += 8) __builtin_memcpy(to + i, &word, 8);
  if (i < n) __builtin_memcpy(to + i, &word, static_cast<size_t>(n - i));
}

template <int... k>
struct IndexSequence {};
template <class T, int... k>
INLINE typename AnyWord<T>::type reverse_lanes(typename AnyWord<T>::type x, IndexSequence<k...>) {
  constexpr typename AnyWord<T>::type order = {static_cast<T>(sizeof...(k) - 1 - k)...};
  return __builtin_shuffle(x, order);
}

// to[i] = last[-i]
template <class T>
void reverse_elements(char* out, const char* from, int64_t n) {
  typedef typename AnyWord<T>::loose Loose;
  constexpr int kLanesOfT = kWidth / static_cast<int>(sizeof(T));
  T* to = reinterpret_cast<T*>(out);
  const T* last = reinterpret_cast<const T*>(from);
  int64_t i = 0;
  for (; i + kLanesOfT <= n; i += kLanesOfT) {
    *reinterpret_cast<Loose*>(to + i) = reverse_lanes<T>(*reinterpret_cast<const Loose*>(last - i - (kLanesOfT - 1)),
                                                         IndexSequence<__integer_pack(kLanesOfT)...>());
  }
  if (i < n && n >= kLanesOfT) {  // the end is one vector, which overlaps the previous one
    i = n - kLanesOfT;
    *reinterpret_cast<Loose*>(to + i) =
        reverse_lanes<T>(*reinterpret_cast<const Loose*>(last - (n - 1)), IndexSequence<__integer_pack(kLanesOfT)...>());
    return;
  }
  for (; i < n; ++i) to[i] = last[-i];
}
