// Rows of attention's scores: scale and mask, weights, gradients. Included inside a level's namespace, after
// softmax_logsumexp.simd.h.

// s = s scale + bias, and -inf where `allowed` is 0; both may be null. Returns the largest.
template <class T>
T attention_scores(T* s, const T* bias, const uint8_t* allowed, int64_t n, T scale) {
  if (bias) {
    for (int64_t i = 0; i < n; ++i) s[i] = s[i] * scale + bias[i];
  } else if (allowed) {
    for (int64_t i = 0; i < n; ++i) s[i] = allowed[i] ? s[i] * scale : kNegativeInfinity<T>;
  } else {
    for (int64_t i = 0; i < n; ++i) s[i] *= scale;
  }
  return row_max(s, n);
}

// s = e^(s - shift), for s <= shift up to rounding. Returns the sum.
template <class T>
T attention_weights(T* s, int64_t n, T shift) {
  return row_exp<T, true>(s, s, n, shift);
}

// dp = p (dp - d) scale: the gradient by scores before they were scaled, of softmax's result p with gradient dp.
template <class T>
void attention_backward(const T* p, T* dp, int64_t n, T d, T scale) {
  for (int64_t i = 0; i < n; ++i) dp[i] = p[i] * (dp[i] - d) * scale;
}

template <class T>
T attention_dot(const T* x, const T* y, int64_t n) {
  return dot(x, y, n);
}
