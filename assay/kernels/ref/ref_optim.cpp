// Optimizers and norms as plain loops in fp64, and the choice between all
// tables.
#include <algorithm>
#include <cmath>
#include <vector>

#include "assay/kernels/optim.h"
#include "assay/kernels/remainder.h"
#include "assay/kernels/simd/simd_optim.h"

namespace assay {
namespace {

void adam(const float* g, float* p, float* m, float* v, std::int64_t n,
          const AdamStep& s) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double param = p[i];
    double grad = g[i];
    if (!s.decoupled) grad += static_cast<double>(s.weight_decay) * param;
    const double first = static_cast<double>(s.beta1) * m[i] +
                         static_cast<double>(s.beta1_complement) * grad;
    const double second = static_cast<double>(s.beta2) * v[i] +
                          static_cast<double>(s.beta2_complement) * grad * grad;
    double update = first / static_cast<double>(s.correction1) /
                    (std::sqrt(second / static_cast<double>(s.correction2)) +
                     static_cast<double>(s.eps));
    if (s.decoupled) update += static_cast<double>(s.weight_decay) * param;
    m[i] = static_cast<float>(first);
    v[i] = static_cast<float>(second);
    p[i] = static_cast<float>(param - static_cast<double>(s.lr) * update);
  }
}

void sgd(const float* g, float* p, float* buffer, std::int64_t n,
         const SgdStep& s) {
  const double momentum = s.momentum, decay = s.weight_decay;
  for (std::int64_t i = 0; i < n; ++i) {
    const double param = p[i];
    double grad = g[i];
    if (!s.decay_after_momentum) grad += decay * param;
    if (momentum != 0) {
      const double kept =
          s.first_run ? grad
                      : momentum * static_cast<double>(buffer[i]) +
                            static_cast<double>(s.dampening_complement) * grad;
      grad = s.nesterov ? grad + momentum * kept : kept;
      buffer[i] = static_cast<float>(kept);
    }
    if (s.decay_after_momentum) grad += decay * param;
    p[i] = static_cast<float>(param - static_cast<double>(s.lr) * grad);
  }
}

bool scale(const float* in, float factor, std::int64_t n, float* out) {
  bool finite = true;
  for (std::int64_t i = 0; i < n; ++i) {
    finite = finite && std::isfinite(in[i]);
    out[i] = static_cast<float>(static_cast<double>(in[i]) *
                                static_cast<double>(factor));
  }
  return finite;
}

double sum_squares(const float* x, float factor, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double scaled = x[i] * factor;
    sum += scaled * scaled;
  }
  return sum;
}

float absmax(const float* x, std::int64_t n) {
  float top = 0;
  for (std::int64_t i = 0; i < n; ++i)
    if (std::fabs(x[i]) > top) top = std::fabs(x[i]);
  return top;
}

void join(const std::uint16_t* high, const std::int16_t* low, std::int64_t n,
          float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = join_remainder(high[i], low[i]);
}

void split(const float* in, std::int64_t n, std::uint16_t* high,
           std::int16_t* low) {
  for (std::int64_t i = 0; i < n; ++i) split_remainder(in[i], high[i], low[i]);
}

constexpr OptimKernels kScalar = {
    "scalar", &adam, &sgd, &scale, &sum_squares, &absmax, &join, &split,
};

const std::vector<const OptimKernels*>& tables() {
  static const std::vector<const OptimKernels*> all = [] {
    std::vector<const OptimKernels*> found = simd_optim_tables();
    found.push_back(&kScalar);
    return found;
  }();
  return all;
}

}  // namespace

std::span<const OptimKernels* const> all_optim_kernels() { return tables(); }

const OptimKernels& optim_kernels(Device device) {
  return choose_family<OptimKernels>(tables(), device);
}

}  // namespace assay
