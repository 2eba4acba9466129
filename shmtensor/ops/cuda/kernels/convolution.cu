// What a convolution needs besides cuDNN.

// x[i] += bias[channel of i] for dense images of n elements: `inner` neighbouring elements are of one channel, 1 in
// channels_last. A thread has 16 bytes, at once if they are aligned.
extern "C" __global__ void add_to_channels(scalar_t* __restrict__ x, const scalar_t* __restrict__ bias, index_t n,
                                           index_t inner, index_t channels) {
  const index_t first = (static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x) * PACK;
  if (first + PACK <= n && inner % PACK == 0 && is_aligned<PACK>(x)) {
    const acc_t b = to_acc(bias[first / inner % channels]);
    pack_t<PACK> pack = *reinterpret_cast<const pack_t<PACK>*>(x + first);
#pragma unroll
    for (int k = 0; k < PACK; k++) pack.at[k] = to_scalar(to_acc(pack.at[k]) + b);
    *reinterpret_cast<pack_t<PACK>*>(x + first) = pack;
  } else if (first + PACK <= n && inner == 1 && channels % PACK == 0 && is_aligned<PACK>(x) && is_aligned<PACK>(bias)) {
    pack_t<PACK> pack = *reinterpret_cast<const pack_t<PACK>*>(x + first);
    const pack_t<PACK> b = *reinterpret_cast<const pack_t<PACK>*>(bias + first % channels);
#pragma unroll
    for (int k = 0; k < PACK; k++) pack.at[k] = to_scalar(to_acc(pack.at[k]) + to_acc(b.at[k]));
    *reinterpret_cast<pack_t<PACK>*>(x + first) = pack;
  } else {
    for (index_t i = first; i < n && i < first + PACK; i++) x[i] = to_scalar(to_acc(x[i]) + to_acc(bias[i / inner % channels]));
  }
}
