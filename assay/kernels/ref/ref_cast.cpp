// Casts as plain loops over the specification of the formats.
#include "assay/kernels/ref/ref_cast.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/kernels/scalar_half.h"
#include "assay/numerics/float_format.h"

namespace assay {
namespace {

struct F32 {
  using T = float;
  static float value(float x) { return x; }
  static float round(double x) {
    if (is_nan(x)) return std::numeric_limits<float>::quiet_NaN();
    return static_cast<float>(x);
  }
};
struct Bf16 {
  using T = std::uint16_t;
  static float value(T code) { return bf16_value(code); }
  static T round(double x) {
    return static_cast<T>(encode_float(DType::kBF16, x));
  }
};
struct F16 {
  using T = std::uint16_t;
  static float value(T code) { return f16_value(code); }
  static T round(double x) {
    return static_cast<T>(encode_float(DType::kF16, x));
  }
};

// fp32 products, whatever precision the compiler would keep.
float product(float a, float b) {
  return static_cast<float>(static_cast<double>(a) * b);
}

// `most` where x is any NaN: std::fmax makes a NaN of a signalling one.
float larger(float most, float x) { return x > most ? x : most; }

template <typename Type, std::size_t kIndex>
struct Format {
  using T = typename Type::T;
  static constexpr DType kFormat = kCastFormats[kIndex];

  static std::uint8_t code(T x, float factor) {
    const double scaled = product(Type::value(x), factor);
    return static_cast<std::uint8_t>(encode_float(kFormat, scaled));
  }
  static T value(std::uint8_t code, float factor) {
    const auto q = static_cast<float>(decode_float(kFormat, code));
    return Type::round(product(q, factor));
  }

  static void cast(const T* x, std::int64_t n, float factor,
                   std::uint8_t* out) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = code(x[i], factor);
  }
  static void cast_blocks(const T* x, std::int64_t n, std::int64_t block,
                          const float* factors, std::uint8_t* out) {
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = code(x[i], factors[i / block]);
  }
  static void cast_columns(const T* x, std::int64_t stride, std::int64_t rows,
                           std::int64_t columns, const float* factors,
                           std::uint8_t* out, std::int64_t out_stride) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        out[r * out_stride + c] = code(x[r * stride + c], factors[c]);
  }
  static void decode(const std::uint8_t* codes, std::int64_t n, float factor,
                     T* out) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = value(codes[i], factor);
  }
  static void decode_blocks(const std::uint8_t* codes, std::int64_t n,
                            std::int64_t block, const float* factors, T* out) {
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = value(codes[i], factors[i / block]);
  }
  static void decode_each(const std::uint8_t* codes, std::int64_t n,
                          const float* factors, T* out) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = value(codes[i], factors[i]);
  }
  static constexpr CastFormat<T> table() {
    return {&cast,   &cast_blocks,   &cast_columns,
            &decode, &decode_blocks, &decode_each};
  }
};

template <typename Type>
struct Rows {
  using T = typename Type::T;

  static float amax(const T* x, std::int64_t n) {
    float most = 0;
    for (std::int64_t i = 0; i < n; ++i)
      most = larger(most, std::fabs(Type::value(x[i])));
    return most;
  }
  static void amax_blocks(const T* x, std::int64_t n, std::int64_t block,
                          float* out) {
    for (std::int64_t i = 0; i < n; i += block)
      out[i / block] = amax(x + i, std::min(block, n - i));
  }
  static void amax_columns(const T* x, std::int64_t stride, std::int64_t rows,
                           std::int64_t columns, float* out) {
    std::fill(out, out + columns, 0.0f);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        out[c] = larger(out[c], std::fabs(Type::value(x[r * stride + c])));
  }
  static void round(const float* x, std::int64_t n, T* out) {
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = Type::round(static_cast<double>(x[i]));
  }
  template <std::size_t... kIndex>
  static constexpr CastType<T> table(std::index_sequence<kIndex...>) {
    return {
        &amax, &amax_blocks, &amax_columns, {Format<Type, kIndex>::table()...}};
  }
  static constexpr CastType<T> table() {
    return table(std::make_index_sequence<kCastFormats.size()>());
  }
};

void transpose(const std::uint8_t* in, std::int64_t in_stride,
               std::int64_t rows, std::int64_t columns, std::uint8_t* out,
               std::int64_t out_stride) {
  for (std::int64_t c = 0; c < columns; ++c)
    for (std::int64_t r = 0; r < rows; ++r)
      out[c * out_stride + r] = in[r * in_stride + c];
}

}  // namespace

const CastKernels kRefCast = {
    "scalar",           Rows<F32>::table(), Rows<Bf16>::table(),
    Rows<F16>::table(), &Rows<Bf16>::round, &Rows<F16>::round,
    &transpose};

}  // namespace assay
