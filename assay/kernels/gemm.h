// Kernels of a matrix product D = epilogue(R C^T): two operands of any dtype
// and scaling, sums in fp32.
//
// Arithmetic of the fast kernels (the plain loops of ref/ sum in fp64):
//  - Operands of 8 bits or fewer, with their MXFP8 or NVFP4 block scales, are
//    exact in bf16 and go to the bf16 units (AMX, AVX512_BF16) where the
//    machine has one, as bf16 operands do; a product of two bf16 is exact in
//    fp32. Everything else, fp16 too, goes to fp32 fused multiply-adds: fp32
//    operands are never rounded to TF32 or bf16.
//  - fp32 units add the products of kGemmChunk consecutive k in order, the
//    chunks in order: the same bits on every instruction set. AMX adds 16 even
//    and 16 odd products apart, then to the sum so far (Intel SDM,
//    TDPBF16PS); AVX512_BF16 as VDPBF16PS does.
//  - The bf16 units read subnormals as zero and flush subnormal sums. A product
//    uses them only where neither can happen, which the packing finds out: no
//    subnormal operand, and the exponents of the smallest operands so large
//    that no sum of products has a nonzero bit below 2^-126. Operands that
//    fail are multiplied by a power of two where that mends it, or else go to
//    the fp32 unit. MXFP8 operands are multiplied by one too, so that their
//    largest scale is 1; where scales differ so much that fp32 does not hold
//    the products, the plain loops do them. Nothing is flushed on any path.
//  - Which sums are formed depends on the shape and the values, never on the
//    number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "assay/core/device.h"
#include "assay/core/dtype.h"
#include "assay/numerics/internal_precision.h"

namespace assay {

// Block scales by which an element is multiplied before it is summed.
enum class GemmFold : std::uint8_t {
  kNone,
  kE8M0,  // MXFP8: 32 consecutive k
  kE4M3,  // NVFP4: 16 consecutive k; exact in bf16 with e2m1 codes
};
constexpr std::int64_t gemm_fold_block(GemmFold fold) {
  return fold == GemmFold::kE4M3 ? 16 : 32;
}

// An outer x k operand in memory: R is M x K, C is N x K.
struct GemmView {
  DType dtype = DType::kF32;  // f32, bf16, f16, e4m3fn, e5m2, e2m1
  const std::byte* data = nullptr;
  std::int64_t outer = 0, k = 0;
  // Element (o, i) is at o * stride + i, or where k is not contiguous at
  // i * stride + o, in elements. e2m1: k contiguous, stride even.
  bool k_contiguous = true;
  std::int64_t stride = 0;
  GemmFold fold = GemmFold::kNone;
  // The scale of (o, i) is at o * scale_outer + (i / block) * scale_k.
  const std::uint8_t* scales = nullptr;
  std::int64_t scale_outer = 0, scale_k = 0;
};

// Scales of 128 consecutive k each, applied to the fp32 sum of their products:
//   t = partial * first; sum = fma(t, second, sum)
// with first the scale of the row, second that of the column, or the other way
// round (NVTE, blockwise GEMM reference).
struct GemmBlockScales {
  const float* row = nullptr;     // [ceil(K/128)][M]
  const float* column = nullptr;  // [ceil(K/128)][N]
  bool column_first = false;
};
inline constexpr std::int64_t kGemmScaleBlock = 128;
inline constexpr std::int64_t kGemmChunk = 256;

// u = x (linear + cubic x^2) of the tanh form, u' = linear + square x^2, as
// NVTE's kernels spell them (trap T12).
inline constexpr double kGeluLinear = 0.79788456, kGeluCubic = 0.03567741,
                        kGeluSlopeSquare = 0.1070322243;

enum class GemmActivation : std::uint8_t { kNone, kGelu, kDGelu };

// v = sum * alpha * row_alpha + beta * c + bias; kGelu: aux = v, v = gelu(v);
// kDGelu: v = v * gelu'(aux). All in fp32 (ref/: fp64), then one rounding to
// d. gelu is the tanh form as x * sigmoid(2u): for an fp32 d in fp64 and
// rounded to fp32, else in fp32 as activation.h does it. Before the rounding to
// d that is within (4 + 4 |u|) 2^-24 of gelu, and (4 + 8 |u|) 2^-24 of the two
// terms of its derivative.
// fp8 d: the saturated v * d_scale; amax is max |v| before d_scale, NaN
// skipped.
struct GemmEpilogue {
  double alpha = 1;
  const float* row_alpha = nullptr;  // [M]
  float beta = 0;
  const std::byte* c = nullptr;  // M x N of c_dtype; may be d
  DType c_dtype = DType::kF32;
  const float* bias = nullptr;  // [N]
  GemmActivation activation = GemmActivation::kNone;
  std::byte* aux = nullptr;  // M x N of aux_dtype; may be null under kGelu
  DType aux_dtype = DType::kF32;
  std::byte* d = nullptr;  // M x N: f32, bf16, f16, e4m3fn, e5m2
  DType d_dtype = DType::kF32;
  float d_scale = 1;
  float* amax = nullptr;          // [1], overwritten; may be null
  double* column_sums = nullptr;  // [N], of v before rounding; may be null
};

struct GemmProblem {
  GemmView row, column;  // row.k == column.k
  GemmBlockScales block;
  GemmEpilogue epilogue;
};

struct GemmKernels {
  const char* isa;   // "scalar", "avx2", "avx512", "neon"
  const char* unit;  // what forms bf16 products: "fp64", "fp32",
                     // "avx512_bf16", "amx"
  // Writes d, aux, amax and column_sums. Any M, N, K from 0. Splits itself
  // over threads.
  void (*gemm)(const GemmProblem& problem);
};

// Fastest first; the tables of one instruction set differ in `unit`.
const GemmKernels& gemm_kernels(Device device);
std::span<const GemmKernels* const> all_gemm_kernels();

// The same product as plain loops with another accumulator: every sum over k
// (with block scales: over 128 k) in `precision`. kWorking rounds each partial
// sum to `working`; kF64 rounds nothing before d; kF32 here is the plain loop
// of ref/: fp64 sums, block-128 partial sums rounded once to fp32 and scaled
// in fp32.
void gemm_plain(const GemmProblem& problem, InternalPrecision precision,
                DType working);

}  // namespace assay
