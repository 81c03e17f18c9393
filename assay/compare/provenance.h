// Recognises a value that was seen before by what the golden recorded of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "assay/base/hash.h"
#include "assay/compare/comparison.h"

namespace assay {

// What a value is recognised by: nullopt where nothing tells it from others.
std::optional<Hash128> fingerprint(const SideFacts& facts,
                                   const TensorStatistics& stats,
                                   const std::string& digest);

struct HashOfFingerprint {
  std::size_t operator()(const Hash128& hash) const { return hash.low; }
};

// Dumps do not say which output became which input. Two records of the golden
// with the same dtype, element count, statistics and checksum are taken for
// one value; constants (minimum = maximum) are too common to be recognised.
// Values must be added in the order they came into being.
class Provenance {
 public:
  enum class Seen : std::uint8_t { kNever, kAgreed, kDiffered };

  void add(const Row& row);
  // What was last known of the golden value of `row`.
  Seen find(const Row& row) const;

 private:
  std::unordered_map<Hash128, Seen, HashOfFingerprint> seen_;
};

}  // namespace assay
