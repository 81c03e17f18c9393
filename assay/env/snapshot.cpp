#include "assay/env/snapshot.h"

#include <algorithm>

#include "assay/base/error.h"
#include "assay/base/text.h"

namespace assay::env {

std::string_view to_string(Section section) {
  return kSectionNames[static_cast<std::size_t>(section)];
}

Section section_named(std::string_view name) {
  std::string known;
  for (std::size_t i = 0; i < kSectionNames.size(); ++i) {
    if (kSectionNames[i] == name) return static_cast<Section>(i);
    known.append(known.empty() ? "" : ", ").append(kSectionNames[i]);
  }
  throw Error(Code::kUsage,
              "section '" + printable(name) + "', expected one of " + known);
}

void merge(Snapshot& into, const Snapshot& more) {
  for (std::size_t i = 0; i < kSectionNames.size(); ++i) {
    SectionFacts& here = into.sections[i];
    const SectionFacts& there = more.sections[i];
    here.collected = here.collected || there.collected;
    here.scope = std::max(here.scope, there.scope);
    for (const std::string& line : there.missing) here.missing.push_back(line);
    for (const auto& [key, value] : there.values) here.values[key] = value;
  }
  if (into.weights.empty()) into.weights = more.weights;
  if (into.batches.empty()) into.batches = more.batches;
  if (into.draw_count != 0 || more.draw_count == 0) return;
  into.draws = more.draws;
  into.draw_count = more.draw_count;
  into.draw_hash = more.draw_hash;
  into.stacks = more.stacks;
}

}  // namespace assay::env
