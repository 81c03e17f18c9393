// Which dim a dim of a rotated head is paired with.
#pragma once

#include <cstdint>

namespace assay {

struct RopePartner {
  std::int64_t dim;
  float sign;  // of the sine that multiplies it, forward
};

inline RopePartner rope_partner(std::int64_t j, std::int64_t d2,
                                bool interleaved) {
  if (interleaved) return {j ^ 1, (j & 1) == 0 ? -1.0f : 1.0f};
  const std::int64_t half = d2 / 2;
  return j < half ? RopePartner{j + half, -1.0f} : RopePartner{j - half, 1.0f};
}

}  // namespace assay
