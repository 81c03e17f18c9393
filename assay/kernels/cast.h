// Kernels that quantise rows to 8-bit floats and back: amax, scaled cast,
// scaled decode, byte transpose. Every recipe is made of these.
//
// Cast: code = sat(RN(float(x) * factor)), the product rounded to fp32 once,
// ties to even, infinities and overflow saturated, NaN to nan_code(format).
// Decode: float(code) * factor in fp32, rounded to nearest even; any NaN is
// the quiet one with an empty payload. (NVTE; docs/numerics.md.) Outputs are
// overwritten. Every instruction set gives the same bits. Strides are in
// elements. Inputs need no alignment; n = 0 is allowed.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "assay/core/dtype.h"
#include "assay/kernels/family.h"

namespace assay {

// The 8-bit float formats that a tensor can be quantised to, in the order of
// the arrays below.
inline constexpr std::array kCastFormats = {DType::kE4M3FN, DType::kE5M2,
                                            DType::kE4M3FNUZ, DType::kE5M2FNUZ};

// Position of `format` in kCastFormats, -1 where it is none of them.
constexpr int cast_format_index(DType format) {
  for (int i = 0; i < static_cast<int>(kCastFormats.size()); ++i)
    if (kCastFormats[static_cast<std::size_t>(i)] == format) return i;
  return -1;
}

// To and from one 8-bit format; T is float, or the codes of bf16 or f16.
template <typename T>
struct CastFormat {
  // One factor for the row; block `b` of a row, elements [b * block,
  // (b + 1) * block), has factors[b] (the last may be short); each column of a
  // tile its own.
  void (*cast)(const T* x, std::int64_t n, float factor, std::uint8_t* out);
  void (*cast_blocks)(const T* x, std::int64_t n, std::int64_t block,
                      const float* factors, std::uint8_t* out);
  void (*cast_columns)(const T* x, std::int64_t stride, std::int64_t rows,
                       std::int64_t columns, const float* factors,
                       std::uint8_t* out, std::int64_t out_stride);
  void (*decode)(const std::uint8_t* codes, std::int64_t n, float factor,
                 T* out);
  void (*decode_blocks)(const std::uint8_t* codes, std::int64_t n,
                        std::int64_t block, const float* factors, T* out);
  // Each element its own.
  void (*decode_each)(const std::uint8_t* codes, std::int64_t n,
                      const float* factors, T* out);
};

template <typename T>
struct CastType {
  // Largest |x|: NaN is skipped, quiet or signalling; 0 where nothing is left.
  float (*amax)(const T* x, std::int64_t n);
  // amax of each block, as for cast_blocks.
  void (*amax_blocks)(const T* x, std::int64_t n, std::int64_t block,
                      float* amax);
  // amax of each column of a tile; 0 where there are no rows.
  void (*amax_columns)(const T* x, std::int64_t stride, std::int64_t rows,
                       std::int64_t columns, float* amax);
  std::array<CastFormat<T>, kCastFormats.size()> format;
};

struct CastKernels {
  const char* isa;
  CastType<float> f32;
  CastType<std::uint16_t> bf16, f16;
  // fp32 to the codes of a half format, nearest even, overflow to infinity;
  // any NaN becomes the quiet one with an empty payload.
  void (*to_bf16)(const float* x, std::int64_t n, std::uint16_t* out);
  void (*to_f16)(const float* x, std::int64_t n, std::uint16_t* out);
  // out[c * out_stride + r] = in[r * in_stride + c], strides in bytes.
  void (*transpose)(const std::uint8_t* in, std::int64_t in_stride,
                    std::int64_t rows, std::int64_t columns, std::uint8_t* out,
                    std::int64_t out_stride);
};

// The table of `device`, chosen once; thread-safe.
const CastKernels& cast_kernels(Device device);

// Every table of this machine, best first, "scalar" last.
std::span<const CastKernels* const> all_cast_kernels();

// Calls body(type, T{}) with the part of the table for a float32, bfloat16 or
// float16 dtype; the caller has checked that it is one of them.
template <typename Body>
decltype(auto) with_cast_type(const CastKernels& kernels, DType dtype,
                              Body&& body) {
  switch (dtype) {
    case DType::kBF16:
      return body(kernels.bf16, std::uint16_t{});
    case DType::kF16:
      return body(kernels.f16, std::uint16_t{});
    default:
      return body(kernels.f32, float{});
  }
}

}  // namespace assay
