// Which operators form sums, in which precisions they can do it, and how a
// tool switches one of them by name without touching its call.
#pragma once

#include <span>
#include <string_view>

#include "assay/numerics/internal_precision.h"

namespace assay::te {

struct OperatorInfo {
  std::string_view name;  // "layernorm", "gemm", "cross_entropy" ...
  std::span<const InternalPrecision> precisions;
};

// Every operator whose result depends on how it sums, by name. Thread-safe.
std::span<const OperatorInfo> reduction_operators();

// While it lives, the operator called `name` uses `precision` in this thread,
// whatever its call asks for. Scopes nest; the innermost wins. Throws
// Error{kUsage} for an unknown name (the message lists them) or a precision
// that the operator has not.
class PrecisionScope {
 public:
  PrecisionScope(std::string_view name, InternalPrecision precision);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;
};

// For operators: the scope's precision for `name`, else `asked`. Throws
// Error{kUsage} where the operator has not that precision.
InternalPrecision effective_precision(std::string_view name,
                                      InternalPrecision asked);

}  // namespace assay::te
