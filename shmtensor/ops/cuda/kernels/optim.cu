// Steps of optimizers over flat blocks of parameters, in PyTorch's order of operations.
//
// The parameters (and the gradient) are scalar_t; the state is acc_t. scale: what the gradient is divided by, or null (a
// GradScaler's); found_inf: where it is not 0 nothing is changed, or null. Both are in device memory: a step waits for
// nothing.

#define FOR_EACH(i, n)                                                                   \
  for (index_t i = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < (n); \
       i += static_cast<index_t>(gridDim.x) * blockDim.x)

__device__ __forceinline__ bool skipped(const float* found_inf) { return found_inf && found_inf[0] != 0; }
__device__ __forceinline__ acc_t sign_of(const float* scale, int maximize) {
  const acc_t sign = maximize ? acc_t(-1) : acc_t(1);
  return scale ? sign / static_cast<acc_t>(scale[0]) : sign;
}

// Kingma, Ba: Adam (2014); Loshchilov, Hutter: decoupled weight decay (2017), by `shrink`; largest: AMSGrad's, or null.
// step, if it is not null, is the number of this update (from 1) in device memory; else the corrections are given.
extern "C" __global__ void adam(scalar_t* __restrict__ p, const scalar_t* __restrict__ g, acc_t* __restrict__ exp_avg,
                                acc_t* __restrict__ exp_avg_sq, acc_t* __restrict__ largest, index_t n, double lr,
                                double beta1, double beta2, acc_t eps, acc_t weight_decay, acc_t shrink, double correction1,
                                double correction2, int maximize, const float* __restrict__ step,
                                const float* __restrict__ scale, const float* __restrict__ found_inf) {
  if (skipped(found_inf)) return;
  const acc_t sign = sign_of(scale, maximize);
  if (step) {
    correction1 = 1 - pow(beta1, static_cast<double>(step[0]));
    correction2 = 1 - pow(beta2, static_cast<double>(step[0]));
  }
  const acc_t step_size = static_cast<acc_t>(lr / correction1), inverse = static_cast<acc_t>(1 / sqrt(correction2));
  const acc_t share1 = static_cast<acc_t>(1 - beta1), share2 = static_cast<acc_t>(1 - beta2);
  const acc_t decay2 = static_cast<acc_t>(beta2);
  FOR_EACH(i, n) {
    const acc_t x = to_acc(p[i]), d = sign * to_acc(g[i]) + weight_decay * x;
    const acc_t first = exp_avg[i] + share1 * (d - exp_avg[i]);
    acc_t second = exp_avg_sq[i] * decay2 + share2 * d * d;
    exp_avg[i] = first;
    exp_avg_sq[i] = second;
    if (largest) {
      second = largest[i] > second ? largest[i] : second;
      largest[i] = second;
    }
    p[i] = to_scalar(x * shrink - step_size * (first / (sqrt(second) * inverse + eps)));
  }
}

// Gradient descent with momentum (Sutskever et al. 2013). buffer: null without momentum; first: it is new; is_first, if it
// is not null, says so in device memory.
extern "C" __global__ void sgd(scalar_t* __restrict__ p, const scalar_t* __restrict__ g, acc_t* __restrict__ buffer,
                               index_t n, acc_t lr, acc_t momentum, acc_t dampening, acc_t weight_decay, int nesterov,
                               int maximize, int first, const bool* __restrict__ is_first,
                               const float* __restrict__ scale, const float* __restrict__ found_inf) {
  if (skipped(found_inf)) return;
  const bool is_new = is_first ? is_first[0] : first != 0;
  const acc_t sign = sign_of(scale, maximize);
  FOR_EACH(i, n) {
    const acc_t x = to_acc(p[i]);
    acc_t d = sign * to_acc(g[i]) + weight_decay * x;
    if (buffer) {
      const acc_t b = is_new ? d : momentum * buffer[i] + (1 - dampening) * d;
      buffer[i] = b;
      d = nesterov ? d + momentum * b : b;
    }
    p[i] = to_scalar(x - lr * d);
  }
}
