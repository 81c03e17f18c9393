// Where one run parts from the first one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "assay/compare/comparison.h"
#include "assay/compare/determinism/determinism.h"

namespace assay {

// A finding and when it happened: step, operators before it in its rank, rank.
struct Parted {
  DeterminismFinding finding;
  std::tuple<std::int64_t, std::int64_t, std::int64_t> when;
};

// The earliest of what the comparison of the two paths found and of the first
// other call; nullopt where neither is there.
std::optional<Parted> find_parting(const Comparison& result);

// Of the comparison of what ran before the steps: the first operator of equal
// inputs whose output differs and that computes or draws something, or plain
// argument that differs, or tensor in the place of another. Nothing else is
// evidence there.
std::optional<DeterminismFinding> find_origin(const Comparison& result);

}  // namespace assay
