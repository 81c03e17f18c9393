// Kernels of LayerNorm, RMSNorm and L2 normalisation over rows of a matrix.
//
// Formulas: NVTE (docs/numerics.md, normalization). With d = x - mean (RMSNorm:
// x),
//   rsigma = 1 / sqrt(sum(d^2) / divisor + eps),  y = d rsigma,
//   z = y gamma + beta,
//   dx = rsigma (t - (y sum(t y) / divisor + sum(t) / divisor)),  t = dz gamma
// (no sum(t) term without a mean). The variance is taken in a second pass.
#pragma once

#include <cstdint>
#include <span>

#include "assay/core/device.h"
#include "assay/core/dtype.h"
#include "assay/numerics/internal_precision.h"

namespace assay {

// The order of per-column fp32 and fp64 arrays that kernels take (gamma, beta,
// partial sums): kPaired has, of every 32 columns, the even ones first. Such
// arrays hold columns rounded up to 32, with zeros beyond the last.
enum class ColumnOrder : std::uint8_t { kPlain, kPaired };
inline constexpr std::int64_t kColumnBlock = 32;
constexpr std::int64_t padded_columns(std::int64_t columns) {
  return (columns + kColumnBlock - 1) / kColumnBlock * kColumnBlock;
}
// Where column `j` stands.
constexpr std::int64_t column_place(ColumnOrder order, std::int64_t j) {
  if (order == ColumnOrder::kPlain) return j;
  const std::int64_t inside = j % kColumnBlock;
  return j - inside + inside / 2 + inside % 2 * (kColumnBlock / 2);
}

// What both directions share. Tensors are row-major with `columns` columns;
// `dtype` is float32, bfloat16 or float16 and that of x, residual, dz, dx.
struct NormArgs {
  DType dtype = DType::kF32;
  std::int64_t columns = 0;
  bool centred = false;  // LayerNorm
  double divisor = 1;    // of the sums: columns, or 1 for L2
  float eps = 0;
  const void* x = nullptr;
  const float* gamma = nullptr;  // in the table's column order
  const float* beta = nullptr;   // null: zero
  float* mean = nullptr;         // [rows], centred only
  float* rsigma = nullptr;       // [rows]
};

struct NormForwardArgs : NormArgs {
  // Where not null: sum = round(x + residual) is stored and normalised.
  const void* residual = nullptr;
  void* sum = nullptr;
  DType out = DType::kF32;  // `dtype` or float32
  void* z = nullptr;        // row 0 of it is row `begin`
};

struct NormBackwardArgs : NormArgs {  // reads mean and rsigma
  const void* dz = nullptr;
  const void* add = nullptr;  // added to dx in fp32; null: zero
  void* dx = nullptr;
};

// Rows [begin, end). The vector tables agree bit by bit; against the fp64
// loops (u = 2^-24, n columns, s = sum of the magnitudes of the terms):
// mean 2 sqrt(n) u s / n, rsigma (2 sqrt(n) + 4) u, z and dx 8 u of their terms
// beyond what those move.
struct NormKernels {
  const char* isa;
  ColumnOrder (*order)(DType dtype, DType out);
  void (*forward)(const NormForwardArgs& args, std::int64_t begin,
                  std::int64_t end);
  void (*backward)(const NormBackwardArgs& args, std::int64_t begin,
                   std::int64_t end);
  // dgamma[j] += sum over the rows of dz y, dbeta[j] (null: not wanted) +=
  // sum of dz, in the order of (dtype, dtype). Sixteen rows at a time in fp32,
  // those in fp64.
  void (*param_grads)(const NormBackwardArgs& args, std::int64_t begin,
                      std::int64_t end, double* dgamma, double* dbeta);
};

const NormKernels& norm_kernels(Device device);
std::span<const NormKernels* const> all_norm_kernels();
// The plain loops with every sum formed in `precision`, element after element;
// kF64 is the reference. param_grads of the others sums all its rows in one
// accumulator.
const NormKernels& plain_norm_kernels(InternalPrecision precision);

}  // namespace assay
