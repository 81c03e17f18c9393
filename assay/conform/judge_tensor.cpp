#include "assay/conform/judge_tensor.h"

#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "assay/compare/single_pair.h"

namespace assay::conform {
namespace {

void put_figures(const ErrorStats& stats, Check& check) {
  check.max_abs = stats.max_abs;
  check.max_rel = stats.max_rel;
  check.norm_l2 = stats.norm_l2;
  if (stats.bitwise_equal) check.ulp_max = 0;
  if (stats.detail) check.ulp_max = stats.detail->ulp_max;
  check.index = stats.max_abs_index;
}

Check check_of(const Row& row, const TensorPair& pair,
               const Standard& standard) {
  Check check = make_check(pair.name, pair.rank, row.verdict, "", "");
  check.standard = standard.name();
  if (row.stats) put_figures(*row.stats, check);
  const Reason* reason = deciding_reason(row);
  // NaN and infinities alike everywhere are compared, but no evidence. `assay
  // compare` leaves that open; here the inputs are chosen, and what else the
  // case gives decides.
  if (row.stats && reason && reason->criterion == "no_finite_evidence") {
    check.verdict = Verdict::kEmpty;
    check.text = "NaN and infinities at the same places, nothing finite";
    return check;
  }
  if (reason && row.verdict != Verdict::kMatch) {
    check.criterion = reason->criterion;
    check.text = reason->text;
    if (reason->index >= 0) check.index = reason->index;
  } else if (!row.reasons.empty()) {
    check.text = row.reasons[0].text;
  }
  return check;
}

}  // namespace

Check make_check(std::string name, int rank, Verdict verdict,
                 std::string criterion, std::string text) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  Check check;
  check.name = std::move(name);
  check.rank = rank;
  check.verdict = verdict;
  check.criterion = std::move(criterion);
  check.text = std::move(text);
  check.max_abs = check.max_rel = check.norm_l2 = check.ulp_max = kNone;
  return check;
}

Tensor as_bytes(const Tensor& tensor) {
  Tensor bytes = contiguous(tensor);
  const std::int64_t size =
      static_cast<std::int64_t>(bytes.view.bytes().size());
  Shape shape = tensor.shape();
  if (shape.empty()) shape.push_back(1);
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  shape.back() = rows > 0 ? size / rows : 0;
  // Rows of an odd number of nibbles share bytes: then there are no rows.
  if (rows > 0 && shape.back() * rows != size) shape = {size};
  bytes.view.dtype = DType::kU8;
  bytes.view.shape = std::move(shape);
  bytes.view.strides.clear();
  return bytes;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const Tensor left = contiguous(a), right = contiguous(b);
  const auto x = left.view.bytes(), y = right.view.bytes();
  return x.empty() || std::memcmp(x.data(), y.data(), x.size()) == 0;
}

Check judge_tensors(const TensorPair& pair, const Standard& standard,
                    OpClass op) {
  if (!pair.golden && !pair.target)
    return make_check(pair.name, pair.rank, Verdict::kIncomplete, "missing",
                      "neither side gives it");
  const auto side = [](const Tensor* tensor) {
    return tensor ? std::optional(SingleSide::of(*tensor)) : std::nullopt;
  };
  const auto golden = side(pair.golden), target = side(pair.target);
  const Row row =
      judge_single(standard, op, pair.name, golden ? &*golden : nullptr,
                   target ? &*target : nullptr);
  return check_of(row, pair, standard);
}

}  // namespace assay::conform
