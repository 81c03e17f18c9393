#include "assay/te/modules/recompute.h"

#include <algorithm>

#include "assay/te/modules/quantized_module.h"

namespace assay::te {
namespace {

thread_local std::vector<ActiveRecompute> active;

}  // namespace

const std::vector<ActiveRecompute>& active_recomputes() { return active; }

bool recomputing() {
  return std::any_of(active.begin(), active.end(), [](const auto& a) {
    return a.phase == RecomputePhase::kSecond;
  });
}

RecomputePoint::Stash* RecomputePoint::find(const QuantizedModule& module,
                                            const Recipe& recipe) {
  for (Stash& stash : stashes_) {
    if (stash.module == &module && same_recipe(*stash.states->recipe, recipe))
      return &stash;
  }
  return nullptr;
}

RecomputePoint::Scope::Scope(RecomputePoint& point, RecomputePhase phase) {
  active.push_back({&point, phase});
}

RecomputePoint::Scope::~Scope() { active.pop_back(); }

}  // namespace assay::te
