// The communication calls of all ranks of a step, joined into exchanges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "assay/compare/localise.h"

namespace assay {

// One call of one rank.
struct CallRef {
  std::size_t rank = 0;  // index into the findings
  std::size_t call = 0;  // index into their communications
};

struct Exchange {
  std::vector<CallRef> calls;
};

struct Exchanges {
  std::vector<Exchange> all;
  // Which exchange a call belongs to: [rank][call].
  std::vector<std::vector<std::size_t>> of_call;
};

Exchanges join_calls(const std::vector<GroupFindings>& findings);

// Whether the data of `call`'s rank reaches the others.
bool is_source(const Communication& call, std::int64_t rank);

// For every call the length of the longest chain of dependent calls that ends
// with it: [rank][call], from 1. Ranks that disagree on the order of their
// calls are let through, lowest first.
std::vector<std::vector<std::int64_t>> call_levels(
    const std::vector<GroupFindings>& findings, const Exchanges& exchanges,
    const Comparison& result);

}  // namespace assay
