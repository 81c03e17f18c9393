// 128-bit content hashing (XXH3).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace assay {

struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const Hash128&) const = default;
};

Hash128 hash128(std::span<const std::byte> bytes, std::uint64_t seed = 0);
Hash128 hash128(std::string_view text, std::uint64_t seed = 0);
std::string to_hex(const Hash128& hash);  // 32 lower-case digits

}  // namespace assay
