#include "assay/compare/perturbation/boundary.h"

#include <algorithm>

#include "assay/base/error.h"

namespace assay::perturbation {
namespace {

const std::int64_t* elements(const TensorView& view, const TensorView& like) {
  if (view.dtype != DType::kI64 || !view.is_contiguous() ||
      view.shape != like.shape) {
    throw Error(Code::kUsage,
                "decisions are contiguous int64 tensors of one shape");
  }
  return reinterpret_cast<const std::int64_t*>(view.data);
}

}  // namespace

Decisions decisions_of(const TensorView& expected, const TensorView& found,
                       const TensorView& base,
                       const std::vector<TensorView>& runs) {
  const std::int64_t* a = elements(expected, expected);
  const std::int64_t* b = elements(found, expected);
  const std::int64_t* from = elements(base, expected);
  std::vector<const std::int64_t*> others;
  for (const TensorView& run : runs) others.push_back(elements(run, expected));
  Decisions decisions;
  for (std::int64_t i = 0; i < expected.numel(); ++i) {
    if (a[i] == b[i]) continue;
    ++decisions.differing;
    const bool ties =
        std::any_of(others.begin(), others.end(),
                    [&](const std::int64_t* run) { return run[i] != from[i]; });
    if (ties) continue;
    if (decisions.unexplained++ == 0) decisions.first_unexplained = i;
  }
  return decisions;
}

}  // namespace assay::perturbation
