#include "assay/te/precision.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "assay/base/error.h"

namespace assay::te {
namespace {

constexpr OperatorInfo kOperators[] = {
    {"attention", kInternalPrecisions},
    {"bias_grad", kInternalPrecisions},
    {"cross_entropy", kInternalPrecisions},
    {"embedding", kInternalPrecisions},
    {"gemm", kInternalPrecisions},
    {"l2norm", kInternalPrecisions},
    {"layernorm", kInternalPrecisions},
    {"moe_unpermute", kInternalPrecisions},
    {"rmsnorm", kInternalPrecisions},
    {"router", kInternalPrecisions},
    {"softmax", kInternalPrecisions},
};

using Override = std::pair<std::string_view, InternalPrecision>;

std::vector<Override>& overrides() {
  thread_local std::vector<Override> stack;
  return stack;
}

const OperatorInfo& find(std::string_view name) {
  std::string names;
  for (const OperatorInfo& info : kOperators) {
    if (info.name == name) return info;
    if (!names.empty()) names += ", ";
    names += info.name;
  }
  throw Error(Code::kUsage, "operator \"" + std::string(name) +
                                "\" forms no sums, expected one of " + names);
}

void require_variant(const OperatorInfo& info, InternalPrecision precision) {
  const auto& known = info.precisions;
  if (std::find(known.begin(), known.end(), precision) != known.end()) return;
  std::string names;
  for (InternalPrecision p : known) {
    if (!names.empty()) names += ", ";
    names += precision_name(p);
  }
  throw Error(Code::kUsage, std::string(info.name) + ": internal_precision: " +
                                std::string(precision_name(precision)) +
                                ", expected one of " + names);
}

}  // namespace

std::span<const OperatorInfo> reduction_operators() { return kOperators; }

PrecisionScope::PrecisionScope(std::string_view name,
                               InternalPrecision precision) {
  const OperatorInfo& info = find(name);
  require_variant(info, precision);
  overrides().emplace_back(info.name, precision);
}

PrecisionScope::~PrecisionScope() { overrides().pop_back(); }

InternalPrecision effective_precision(std::string_view name,
                                      InternalPrecision asked) {
  const auto& stack = overrides();
  for (auto it = stack.rbegin(); it != stack.rend(); ++it)
    if (it->first == name) return it->second;
  require_variant(find(name), asked);
  return asked;
}

}  // namespace assay::te
