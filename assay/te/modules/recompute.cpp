#include "assay/te/modules/recompute.h"

#include <algorithm>

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

RecomputePoint::Scope::Scope(RecomputePoint& point, RecomputePhase phase) {
  active.push_back({&point, phase});
}

RecomputePoint::Scope::~Scope() { active.pop_back(); }

}  // namespace assay::te
