// Kernels of random arrays: the words of Philox4x32-10, and normal quantiles.
#pragma once

#include <cstdint>
#include <span>

#include "assay/core/device.h"

namespace assay {

inline constexpr std::int64_t kRandomPart = 256;  // elements at a time

// The same bits from every table.
struct RandomKernels {
  const char* isa;
  // The words of the kRandomPart / 2 counters {block, stream}, {block + 1,
  // stream} ... under the key, two to a number, the first the higher.
  // Overwrites kRandomPart numbers.
  void (*words)(std::uint64_t key, std::uint64_t stream, std::uint64_t block,
                std::uint64_t* out);
  // normal_quantile() (numerics/basic_math.h) of kRandomPart values in (0, 1),
  // in place.
  void (*quantiles)(double* p);
};

const RandomKernels& random_kernels(Device device);
std::span<const RandomKernels* const> all_random_kernels();

}  // namespace assay
