// Conversions as plain loops over the specification, and the choice between
// all tables.
#include <cstring>
#include <vector>

#include "assay/kernels/convert.h"
#include "assay/kernels/simd/simd_convert.h"
#include "assay/numerics/element.h"

namespace assay {
namespace {

template <DType kDType>
void widen(const std::byte* in, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i)
    out[i] = static_cast<float>(load_as_double(kDType, in, i));
}

template <DType kDType>
void narrow(const float* in, std::int64_t n, std::byte* out) {
  for (std::int64_t i = 0; i < n; ++i)
    store_from_double(kDType, static_cast<double>(in[i]), out, i);
}

template <DType kDType>
void accumulate(const std::byte* in, std::int64_t n, double* sums) {
  for (std::int64_t i = 0; i < n; ++i) sums[i] += load_as_double(kDType, in, i);
}

void copy_in(const std::byte* in, std::int64_t n, float* out) {
  if (n > 0) std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(float));
}
void copy_out(const float* in, std::int64_t n, std::byte* out) {
  if (n > 0) std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(float));
}

constexpr ConvertKernels kScalar = {
    "scalar",
    {&copy_in, &widen<DType::kBF16>, &widen<DType::kF16>},
    {&copy_out, &narrow<DType::kBF16>, &narrow<DType::kF16>},
    {&accumulate<DType::kF32>, &accumulate<DType::kBF16>,
     &accumulate<DType::kF16>},
};

const std::vector<const ConvertKernels*>& tables() {
  static const std::vector<const ConvertKernels*> all = [] {
    std::vector<const ConvertKernels*> found = simd_convert_tables();
    found.push_back(&kScalar);
    return found;
  }();
  return all;
}

}  // namespace

std::span<const ConvertKernels* const> all_convert_kernels() {
  return tables();
}

const ConvertKernels& convert_kernels(Device device) {
  return choose_family<ConvertKernels>(tables(), device);
}

}  // namespace assay
