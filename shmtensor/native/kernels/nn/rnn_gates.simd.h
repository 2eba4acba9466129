// The gates of recurrent networks, a row of n units at a time, and their gradients. Included inside a
// level's namespace, after vector.simd.h.

// 1 / (1 + e^-x)
template <class T>
INLINE V<T> sigmoid_of(V<T> x) {
  const V<T> e = exp_nonpositive(-absolute<T>(x)), d = T(1) / (T(1) + e);
  return x < splat(T(0)) ? e * d : d;
}

template <class T>
INLINE V<T> tanh_of(V<T> x) {
  const V<T> u = exp_minus_one(T(-2) * absolute<T>(x)), y = -u / (T(2) + u);
  return x < splat(T(0)) ? -y : y;
}

// A full vector of a row, starting at unit i.
template <class T>
struct FullLanes {
  int64_t i;
  INLINE V<T> read(const T* row) const { return load(row + i); }
  INLINE void write(T* row, V<T> v) const { store<T>(row + i, v); }
};

// The end of a row: fewer units than lanes.
template <class T>
struct LastLanes {
  int64_t i, count;
  INLINE V<T> read(const T* row) const { return load_part(row + i, count, T(0)); }
  INLINE void write(T* row, V<T> v) const { store_part(row + i, v, count); }
};

template <class T, class F>
INLINE void for_units(int64_t n, F f) {
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) f(FullLanes<T>{i});
  if (i < n) f(LastLanes<T>{i, n - i});
}

// gates: in the state's term, out i, f, g, o; c is the cell, h = o tanh(c).
template <class T>
void lstm_gates(const T* x, T* gates, const T* c_before, T* c, T* h, int64_t n) {
  for_units<T>(n, [=](auto lanes) INLINE_LAMBDA {
    const V<T> i = sigmoid_of<T>(lanes.read(x) + lanes.read(gates));
    const V<T> f = sigmoid_of<T>(lanes.read(x + n) + lanes.read(gates + n));
    const V<T> g = tanh_of<T>(lanes.read(x + 2 * n) + lanes.read(gates + 2 * n));
    const V<T> o = sigmoid_of<T>(lanes.read(x + 3 * n) + lanes.read(gates + 3 * n));
    const V<T> cell = f * lanes.read(c_before) + i * g;
    lanes.write(gates, i);
    lanes.write(gates + n, f);
    lanes.write(gates + 2 * n, g);
    lanes.write(gates + 3 * n, o);
    lanes.write(c, cell);
    lanes.write(h, o * tanh_of<T>(cell));
  });
}

// dc: in the gradient of c, out that of c_before; out: the gradient of the gates' sums.
template <class T>
void lstm_gates_backward(const T* gates, const T* c_before, const T* c, const T* dh, T* dc, T* out, int64_t n) {
  for_units<T>(n, [=](auto lanes) INLINE_LAMBDA {
    const V<T> i = lanes.read(gates), f = lanes.read(gates + n), g = lanes.read(gates + 2 * n);
    const V<T> o = lanes.read(gates + 3 * n), y = tanh_of<T>(lanes.read(c)), d = lanes.read(dh);
    const V<T> cell = lanes.read(dc) + d * o * (T(1) - y * y);
    lanes.write(out, cell * g * i * (T(1) - i));
    lanes.write(out + n, cell * lanes.read(c_before) * f * (T(1) - f));
    lanes.write(out + 2 * n, cell * i * (T(1) - g * g));
    lanes.write(out + 3 * n, d * y * o * (T(1) - o));
    lanes.write(dc, cell * f);
  });
}

// h_product: the state's term, without its bias b; gates: out r, z, n and the state's term of n.
template <class T>
void gru_gates(const T* x, const T* h_product, const T* b, const T* h_before, T* gates, T* h, int64_t n) {
  for_units<T>(n, [=](auto lanes) INLINE_LAMBDA {
    const V<T> r = sigmoid_of<T>(lanes.read(x) + lanes.read(h_product) + lanes.read(b));
    const V<T> z = sigmoid_of<T>(lanes.read(x + n) + lanes.read(h_product + n) + lanes.read(b + n));
    const V<T> h_term = lanes.read(h_product + 2 * n) + lanes.read(b + 2 * n);
    const V<T> y = tanh_of<T>(lanes.read(x + 2 * n) + r * h_term);
    lanes.write(gates, r);
    lanes.write(gates + n, z);
    lanes.write(gates + 2 * n, y);
    lanes.write(gates + 3 * n, h_term);
    lanes.write(h, (lanes.read(h_before) - y) * z + y);
  });
}

// grad_x, grad_h_product: the gradients of the two terms; grad_h_before: the direct part of h_before's gradient.
template <class T>
void gru_gates_backward(const T* gates, const T* h_before, const T* dh, T* grad_h_before, T* grad_x, T* grad_h_product,
                        int64_t n) {
  for_units<T>(n, [=](auto lanes) INLINE_LAMBDA {
    const V<T> r = lanes.read(gates), z = lanes.read(gates + n), y = lanes.read(gates + 2 * n), d = lanes.read(dh);
    const V<T> dn = d * (T(1) - z) * (T(1) - y * y);
    const V<T> dr = dn * lanes.read(gates + 3 * n) * r * (T(1) - r);
    const V<T> dz = d * (lanes.read(h_before) - y) * z * (T(1) - z);
    lanes.write(grad_x, dr);
    lanes.write(grad_x + n, dz);
    lanes.write(grad_x + 2 * n, dn);
    lanes.write(grad_h_product, dr);
    lanes.write(grad_h_product + n, dz);
    lanes.write(grad_h_product + 2 * n, dn * r);
    lanes.write(grad_h_before, d * z);
  });
}

// h: in the state's term, out the new state.
template <class T>
void tanh_gates(const T* x, T* h, int64_t n) {
  for_units<T>(n, [=](auto lanes) INLINE_LAMBDA { lanes.write(h, tanh_of<T>(lanes.read(x) + lanes.read(h))); });
}

template <class T>
void relu_gates(const T* x, T* h, int64_t n) {
  for_units<T>(n, [=](auto lanes) INLINE_LAMBDA {
    const V<T> v = lanes.read(x) + lanes.read(h);
    lanes.write(h, v <= splat(T(0)) ? splat(T(0)) : v);
  });
}

template <class T>
void tanh_gates_backward(const T* h, const T* dh, T* out, int64_t n) {
  for_units<T>(n, [=](auto lanes) INLINE_LAMBDA {
    const V<T> y = lanes.read(h);
    lanes.write(out, lanes.read(dh) * (T(1) - y * y));
  });
}

template <class T>
void relu_gates_backward(const T* h, const T* dh, T* out, int64_t n) {
  for_units<T>(
      n, [=](auto lanes) INLINE_LAMBDA { lanes.write(out, lanes.read(h) <= splat(T(0)) ? splat(T(0)) : lanes.read(dh)); });
}
