#include "assay/compare/provenance.h"

#include <array>
#include <optional>
#include <span>

namespace assay {
namespace {

// What a fingerprint is the hash of, without padding.
struct Facts {
  std::int64_t dtype = -1;  // DType, -1 when it is unknown
  std::int64_t count = -1;
  std::int64_t present = 0;  // bit i: values[i] was kept
  std::array<double, 4> values{};
};
static_assert(sizeof(Facts) == 7 * 8);

Facts facts_of(const SideFacts& side, const TensorStatistics& stats) {
  Facts facts;
  if (side.dtype) facts.dtype = static_cast<int>(*side.dtype);
  facts.count = checked_numel(side.shape).value_or(-1);
  int i = 0;
  for (const auto& value : {stats.max, stats.min, stats.mean, stats.norm}) {
    if (value) {
      facts.present |= 1 << i;
      facts.values[i] = *value;
    }
    ++i;
  }
  return facts;
}

std::optional<Hash128> fingerprint(const Row& row) {
  const RowSide& side = row.golden;
  if (!side.present || !row.is_tensor) return std::nullopt;
  return fingerprint(side.facts, side.stats, side.digest);
}

}  // namespace

std::optional<Hash128> fingerprint(const SideFacts& side,
                                   const TensorStatistics& stats,
                                   const std::string& digest) {
  const bool telling = stats.max && stats.min && *stats.max != *stats.min;
  if (!telling && digest.empty()) return std::nullopt;
  const Facts facts = facts_of(side, stats);
  const Hash128 seed = hash128(digest);
  return hash128(std::as_bytes(std::span(&facts, 1)), seed.low);
}

void Provenance::add(const Row& row) {
  const auto key = fingerprint(row);
  if (!key) return;
  seen_[*key] =
      row.verdict == Verdict::kMismatch ? Seen::kDiffered : Seen::kAgreed;
}

Provenance::Seen Provenance::find(const Row& row) const {
  const auto key = fingerprint(row);
  if (!key) return Seen::kNever;
  const auto at = seen_.find(*key);
  return at == seen_.end() ? Seen::kNever : at->second;
}

}  // namespace assay
