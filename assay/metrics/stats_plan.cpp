#include "assay/metrics/stats_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "assay/base/error.h"
#include "assay/kernels/decode.h"
#include "assay/kernels/kernels.h"
#include "assay/numerics/float_format.h"
#include "assay/numerics/rounding.h"

namespace assay {
namespace {

constexpr std::size_t kWidest = 16;  // bytes of one complex128

bool wide_int(DType d) { return is_exact(d) && traits(d).bits == 64; }

Arithmetic native(DType d) {
  switch (component(d)) {
    case DType::kBF16:
      return Arithmetic::kBf16;
    case DType::kF16:
      return Arithmetic::kF16;
    case DType::kF32:
      return Arithmetic::kF32;
    default:
      return Arithmetic::kF64;
  }
}

bool has_kernel(DType d) {
  const DType part = component(d);
  return part == DType::kF64 || native(part) != Arithmetic::kF64;
}

Arithmetic choose(DType golden, DType target, bool rounded) {
  if (golden == target && has_kernel(golden)) return native(golden);
  if (is_exact(golden) && is_exact(target) &&
      (wide_int(golden) || wide_int(target)))
    return Arithmetic::kInt64;
  if (!rounded && fits_bf16(golden) && fits_bf16(target))
    return Arithmetic::kBf16;
  if (fits_f32(golden) && fits_f32(target)) return Arithmetic::kF32;
  return Arithmetic::kF64;
}

bool is_wider(DType golden, DType target) {
  return !is_exact(golden) && !is_exact(target) &&
         traits(golden).mantissa_bits > traits(target).mantissa_bits;
}

DType coarser(DType golden, DType target) {
  return component(unit_roundoff(golden) > unit_roundoff(target) ? golden
                                                                 : target);
}

float round_to_bf16(float v) {
  const auto bits = std::bit_cast<std::uint32_t>(v);
  const std::uint32_t even = bits >> 16 & 1;
  const float r = std::bit_cast<float>((bits + 0x7fff + even) & 0xffff0000u);
  return std::isfinite(r) ? r : v;
}

template <typename T>
void round_values(DType dtype, T* values, std::int64_t n) {
  if constexpr (sizeof(T) == 4) {
    if (dtype == DType::kBF16) {
      for (std::int64_t i = 0; i < n; ++i) values[i] = round_to_bf16(values[i]);
      return;
    }
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const double r = round_to(dtype, values[i], Overflow::kSpecial);
    if (std::isfinite(r)) values[i] = static_cast<T>(r);
  }
}

}  // namespace

ChunkBuffers::ChunkBuffers() {
  for (int side = 0; side < 2; ++side) {
    raw[side] = std::make_unique_for_overwrite<std::byte[]>(kChunk * kWidest);
    decoded[side] =
        std::make_unique_for_overwrite<std::byte[]>(kChunk * sizeof(double));
  }
}

ChunkBuffers& thread_chunk_buffers() {
  static thread_local ChunkBuffers buffers;
  return buffers;
}

PairPlan::PairPlan(const TensorView& golden, const TensorView& target)
    : golden_(golden),
      target_(target),
      contiguous_{golden.is_contiguous(), target.is_contiguous()} {
  if (golden.shape != target.shape) {
    throw Error(Code::kUsage, "shapes differ: golden " +
                                  to_string(golden.shape) + ", target " +
                                  to_string(target.shape));
  }
  const bool parts = is_complex(golden.dtype) || is_complex(target.dtype);
  if (parts && is_complex(golden.dtype) != is_complex(target.dtype)) {
    throw Error(Code::kUsage, "a complex and a real tensor do not compare");
  }
  count_ = golden.numel() * (parts ? 2 : 1);
  judged_ = coarser(golden.dtype, target.dtype);
  rounded_ = is_wider(golden.dtype, target.dtype);
  arithmetic_ = choose(golden.dtype, target.dtype, rounded_);
  decodes_ = arithmetic_ != Arithmetic::kInt64 &&
             !(same_dtype() && has_kernel(golden.dtype));
}

std::int64_t PairPlan::chunks() const { return (count_ + kChunk - 1) / kChunk; }

const std::byte* PairPlan::raw(const TensorView& view, bool contiguous,
                               std::int64_t begin, std::int64_t n,
                               std::byte* buffer) const {
  const int parts = is_complex(view.dtype) ? 2 : 1;
  if (contiguous) return view.data + *storage_bytes(view.dtype, begin / parts);
  gather(view, begin / parts, n / parts, buffer);
  return buffer;
}

const void* PairPlan::decode(const TensorView& view, bool round,
                             const std::byte* raw, std::int64_t n,
                             std::byte* out) const {
  const DType to = component(target_.dtype);
  if (arithmetic_ == Arithmetic::kBf16) {
    decode_bf16(view.dtype, raw, n, reinterpret_cast<std::uint16_t*>(out));
  } else if (arithmetic_ == Arithmetic::kF32) {
    auto* values = reinterpret_cast<float*>(out);
    decode_f32(view.dtype, raw, n, values);
    if (round) round_values(to, values, n);
  } else {
    auto* values = reinterpret_cast<double*>(out);
    decode_f64(view.dtype, raw, n, values);
    if (round) round_values(to, values, n);
  }
  return out;
}

ChunkData PairPlan::load(std::int64_t chunk, ChunkBuffers& buffers) const {
  const std::int64_t begin = chunk * kChunk;
  ChunkData data;
  data.n = std::min(kChunk, count_ - begin);
  const std::byte* golden =
      raw(golden_, contiguous_[0], begin, data.n, buffers.raw[0].get());
  const std::byte* target =
      raw(target_, contiguous_[1], begin, data.n, buffers.raw[1].get());
  data.golden = golden;
  data.target = target;
  if (!decodes_) return data;
  const std::int64_t elements = is_complex(golden_.dtype) ? data.n / 2 : data.n;
  data.same_bytes =
      same_dtype() && std::memcmp(golden, target,
                                  static_cast<std::size_t>(*storage_bytes(
                                      golden_.dtype, elements))) == 0;
  data.golden =
      decode(golden_, rounded_, golden, data.n, buffers.decoded[0].get());
  data.target =
      decode(target_, false, target, data.n, buffers.decoded[1].get());
  return data;
}

}  // namespace assay
