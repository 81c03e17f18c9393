// First half of matching: which operator of the golden is which of the target.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/compare/match.h"
#include "assay/compare/name_translator.h"

namespace assay {

// Parallel to Trace::ops of the two sides; -1 where there is no partner.
struct OpPartners {
  std::vector<std::int32_t> of_golden, of_target;
  std::vector<PairedBy> by;  // parallel to of_golden

  void join(std::int32_t golden, std::int32_t target, PairedBy how) {
    of_golden[golden] = target;
    of_target[target] = golden;
    by[golden] = how;
  }
};

// `translator` is null when there are no rules.
OpPartners match_ops(const Trace& golden, const Trace& target,
                     const MapRules& rules, NameTranslator* translator,
                     bool fuzzy);

// The index-free part: pairs operators of `partners` that have none yet.
void match_ops_fuzzy(const Trace& golden, const Trace& target,
                     NameTranslator* translator, OpPartners& partners);

}  // namespace assay
