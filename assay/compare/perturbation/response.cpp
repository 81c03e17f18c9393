#include "assay/compare/perturbation/response.h"

#include <cmath>
#include <cstddef>

#include "assay/base/error.h"
#include "assay/numerics/ulp.h"

namespace assay::perturbation {
namespace {

const double* elements(const TensorView& view, const TensorView& like) {
  if (view.dtype != DType::kF64 || !view.is_contiguous() ||
      view.shape != like.shape) {
    throw Error(Code::kUsage,
                "answers are contiguous float64 tensors of one shape");
  }
  return reinterpret_cast<const double*>(view.data);
}

struct Elements {
  explicit Elements(const Answers& answers)
      : original(elements(answers.original, answers.original)),
        perturbed(elements(answers.perturbed, answers.original)),
        wide(elements(answers.wide, answers.original)),
        wide_perturbed(elements(answers.wide_perturbed, answers.original)),
        count(answers.original.numel()) {}

  const double *original, *perturbed, *wide, *wide_perturbed;
  std::int64_t count;
};

}  // namespace

Tensor expected_of(const Answers& answers) {
  const Elements e(answers);
  Tensor expected = Tensor::empty(DType::kF64, answers.original.shape);
  auto* out = expected.mutable_data<double>();
  for (std::int64_t i = 0; i < e.count; ++i) {
    const double from = e.wide[i], to = e.wide_perturbed[i];
    // Infinities of one sign move by nothing; their difference is a NaN.
    out[i] = from == to ? e.original[i] : e.original[i] + (to - from);
    if (std::isinf(from) && from == e.original[i]) out[i] = to;
  }
  return expected;
}

Stillness stillness_of(const Answers& answers, DType dtype) {
  const Elements e(answers);
  Stillness found;
  for (std::int64_t i = 0; i < e.count; ++i) {
    const double moved = std::fabs(e.wide_perturbed[i] - e.wide[i]);
    if (!(moved > 4 * ulp(dtype, e.original[i]))) continue;
    ++found.must_move;
    if (e.original[i] == e.perturbed[i]) ++found.still;
  }
  return found;
}

}  // namespace assay::perturbation
