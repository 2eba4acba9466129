// The gates of recurrent networks, a row of n units at a time, and their gradients. Included inside a
// level's namespace, after vector.simd.h.

// 1 / (1 + e^-x)
template <class T>
INLINE V<T> sigmoid_of(V<T> x) {
  const V<T> e = exp_nonpositive(-absolute<T>(x)), d = T(1) / (T(1) + e);
  return x < all(T(0)) ? e * d : d;
}

template <class T>
INLINE V<T> tanh_of(V<T> x) {
  const V<T> u = exp_minus_one<T>(T(-2) * absolute<T>(x)), y = -u / (T(2) + u);
  return x < all(T(0)) ? -y : y;
}

// A vector of a row, from unit i on.
template <class T>
struct WholeLanes {
  int64_t i;
  INLINE V<T> get(const T* row) const { return load(row + i); }
  INLINE void put(T* row, V<T> v) const { store<T>(row + i, v); }
};

// The end of a row: fewer units than a vector has.
template <class T>
struct LastLanes {
  int64_t i, rest;
  INLINE V<T> get(const T* row) const { return load_part(row + i, rest, T(0)); }
  INLINE void put(T* row, V<T> v) const { store_part(row + i, v, rest); }
};

template <class T, class F>
INLINE void each_unit(int64_t n, F f) {
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) f(WholeLanes<T>{i});
  if (i < n) f(LastLanes<T>{i, n - i});
}

// gates holds the state's share, and gets i, f, g, o; c is the cell, h = o tanh(c).
template <class T>
void lstm_gates(const T* x, T* gates, const T* c_before, T* c, T* h, int64_t n) {
  each_unit<T>(n, [=](auto at) INLINE_LAMBDA {
    const V<T> i = sigmoid_of<T>(at.get(x) + at.get(gates));
    const V<T> f = sigmoid_of<T>(at.get(x + n) + at.get(gates + n));
    const V<T> g = tanh_of<T>(at.get(x + 2 * n) + at.get(gates + 2 * n));
    const V<T> o = sigmoid_of<T>(at.get(x + 3 * n) + at.get(gates + 3 * n));
    const V<T> cell = f * at.get(c_before) + i * g;
    at.put(gates, i);
    at.put(gates + n, f);
    at.put(gates + 2 * n, g);
    at.put(gates + 3 * n, o);
    at.put(c, cell);
    at.put(h, o * tanh_of<T>(cell));
  });
}

// dc: in the gradient of c, out that of c_before; out: that of the sums in the gates.
template <class T>
void lstm_slopes(const T* gates, const T* c_before, const T* c, const T* dh, T* dc, T* out, int64_t n) {
  each_unit<T>(n, [=](auto at) INLINE_LAMBDA {
    const V<T> i = at.get(gates), f = at.get(gates + n), g = at.get(gates + 2 * n);
    const V<T> o = at.get(gates + 3 * n), y = tanh_of<T>(at.get(c)), d = at.get(dh);
    const V<T> cell = at.get(dc) + d * o * (T(1) - y * y);
    at.put(out, cell * g * i * (T(1) - i));
    at.put(out + n, cell * at.get(c_before) * f * (T(1) - f));
    at.put(out + 2 * n, cell * i * (T(1) - g * g));
    at.put(out + 3 * n, d * y * o * (T(1) - o));
    at.put(dc, cell * f);
  });
}

// back: the state's share, without its bias b; gates gets r, z, n and the state's share of n.
template <class T>
void gru_gates(const T* x, const T* back, const T* b, const T* h_before, T* gates, T* h, int64_t n) {
  each_unit<T>(n, [=](auto at) INLINE_LAMBDA {
    const V<T> r = sigmoid_of<T>(at.get(x) + at.get(back) + at.get(b));
    const V<T> z = sigmoid_of<T>(at.get(x + n) + at.get(back + n) + at.get(b + n));
    const V<T> share = at.get(back + 2 * n) + at.get(b + 2 * n);
    const V<T> y = tanh_of<T>(at.get(x + 2 * n) + r * share);
    at.put(gates, r);
    at.put(gates + n, z);
    at.put(gates + 2 * n, y);
    at.put(gates + 3 * n, share);
    at.put(h, (at.get(h_before) - y) * z + y);
  });
}

// by_x, by_back: the gradients of the two shares; carry: what goes to h_before directly.
template <class T>
void gru_slopes(const T* gates, const T* h_before, const T* dh, T* carry, T* by_x, T* by_back,
                int64_t n) {
  each_unit<T>(n, [=](auto at) INLINE_LAMBDA {
    const V<T> r = at.get(gates), z = at.get(gates + n), y = at.get(gates + 2 * n), d = at.get(dh);
    const V<T> dn = d * (T(1) - z) * (T(1) - y * y);
    const V<T> dr = dn * at.get(gates + 3 * n) * r * (T(1) - r);
    const V<T> dz = d * (at.get(h_before) - y) * z * (T(1) - z);
    at.put(by_x, dr);
    at.put(by_x + n, dz);
    at.put(by_x + 2 * n, dn);
    at.put(by_back, dr);
    at.put(by_back + n, dz);
    at.put(by_back + 2 * n, dn * r);
    at.put(carry, d * z);
  });
}

// h holds the state's share, and gets the new state.
template <class T>
void tanh_gates(const T* x, T* h, int64_t n) {
  each_unit<T>(n, [=](auto at) INLINE_LAMBDA { at.put(h, tanh_of<T>(at.get(x) + at.get(h))); });
}

template <class T>
void relu_gates(const T* x, T* h, int64_t n) {
  each_unit<T>(n, [=](auto at) INLINE_LAMBDA {
    const V<T> v = at.get(x) + at.get(h);
    at.put(h, v <= all(T(0)) ? all(T(0)) : v);
  });
}

template <class T>
void tanh_slopes(const T* h, const T* dh, T* out, int64_t n) {
  each_unit<T>(n, [=](auto at) INLINE_LAMBDA {
    const V<T> y = at.get(h);
    at.put(out, at.get(dh) * (T(1) - y * y));
  });
}

template <class T>
void relu_slopes(const T* h, const T* dh, T* out, int64_t n) {
  each_unit<T>(n, [=](auto at) INLINE_LAMBDA {
    at.put(out, at.get(h) <= all(T(0)) ? all(T(0)) : at.get(dh));
  });
}
