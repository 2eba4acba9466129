// Cross entropy of logits (rows, columns) and a class for each row, and nll_loss of (outer, classes, inner), with weights of
// the classes (null: 1), an index that does not count, and label smoothing. A class that is not there makes its loss, and
// its row of the gradient, NaN: an error would have to wait for the device.
//
// Losses are added up in two stages: each block writes its sums of losses and of weights, then one block adds those up. A block
// that is alone finishes at once.

// The class of a target, and what it counts.
struct Target {
  index_t c;
  acc_t weight;
  bool counts;
};
__device__ __forceinline__ Target target_of(const index_t* targets, const scalar_t* weight, index_t i, index_t classes,
                                            index_t ignore) {
  const index_t c = targets[i];
  if (c == ignore) return Target{0, 0, false};
  if (c < 0 || c >= classes) return Target{0, NAN, true};
  return Target{c, weight ? to_acc(weight[c]) : acc_t(1), true};
}

__device__ void write_sums(acc_t loss, acc_t weight, acc_t* sums, acc_t* part) {
  loss = block_reduce<Sum>(loss, part);
  weight = block_reduce<Sum>(weight, part);
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = loss;
    sums[gridDim.x + blockIdx.x] = weight;
  }
}

// The sum of the losses, or their mean: over the sum of the weights, which is written in any case.
__device__ __forceinline__ void write_result(acc_t loss, acc_t weight, scalar_t* out, acc_t* total, int mean) {
  if (out) out[0] = to_scalar(mean ? loss / weight : loss);
  if (total) total[0] = weight;
}

// lse: the logarithms of the sums of exponentials, for the gradient, and then the sum of the weights. losses may be null.
// smoothing is the share of all classes.
template <class Threads>
__device__ __forceinline__ void forward(const scalar_t* x, const index_t* targets, const scalar_t* weight, acc_t* lse,
                                        scalar_t* losses, acc_t* sums, index_t rows, index_t columns, index_t ignore,
                                        acc_t smoothing, scalar_t* out, int mean, acc_t* part) {
  acc_t loss_sum = 0, weight_sum = 0;
  for (index_t r = Threads::row(); r < rows; r += Threads::rows()) {
    const scalar_t* row = x + r * columns;
    acc_t largest = -INFINITY, sum = 0, all = 0, all_weights = 0;
    for (index_t c = Threads::first(); c < columns; c += Threads::step()) largest = Max::of(largest, to_acc(row[c]));
    largest = Threads::template reduce<Max>(largest, part);
    for (index_t c = Threads::first(); c < columns; c += Threads::step()) {
      const acc_t v = to_acc(row[c]);
      sum += exp(v - largest);
      if (smoothing > 0) {
        const acc_t w = weight ? to_acc(weight[c]) : acc_t(1);
        all += w * v;
        all_weights += w;
      }
    }
    const acc_t log_sum = largest + log(Threads::template reduce<Sum>(sum, part));
    if (smoothing > 0) {
      all = Threads::template reduce<Sum>(all, part);
      all_weights = Threads::template reduce<Sum>(all_weights, part);
    }
    if (Threads::first() == 0) {
      const Target target = target_of(targets, weight, r, columns, ignore);
      acc_t loss = 0;
      if (target.counts) loss = target.weight * (log_sum - to_acc(row[target.c]));
      if (target.counts && smoothing > 0)
        loss = (1 - smoothing) * loss + smoothing / columns * (log_sum * all_weights - all);
      lse[r] = log_sum;
      if (losses) losses[r] = to_scalar(loss);
      loss_sum += loss;
      weight_sum += target.weight;
    }
  }
  if (gridDim.x > 1) {
    write_sums(loss_sum, weight_sum, sums, part);
    return;
  }
  loss_sum = block_reduce<Sum>(loss_sum, part);
  weight_sum = block_reduce<Sum>(weight_sum, part);
  if (threadIdx.x == 0) write_result(loss_sum, weight_sum, out, lse + rows, mean);
}

extern "C" __global__ __launch_bounds__(1024) void cross_entropy_warp(
    const scalar_t* __restrict__ x, const index_t* __restrict__ targets, const scalar_t* __restrict__ weight,
    acc_t* __restrict__ lse, scalar_t* __restrict__ losses, acc_t* __restrict__ sums, scalar_t* __restrict__ out,
    index_t rows, index_t columns, index_t ignore, acc_t smoothing, int mean) {
  __shared__ acc_t part[32];
  forward<Warp>(x, targets, weight, lse, losses, sums, rows, columns, ignore, smoothing, out, mean, part);
}
extern "C" __global__ __launch_bounds__(1024) void cross_entropy_block(
    const scalar_t* __restrict__ x, const index_t* __restrict__ targets, const scalar_t* __restrict__ weight,
    acc_t* __restrict__ lse, scalar_t* __restrict__ losses, acc_t* __restrict__ sums, scalar_t* __restrict__ out,
    index_t rows, index_t columns, index_t ignore, acc_t smoothing, int mean) {
  __shared__ acc_t part[32];
  forward<Block>(x, targets, weight, lse, losses, sums, rows, columns, ignore, smoothing, out, mean, part);
}

// The second stage. One block.
extern "C" __global__ void finish(const acc_t* __restrict__ sums, scalar_t* __restrict__ out, acc_t* __restrict__ total,
                                  index_t blocks, int mean) {
  __shared__ acc_t part[32];
  acc_t loss = 0, weight = 0;
  for (index_t i = threadIdx.x; i < blocks; i += blockDim.x) {
    loss += sums[i];
    weight += sums[blocks + i];
  }
  loss = block_reduce<Sum>(loss, part);
  weight = block_reduce<Sum>(weight, part);
  if (threadIdx.x == 0) write_result(loss, weight, out, total, mean);
}

// The gradient by the logits. g: one number, or one of each row (per_row); mean: it is divided by the sum of the weights.
template <class Threads>
__device__ __forceinline__ void backward(const scalar_t* g, const scalar_t* x, const acc_t* lse, const index_t* targets,
                                         const scalar_t* weight, scalar_t* out, index_t rows, index_t columns,
                                         index_t ignore, acc_t smoothing, int per_row, int mean, acc_t* part) {
  acc_t all_weights = static_cast<acc_t>(columns);
  if (smoothing > 0 && weight) {  // the same for each row
    acc_t sum = 0;
    for (index_t c = Threads::first(); c < columns; c += Threads::step()) sum += to_acc(weight[c]);
    all_weights = Threads::template reduce<Sum>(sum, part);
  }
  for (index_t r = Threads::row(); r < rows; r += Threads::rows()) {
    const Target target = target_of(targets, weight, r, columns, ignore);
    acc_t scale = to_acc(g[per_row ? r : 0]);
    if (mean) scale /= lse[rows];
    const acc_t one = (1 - smoothing) * target.weight * scale, even = smoothing / columns * scale, log_sum = lse[r];
    for (index_t c = Threads::first(); c < columns; c += Threads::step()) {
      acc_t v = 0;
      if (target.counts) {
        const acc_t p = exp(to_acc(x[r * columns + c]) - log_sum);
        v = one * (c == target.c ? p - 1 : p);
        if (smoothing > 0) v += even * (all_weights * p - (weight ? to_acc(weight[c]) : acc_t(1)));
      }
      out[r * columns + c] = to_scalar(v);
    }
  }
}

extern "C" __global__ __launch_bounds__(256) void cross_entropy_backward_warp(
    const scalar_t* __restrict__ g, const scalar_t* __restrict__ x, const acc_t* __restrict__ lse,
    const index_t* __restrict__ targets, const scalar_t* __restrict__ weight, scalar_t* __restrict__ out, index_t rows,
    index_t columns, index_t ignore, acc_t smoothing, int per_row, int mean) {
  backward<Warp>(g, x, lse, targets, weight, out, rows, columns, ignore, smoothing, per_row, mean, nullptr);
}
extern "C" __global__ __launch_bounds__(1024) void cross_entropy_backward_block(
    const scalar_t* __restrict__ g, const scalar_t* __restrict__ x, const acc_t* __restrict__ lse,
    const index_t* __restrict__ targets, const scalar_t* __restrict__ weight, scalar_t* __restrict__ out, index_t rows,
    index_t columns, index_t ignore, acc_t smoothing, int per_row, int mean) {
  __shared__ acc_t part[32];
  backward<Block>(g, x, lse, targets, weight, out, rows, columns, ignore, smoothing, per_row, mean, part);
}

// -weight[c] x[n, c, i] for each target (outer, inner). x null: only the sums of the weights are of use. losses may be null.
extern "C" __global__ __launch_bounds__(256) void nll_loss(
    const scalar_t* __restrict__ x, const index_t* __restrict__ targets, const scalar_t* __restrict__ weight,
    scalar_t* __restrict__ losses, acc_t* __restrict__ sums, index_t outer, index_t classes, index_t inner,
    index_t ignore) {
  __shared__ acc_t part[32];
  acc_t loss_sum = 0, weight_sum = 0;
  for (index_t i = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < outer * inner;
       i += static_cast<index_t>(gridDim.x) * blockDim.x) {
    const Target target = target_of(targets, weight, i, classes, ignore);
    acc_t loss = 0;
    if (target.counts && x) loss = -target.weight * to_acc(x[(i / inner * classes + target.c) * inner + i % inner]);
    if (losses) losses[i] = to_scalar(loss);
    loss_sum += loss;
    weight_sum += target.weight;
  }
  write_sums(loss_sum, weight_sum, sums, part);
}

// -weight[c] g at each target, in an array of zeros. A class that is not there makes the gradient of class 0 NaN.
extern "C" __global__ void nll_loss_backward(const scalar_t* __restrict__ g, const index_t* __restrict__ targets,
                                             const scalar_t* __restrict__ weight, const acc_t* __restrict__ total,
                                             scalar_t* __restrict__ out, index_t outer, index_t classes, index_t inner,
                                             index_t ignore, int per_row) {
  for (index_t i = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < outer * inner;
       i += static_cast<index_t>(gridDim.x) * blockDim.x) {
    const Target target = target_of(targets, weight, i, classes, ignore);
    if (!target.counts) continue;
    acc_t v = -target.weight * to_acc(g[per_row ? i : 0]);
    if (total) v /= total[0];
    out[(i / inner * classes + target.c) * inner + i % inner] = to_scalar(v);
  }
}
