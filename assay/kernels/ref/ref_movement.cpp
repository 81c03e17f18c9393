// Copies and transposes as plain loops, and the choice between all tables.
#include <array>
#include <cstring>
#include <vector>

#include "assay/kernels/movement.h"
#include "assay/kernels/simd/simd_movement.h"

namespace assay {
namespace {

void copy(const std::byte* in, std::int64_t bytes, bool, std::byte* out) {
  if (bytes > 0) std::memcpy(out, in, static_cast<std::size_t>(bytes));
}

template <int kBytes>
void transpose(const std::byte* in, std::int64_t in_stride, std::int64_t rows,
               std::int64_t columns, bool, std::byte* out,
               std::int64_t out_stride) {
  for (std::int64_t c = 0; c < columns; ++c)
    for (std::int64_t r = 0; r < rows; ++r)
      std::memcpy(out + (c * out_stride + r) * kBytes,
                  in + (r * in_stride + c) * kBytes, kBytes);
}

constexpr MovementKernels kScalar = {
    "scalar", &copy, &transpose<1>, &transpose<2>, &transpose<4>, &transpose<8>,
};

const std::vector<const MovementKernels*>& tables() {
  static const std::vector<const MovementKernels*> all = [] {
    std::vector<const MovementKernels*> found = simd_movement_tables();
    found.push_back(&kScalar);
    return found;
  }();
  return all;
}

}  // namespace

std::span<const MovementKernels* const> all_movement_kernels() {
  return tables();
}

const MovementKernels& movement_kernels(Device device) {
  return choose_family<MovementKernels>(tables(), device);
}

}  // namespace assay
