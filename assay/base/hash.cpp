#include "assay/base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace assay {

Hash128 hash128(std::span<const std::byte> bytes, std::uint64_t seed) {
  const XXH128_hash_t h =
      XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  return {h.high64, h.low64};
}

Hash128 hash128(std::string_view text, std::uint64_t seed) {
  return hash128(std::as_bytes(std::span(text.data(), text.size())), seed);
}

std::string to_hex(const Hash128& hash) {
  return fmt::format("{:016x}{:016x}", hash.high, hash.low);
}

}  // namespace assay
