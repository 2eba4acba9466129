// Layer, group, RMS and batch norm, and their gradients. xhat = (x - mean) * rstd is the normalized element.

// ---- rows of one length: layer norm; group norm, whose rows are the groups of each sample's channels; RMS norm

// Element i of row r has the weight (r % groups) * per_group + i / spatial: of its channel. Layer norm: groups and spatial
// are 1. weight and bias may be null.
struct Affine {
  const scalar_t *weight, *bias;
  index_t groups, per_group, spatial;
  __device__ __forceinline__ index_t at(index_t r, index_t i) const {
    return spatial == 1 && groups == 1 ? i : r % groups * per_group + i / spatial;
  }
  __device__ __forceinline__ acc_t scale(acc_t v, index_t r, index_t i) const {
    return weight ? v * to_acc(weight[at(r, i)]) : v;
  }
  __device__ __forceinline__ acc_t shift(acc_t v, index_t r, index_t i) const {
    return bias ? v + to_acc(bias[at(r, i)]) : v;
  }
};

// `cache`: shared memory for a row, or null; then it is read three times, from the second time on from the L1 or L2 cache.
template <class Threads>
__device__ __forceinline__ void forward(const scalar_t* x, const Affine& affine, scalar_t* out, acc_t* means, acc_t* rstds,
                                        index_t rows, index_t length, acc_t eps, int centred, acc_t* cache, acc_t* part) {
  for (index_t r = Threads::row(); r < rows; r += Threads::rows()) {
    const scalar_t* from = x + r * length;
    acc_t sum = 0;
    for (index_t i = Threads::first(); i < length; i += Threads::step()) {
      const acc_t v = to_acc(from[i]);
      if (cache) cache[i] = v;
      sum += v;
    }
    const acc_t mean = centred ? Threads::template reduce<Sum>(sum, part) / length : acc_t(0);
    acc_t squares = 0;
    for (index_t i = Threads::first(); i < length; i += Threads::step()) {
      const acc_t d = (cache ? cache[i] : to_acc(from[i])) - mean;
      squares += d * d;
    }
    const acc_t rstd = 1 / sqrt(Threads::template reduce<Sum>(squares, part) / length + eps);
    for (index_t i = Threads::first(); i < length; i += Threads::step()) {
      const acc_t v = ((cache ? cache[i] : to_acc(from[i])) - mean) * rstd;
      out[r * length + i] = to_scalar(affine.shift(affine.scale(v, r, i), r, i));
    }
    if (Threads::first() == 0) {
      means[r] = mean;
      rstds[r] = rstd;
    }
  }
}

extern "C" __global__ __launch_bounds__(256) void layer_norm_warp(
    const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
    scalar_t* __restrict__ out, acc_t* __restrict__ means, acc_t* __restrict__ rstds, index_t rows, index_t length,
    index_t groups, index_t per_group, index_t spatial, acc_t eps, int centred) {
  const Affine affine{weight, bias, groups, per_group, spatial};
  forward<Warp>(x, affine, out, means, rstds, rows, length, eps, centred, nullptr, nullptr);
}
extern "C" __global__ __launch_bounds__(1024) void layer_norm_block(
    const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
    scalar_t* __restrict__ out, acc_t* __restrict__ means, acc_t* __restrict__ rstds, index_t rows, index_t length,
    index_t groups, index_t per_group, index_t spatial, acc_t eps, int centred, int cached) {
  DYNAMIC_SHARED(acc_t, row);
  __shared__ acc_t part[32];
  const Affine affine{weight, bias, groups, per_group, spatial};
  forward<Block>(x, affine, out, means, rstds, rows, length, eps, centred, cached ? row : nullptr, part);
}

// The gradient by x: rstd (h - mean(h) - xhat mean(h xhat)), where h is g times the weight.
template <class Threads>
__device__ __forceinline__ void backward(const scalar_t* g, const scalar_t* x, const Affine& affine, const acc_t* means,
                                         const acc_t* rstds, scalar_t* out, index_t rows, index_t length, int centred,
                                         acc_t* part) {
  for (index_t r = Threads::row(); r < rows; r += Threads::rows()) {
    const index_t start = r * length;
    const acc_t mean = means[r], rstd = rstds[r];
    acc_t sum = 0, product = 0;
    for (index_t i = Threads::first(); i < length; i += Threads::step()) {
      const acc_t h = affine.scale(to_acc(g[start + i]), r, i);
      sum += h;
      product += h * (to_acc(x[start + i]) - mean) * rstd;
    }
    const acc_t inner = centred ? Threads::template reduce<Sum>(sum, part) / length : acc_t(0);
    const acc_t along = Threads::template reduce<Sum>(product, part) / length;
    for (index_t i = Threads::first(); i < length; i += Threads::step()) {
      const acc_t h = affine.scale(to_acc(g[start + i]), r, i), xhat = (to_acc(x[start + i]) - mean) * rstd;
      out[start + i] = to_scalar(rstd * (h - inner - xhat * along));
    }
  }
}

extern "C" __global__ __launch_bounds__(256) void layer_norm_backward_warp(
    const scalar_t* __restrict__ g, const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight,
    const acc_t* __restrict__ means, const acc_t* __restrict__ rstds, scalar_t* __restrict__ out, index_t rows,
    index_t length, index_t groups, index_t per_group, index_t spatial, int centred) {
  const Affine affine{weight, nullptr, groups, per_group, spatial};
  backward<Warp>(g, x, affine, means, rstds, out, rows, length, centred, nullptr);
}
extern "C" __global__ __launch_bounds__(1024) void layer_norm_backward_block(
    const scalar_t* __restrict__ g, const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight,
    const acc_t* __restrict__ means, const acc_t* __restrict__ rstds, scalar_t* __restrict__ out, index_t rows,
    index_t length, index_t groups, index_t per_group, index_t spatial, int centred) {
  __shared__ acc_t part[32];
  const Affine affine{weight, nullptr, groups, per_group, spatial};
  backward<Block>(g, x, affine, means, rstds, out, rows, length, centred, part);
}

// Layer norm's rows of up to 1,024 elements, a warp each: P and K as in RowOfWarp. Each g and x is read once: a block also adds
// up its rows' g xhat and g, the gradients by weight and bias; parts: (blocks, 2, length).
template <int P, int K>
__device__ __forceinline__ void backward_rows(const scalar_t* g, const scalar_t* x, const scalar_t* weight,
                                              const acc_t* means, const acc_t* rstds, scalar_t* out, acc_t* parts,
                                              index_t rows, int length, int centred, acc_t* part) {
  acc_t by_weight[P * K] = {}, by_bias[P * K] = {};
  for (index_t r = Warp::row(); r < rows; r += Warp::rows()) {
    RowOfWarp<P, K> h, xhat;  // h: g, then g times the weight
    h.load(g + r * length, length, 0);
    xhat.load(x + r * length, length, 0);
    const acc_t mean = means[r], rstd = rstds[r];
    acc_t sum = 0, product = 0;
#pragma unroll
    for (int i = 0; i < P * K; i++) {
      xhat.at[i] = (xhat.at[i] - mean) * rstd;
      by_weight[i] += h.at[i] * xhat.at[i];
      by_bias[i] += h.at[i];
    }
    if (weight) {
      RowOfWarp<P, K> w;
      w.load(weight, length, 0);
#pragma unroll
      for (int i = 0; i < P * K; i++) h.at[i] *= w.at[i];
    }
#pragma unroll
    for (int i = 0; i < P * K; i++) {
      sum += h.at[i];
      product += h.at[i] * xhat.at[i];
    }
    const acc_t inner = centred ? warp_reduce<Sum>(sum) / length : acc_t(0), along = warp_reduce<Sum>(product) / length;
    h.store(out + r * length, length, [&](int i) { return rstd * (h.at[i] - inner - xhat.at[i] * along); });
  }
  const int warps = blockDim.x / 32;
#pragma unroll
  for (int i = 0; i < P * K; i++) {
    const int column = RowOfWarp<P, K>::column(i / P) + i % P;
    part[threadIdx.x] = by_weight[i];
    part[256 + threadIdx.x] = by_bias[i];
    __syncthreads();
    if (threadIdx.x < 32 && column < length) {
      acc_t all_weight = 0, all_bias = 0;
#pragma unroll 1
      for (int w = 0; w < warps; w++) {
        all_weight += part[w * 32 + threadIdx.x];
        all_bias += part[256 + w * 32 + threadIdx.x];
      }
      acc_t* to = parts + static_cast<index_t>(blockIdx.x) * 2 * length + column;
      to[0] = all_weight;
      to[length] = all_bias;
    }
    __syncthreads();  // part may be written again
  }
}
template <int K>
__device__ __forceinline__ void backward_packs(const scalar_t* g, const scalar_t* x, const scalar_t* weight,
                                               const acc_t* means, const acc_t* rstds, scalar_t* out, acc_t* parts,
                                               index_t rows, int length, int centred, acc_t* part) {
  if constexpr (K * PACK <= 32)
    backward_rows<PACK, K>(g, x, weight, means, rstds, out, parts, rows, length, centred, part);
}

#define BACKWARD_ROWS                                                                                                 \
  const scalar_t *__restrict__ g, const scalar_t *__restrict__ x, const scalar_t *__restrict__ weight,                \
      const acc_t *__restrict__ means, const acc_t *__restrict__ rstds, scalar_t *__restrict__ out,                   \
      acc_t *__restrict__ parts, index_t rows, int length, int centred

extern "C" __global__ __launch_bounds__(256) void layer_norm_backward_rows_2(BACKWARD_ROWS) {
  __shared__ acc_t part[512];
  backward_rows<1, 2>(g, x, weight, means, rstds, out, parts, rows, length, centred, part);
}
extern "C" __global__ __launch_bounds__(256) void layer_norm_backward_rows_8(BACKWARD_ROWS) {
  __shared__ acc_t part[512];
  backward_rows<1, 8>(g, x, weight, means, rstds, out, parts, rows, length, centred, part);
}
extern "C" __global__ __launch_bounds__(256) void layer_norm_backward_rows_32(BACKWARD_ROWS) {
  __shared__ acc_t part[512];
  backward_rows<1, 32>(g, x, weight, means, rstds, out, parts, rows, length, centred, part);
}
extern "C" __global__ __launch_bounds__(256) void layer_norm_backward_rows_packs_1(BACKWARD_ROWS) {
  __shared__ acc_t part[512];
  backward_packs<1>(g, x, weight, means, rstds, out, parts, rows, length, centred, part);
}
extern "C" __global__ __launch_bounds__(256) void layer_norm_backward_rows_packs_2(BACKWARD_ROWS) {
  __shared__ acc_t part[512];
  backward_packs<2>(g, x, weight, means, rstds, out, parts, rows, length, centred, part);
}
extern "C" __global__ __launch_bounds__(256) void layer_norm_backward_rows_packs_4(BACKWARD_ROWS) {
  __shared__ acc_t part[512];
  backward_packs<4>(g, x, weight, means, rstds, out, parts, rows, length, centred, part);
}
extern "C" __global__ __launch_bounds__(256) void layer_norm_backward_rows_packs_8(BACKWARD_ROWS) {
  __shared__ acc_t part[512];
  backward_packs<8>(g, x, weight, means, rstds, out, parts, rows, length, centred, part);
}
extern "C" __global__ __launch_bounds__(256) void layer_norm_backward_rows_packs_16(BACKWARD_ROWS) {
  __shared__ acc_t part[512];
  backward_packs<16>(g, x, weight, means, rstds, out, parts, rows, length, centred, part);
}

// ---- sums over samples, in two stages: blockIdx.y is a chunk of samples, whose sums are added up afterwards
//
// columns: the array is (samples, channels). Blocks are (32, y) threads: threadIdx.x is a channel, so loads are coalesced.
// planes: the array is (samples, channels, spatial). Blocks are (32, 8) threads for one channel: threadIdx.x is a position.

struct Chunk {  // of samples
  index_t start, stop;
};
__device__ __forceinline__ Chunk chunk_of(index_t samples) {
  const index_t size = (samples + gridDim.y - 1) / gridDim.y, start = blockIdx.y * size;
  return Chunk{start, start + size < samples ? start + size : samples};
}

// Each thread's number, added up over threadIdx.y; `part` has 32 numbers for each threadIdx.y.
__device__ acc_t column_sum(acc_t v, acc_t* part) {
  part[threadIdx.y * 32 + threadIdx.x] = v;
  __syncthreads();
  v = 0;
  for (unsigned i = 0; i < blockDim.y; i++) v += part[i * 32 + threadIdx.x];
  __syncthreads();  // part may be written again
  return v;
}
// The sum over a block of (32, 8) threads.
__device__ acc_t plane_sum(acc_t v, acc_t* part) {
  v = warp_reduce<Sum>(v);
  if (threadIdx.x == 0) part[threadIdx.y] = v;
  __syncthreads();
  v = 0;
  for (unsigned i = 0; i < blockDim.y; i++) v += part[i];
  __syncthreads();
  return v;
}

// ---- batch norm: `stats` has rows of a number for each channel: mean, variance, 1 / sqrt(variance + eps), then the chunks'
// means, and then the chunks' sums of squared deviations

// The means and sums of squared deviations of chunks.
extern "C" __global__ __launch_bounds__(1024) void moments_columns(
    const scalar_t* __restrict__ x, acc_t* __restrict__ stats, index_t samples, index_t channels) {
  __shared__ acc_t part[1024];
  const index_t c = static_cast<index_t>(blockIdx.x) * 32 + threadIdx.x;
  const Chunk chunk = chunk_of(samples);
  acc_t sum = 0, square = 0;
  if (c < channels)
    for (index_t n = chunk.start + threadIdx.y; n < chunk.stop; n += blockDim.y) sum += to_acc(x[n * channels + c]);
  const acc_t mean = column_sum(sum, part) / (chunk.stop - chunk.start);
  if (c < channels)
    for (index_t n = chunk.start + threadIdx.y; n < chunk.stop; n += blockDim.y) {
      const acc_t d = to_acc(x[n * channels + c]) - mean;
      square += d * d;
    }
  square = column_sum(square, part);
  if (c < channels && threadIdx.y == 0) {
    stats[(3 + blockIdx.y) * channels + c] = mean;
    stats[(3 + gridDim.y + blockIdx.y) * channels + c] = square;
  }
}

extern "C" __global__ __launch_bounds__(256) void moments_planes(
    const scalar_t* __restrict__ x, acc_t* __restrict__ stats, index_t samples, index_t channels, index_t spatial) {
  __shared__ acc_t part[32];
  const Chunk chunk = chunk_of(samples);
  for (index_t c = blockIdx.x; c < channels; c += gridDim.x) {
    acc_t sum = 0, square = 0;
    for (index_t n = chunk.start + threadIdx.y; n < chunk.stop; n += blockDim.y)
      for (index_t s = threadIdx.x; s < spatial; s += 32) sum += to_acc(x[(n * channels + c) * spatial + s]);
    const acc_t mean = plane_sum(sum, part) / ((chunk.stop - chunk.start) * spatial);
    for (index_t n = chunk.start + threadIdx.y; n < chunk.stop; n += blockDim.y)
      for (index_t s = threadIdx.x; s < spatial; s += 32) {
        const acc_t d = to_acc(x[(n * channels + c) * spatial + s]) - mean;
        square += d * d;
      }
    square = plane_sum(square, part);
    if (threadIdx.x == 0 && threadIdx.y == 0) {
      stats[(3 + blockIdx.y) * channels + c] = mean;
      stats[(3 + gridDim.y + blockIdx.y) * channels + c] = square;
    }
  }
}

// A channel of `stats`, whose mean is that of the chunks' means, weighted by their sizes, and whose variance that of the
// chunks' and of their means' deviations (Chan, Golub, LeVeque 1983). Each is the sum of the parts of several threads.
struct Channel {
  acc_t* stats;
  index_t samples, channels, spatial, chunks, c;
  __device__ __forceinline__ acc_t weight(index_t k) const {  // of a chunk
    const index_t size = (samples + chunks - 1) / chunks, stop = (k + 1) * size;
    return static_cast<acc_t>((stop < samples ? stop : samples) - k * size) / samples;
  }
  __device__ __forceinline__ acc_t mean_part(index_t first, index_t step) const {
    acc_t sum = 0;
    for (index_t k = first; k < chunks; k += step) sum += stats[(3 + k) * channels + c] * weight(k);
    return sum;
  }
  __device__ __forceinline__ acc_t var_part(acc_t mean, index_t first, index_t step) const {
    const acc_t count = static_cast<acc_t>(samples) * spatial;
    acc_t sum = 0;
    for (index_t k = first; k < chunks; k += step) {
      const acc_t d = stats[(3 + k) * channels + c] - mean;
      sum += stats[(3 + chunks + k) * channels + c] / count + d * d * weight(k);
    }
    return sum;
  }
  // Writes what is kept of the batch: by one thread. running_mean and running_var, of the unbiased variance, may be null.
  __device__ __forceinline__ void keep(acc_t mean, acc_t var, acc_t rstd, scalar_t* running_mean, scalar_t* running_var,
                                       acc_t momentum) const {
    const acc_t count = static_cast<acc_t>(samples) * spatial;
    stats[c] = mean;
    stats[channels + c] = var;
    stats[2 * channels + c] = rstd;
    if (running_mean) running_mean[c] = to_scalar((1 - momentum) * to_acc(running_mean[c]) + momentum * mean);
    if (running_var)
      running_var[c] = to_scalar((1 - momentum) * to_acc(running_var[c]) + momentum * (var * (count / (count - 1))));
  }
};

#define BATCH_NORM                                                                                                     \
  const scalar_t *__restrict__ x, const scalar_t *__restrict__ weight, const scalar_t *__restrict__ bias,              \
      scalar_t *__restrict__ out, acc_t *stats, scalar_t *__restrict__ running_mean, scalar_t *__restrict__ running_var, \
      double momentum, index_t samples, index_t channels, index_t spatial, index_t chunks, acc_t eps

// (x - mean) * rstd * weight + bias by the moments of the chunks, which each block combines for its channels, so that no
// launch between is needed. Blocks of (32, 8) threads; blockIdx.x: as for the moments; blockIdx.y, z: samples, positions.
extern "C" __global__ __launch_bounds__(256) void batch_norm_columns(BATCH_NORM) {
  __shared__ acc_t part[256];
  const index_t c = static_cast<index_t>(blockIdx.x) * 32 + threadIdx.x;
  const Channel channel{stats, samples, channels, spatial, c < channels ? chunks : 0, c};
  const acc_t mean = column_sum(channel.mean_part(threadIdx.y, blockDim.y), part);
  const acc_t var = column_sum(channel.var_part(mean, threadIdx.y, blockDim.y), part), rstd = 1 / sqrt(var + eps);
  if (c < channels) {
    if (blockIdx.y == 0 && threadIdx.y == 0) channel.keep(mean, var, rstd, running_mean, running_var, momentum);
    const acc_t scale = weight ? to_acc(weight[c]) : acc_t(1), shift = bias ? to_acc(bias[c]) : acc_t(0);
    for (index_t n = static_cast<index_t>(blockIdx.y) * blockDim.y + threadIdx.y; n < samples; n += gridDim.y * blockDim.y) {
      const index_t i = n * channels + c;
      out[i] = to_scalar((to_acc(x[i]) - mean) * rstd * scale + shift);
    }
  }
}

extern "C" __global__ __launch_bounds__(256) void batch_norm_planes(BATCH_NORM) {
  const index_t c = blockIdx.x;
  const Channel channel{stats, samples, channels, spatial, chunks, c};
  const acc_t mean = warp_reduce<Sum>(channel.mean_part(threadIdx.x, 32));
  const acc_t var = warp_reduce<Sum>(channel.var_part(mean, threadIdx.x, 32)), rstd = 1 / sqrt(var + eps);
  if (blockIdx.y == 0 && blockIdx.z == 0 && threadIdx.x == 0 && threadIdx.y == 0)
    channel.keep(mean, var, rstd, running_mean, running_var, momentum);
  const acc_t scale = weight ? to_acc(weight[c]) : acc_t(1), shift = bias ? to_acc(bias[c]) : acc_t(0);
  for (index_t n = static_cast<index_t>(blockIdx.y) * blockDim.y + threadIdx.y; n < samples; n += gridDim.y * blockDim.y)
    for (index_t s = static_cast<index_t>(blockIdx.z) * 32 + threadIdx.x; s < spatial; s += gridDim.z * 32) {
      const index_t i = (n * channels + c) * spatial + s;
      out[i] = to_scalar((to_acc(x[i]) - mean) * rstd * scale + shift);
    }
}

// Means in the type that is computed in, and 1 / sqrt(var + eps).
extern "C" __global__ void reciprocal_deviations(const scalar_t* __restrict__ mean, const scalar_t* __restrict__ var,
                                                 acc_t* __restrict__ wide_mean, acc_t* __restrict__ rstd, index_t channels,
                                                 acc_t eps) {
  for (index_t c = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; c < channels;
       c += static_cast<index_t>(gridDim.x) * blockDim.x) {
    wide_mean[c] = to_acc(mean[c]);
    rstd[c] = 1 / sqrt(to_acc(var[c]) + eps);
  }
}

// Sums of g and of g xhat over a chunk: (chunks, channels) each. mean and rstd are those of the sample (layer norm), or of
// the channel (batch norm).
extern "C" __global__ __launch_bounds__(1024) void gradient_sums_columns(
    const scalar_t* __restrict__ g, const scalar_t* __restrict__ x, const acc_t* __restrict__ mean,
    const acc_t* __restrict__ rstd, acc_t* __restrict__ sums, acc_t* __restrict__ products, index_t samples,
    index_t channels, int by_sample) {
  __shared__ acc_t part[1024];
  const index_t c = static_cast<index_t>(blockIdx.x) * 32 + threadIdx.x;
  const Chunk chunk = chunk_of(samples);
  acc_t sum = 0, product = 0;
  if (c < channels)
    for (index_t n = chunk.start + threadIdx.y; n < chunk.stop; n += blockDim.y) {
      const acc_t v = to_acc(g[n * channels + c]);
      const index_t at = by_sample ? n : c;
      sum += v;
      product += v * (to_acc(x[n * channels + c]) - mean[at]) * rstd[at];
    }
  sum = column_sum(sum, part);
  product = column_sum(product, part);
  if (c < channels && threadIdx.y == 0) {
    sums[blockIdx.y * channels + c] = sum;
    products[blockIdx.y * channels + c] = product;
  }
}

// groups: mean and rstd are those of n * groups + c / (channels / groups); 0: those of the channel.
extern "C" __global__ __launch_bounds__(256) void gradient_sums_planes(
    const scalar_t* __restrict__ g, const scalar_t* __restrict__ x, const acc_t* __restrict__ mean,
    const acc_t* __restrict__ rstd, acc_t* __restrict__ sums, acc_t* __restrict__ products, index_t samples,
    index_t channels, index_t spatial, index_t groups) {
  __shared__ acc_t part[32];
  const Chunk chunk = chunk_of(samples);
  for (index_t c = blockIdx.x; c < channels; c += gridDim.x) {
    acc_t sum = 0, product = 0;
    for (index_t n = chunk.start + threadIdx.y; n < chunk.stop; n += blockDim.y) {
      const index_t at = groups ? n * groups + c / (channels / groups) : c;
      const acc_t center = mean[at], scale = rstd[at];
      for (index_t s = threadIdx.x; s < spatial; s += 32) {
        const index_t i = (n * channels + c) * spatial + s;
        const acc_t v = to_acc(g[i]);
        sum += v;
        product += v * (to_acc(x[i]) - center) * scale;
      }
    }
    sum = plane_sum(sum, part);
    product = plane_sum(product, part);
    if (threadIdx.x == 0 && threadIdx.y == 0) {
      sums[blockIdx.y * channels + c] = sum;
      products[blockIdx.y * channels + c] = product;
    }
  }
}

// ---- batch norm, element by element: an array (rows, columns), blocks of (32, 8) threads. The channel is the column, or,
// if `by_row`, the row modulo the channels.

#define FOR_EACH_ELEMENT(r, c, rows, columns)                                                    \
  for (index_t r = static_cast<index_t>(blockIdx.y) * blockDim.y + threadIdx.y; r < (rows);      \
       r += static_cast<index_t>(gridDim.y) * blockDim.y)                                        \
    for (index_t c = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; c < (columns); \
         c += static_cast<index_t>(gridDim.x) * blockDim.x)

// (x - mean) * rstd * weight + bias; weight and bias may be null.
extern "C" __global__ void batch_norm_apply(const scalar_t* __restrict__ x, const acc_t* __restrict__ mean,
                                            const acc_t* __restrict__ rstd, const scalar_t* __restrict__ weight,
                                            const scalar_t* __restrict__ bias, scalar_t* __restrict__ out, index_t rows,
                                            index_t columns, index_t channels, int by_row) {
  FOR_EACH_ELEMENT(r, c, rows, columns) {
    const index_t k = by_row ? r % channels : c, i = r * columns + c;
    acc_t v = (to_acc(x[i]) - mean[k]) * rstd[k];
    if (weight) v *= to_acc(weight[k]);
    if (bias) v += to_acc(bias[k]);
    out[i] = to_scalar(v);
  }
}

// ---- the gradient of batch norm by x; `sums` and `products` are those of g and of g xhat over chunks: (chunks, channels). Each
// block adds them up for its channels, and one writes the gradients by bias and weight: by_bias and by_weight.

#define BATCH_NORM_BACKWARD                                                                                              \
  const scalar_t *__restrict__ g, const scalar_t *__restrict__ x, const acc_t *__restrict__ mean,                        \
      const acc_t *__restrict__ rstd, const scalar_t *__restrict__ weight, const acc_t *__restrict__ sums,               \
      const acc_t *__restrict__ products, const acc_t *__restrict__ g_mean, const acc_t *__restrict__ g_var,             \
      scalar_t *__restrict__ out, acc_t *__restrict__ by_bias, acc_t *__restrict__ by_weight, index_t samples,           \
      index_t channels, index_t spatial, index_t chunks

// weight rstd (g - sum / count - xhat product / count), and what comes by the means and variances: (g_mean + 2 g_var
// (x - mean)) / count, where those have gradients; g_mean and g_var may be null.
struct ChannelBackward {
  acc_t mean, rstd, scale, by_sum, by_product, by_mean, by_var;
  __device__ __forceinline__ ChannelBackward(acc_t sum, acc_t product, const acc_t* mean, const acc_t* rstd,
                                             const scalar_t* weight, const acc_t* g_mean, const acc_t* g_var, acc_t count,
                                             index_t c)
      : mean(mean[c]), rstd(rstd[c]), scale(weight ? to_acc(weight[c]) * rstd[c] : rstd[c]), by_sum(sum / count),
        by_product(product / count), by_mean(g_mean ? g_mean[c] / count : acc_t(0)),
        by_var(g_var ? 2 * g_var[c] / count : acc_t(0)) {}
  __device__ __forceinline__ scalar_t of(scalar_t g, scalar_t x) const {
    const acc_t d = to_acc(x) - mean;
    return to_scalar(scale * (to_acc(g) - by_sum - d * rstd * by_product) + (by_mean + by_var * d));
  }
};
__device__ __forceinline__ acc_t chunks_sum(const acc_t* v, index_t channels, index_t chunks, index_t c, index_t first,
                                            index_t step) {
  acc_t sum = 0;
  for (index_t k = first; k < chunks; k += step) sum += v[k * channels + c];
  return sum;
}

extern "C" __global__ __launch_bounds__(256) void batch_norm_backward_columns(BATCH_NORM_BACKWARD) {
  __shared__ acc_t part[256];
  const index_t c = static_cast<index_t>(blockIdx.x) * 32 + threadIdx.x, n_chunks = c < channels ? chunks : 0;
  const acc_t sum = column_sum(chunks_sum(sums, channels, n_chunks, c, threadIdx.y, blockDim.y), part);
  const acc_t product = column_sum(chunks_sum(products, channels, n_chunks, c, threadIdx.y, blockDim.y), part);
  if (c < channels) {
    if (blockIdx.y == 0 && threadIdx.y == 0) {
      by_bias[c] = sum;
      by_weight[c] = product;
    }
    const ChannelBackward channel(sum, product, mean, rstd, weight, g_mean, g_var, static_cast<acc_t>(samples), c);
    for (index_t n = static_cast<index_t>(blockIdx.y) * blockDim.y + threadIdx.y; n < samples; n += gridDim.y * blockDim.y) {
      const index_t i = n * channels + c;
      out[i] = channel.of(g[i], x[i]);
    }
  }
}

extern "C" __global__ __launch_bounds__(256) void batch_norm_backward_planes(BATCH_NORM_BACKWARD) {
  const index_t c = blockIdx.x;
  const acc_t sum = warp_reduce<Sum>(chunks_sum(sums, channels, chunks, c, threadIdx.x, 32));
  const acc_t product = warp_reduce<Sum>(chunks_sum(products, channels, chunks, c, threadIdx.x, 32));
  if (blockIdx.y == 0 && blockIdx.z == 0 && threadIdx.x == 0 && threadIdx.y == 0) {
    by_bias[c] = sum;
    by_weight[c] = product;
  }
  const acc_t count = static_cast<acc_t>(samples) * spatial;
  const ChannelBackward channel(sum, product, mean, rstd, weight, g_mean, g_var, count, c);
  for (index_t n = static_cast<index_t>(blockIdx.y) * blockDim.y + threadIdx.y; n < samples; n += gridDim.y * blockDim.y)
    for (index_t s = static_cast<index_t>(blockIdx.z) * 32 + threadIdx.x; s < spatial; s += gridDim.z * 32) {
      const index_t i = (n * channels + c) * spatial + s;
      out[i] = channel.of(g[i], x[i]);
    }
}
