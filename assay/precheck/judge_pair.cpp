#include "assay/precheck/judge_pair.h"

#include <algorithm>
#include <utility>

#include "assay/base/parallel.h"
#include "assay/compare/single_pair.h"
#include "assay/metrics/judgement.h"
#include "assay/metrics/pattern.h"
#include "assay/numerics/element.h"

namespace assay::precheck {
namespace {

class PairJudge {
 public:
  PairJudge(const Standard& standard, const PairTask& task)
      : standard_(standard), task_(task) {}

  JudgedRow run() {
    const DType dtype = task_.recorded.value_or(task_.device->dtype());
    golden_ = rounded(contiguous(*task_.golden), dtype);
    device_ = contiguous(*task_.device);
    const SingleSide golden = SingleSide::of(golden_);
    const SingleSide device = SingleSide::of(device_);
    Row& row = judged_.row;
    row = judge_single(standard_, task_.op, task_.name, &golden, &device);
    row.role = Role::kOutput;
    if (device_.shape() == golden_.shape()) look_closer();
    settle_nonfinite();
    if (row.verdict == Verdict::kMismatch) row.origin = Origin::kBorn;
    return std::move(judged_);
  }

 private:
  void look_closer() {
    Row& row = judged_.row;
    const Reason* reason = deciding_reason(row);
    const bool contract = reason && reason->criterion == "dtype";
    DetailOptions options;
    options.float8_input = task_.float8_input;
    judged_.detail =
        make_detail(task_.name, task_.golden->view, device_.view, options);
    judge_detail(*judged_.detail);
    if (contract) return;
    if (task_.by_detail) return judge_by_detail();
    if (task_.moved) condition();
    if (row.verdict == Verdict::kMismatch && row.stats)
      row.cause =
          guess_cause(golden_.view, device_.view, *row.stats, task_.op,
                      task_.api, task_.input ? &task_.input->view : nullptr);
  }

  // The same NaN and infinities at the same places and nothing else: compared,
  // but no evidence. In a comparison of dumps that is left open; here the call
  // was made, and what else it gives decides.
  void settle_nonfinite() {
    Row& row = judged_.row;
    const Reason* reason = deciding_reason(row);
    if (row.verdict != Verdict::kIncomplete || !row.stats || !reason ||
        reason->criterion != "no_finite_evidence")
      return;
    row.verdict = Verdict::kEmpty;
    for (Reason& one : row.reasons) one.note = true;
  }

  void condition() {
    const Yardstick yardstick =
        yardstick_of(judged_.row, task_.op, task_.backward);
    if (yardstick == Yardstick::kNone) return;
    const std::vector<Tensor> moved = task_.moved(yardstick);
    if (moved.empty()) return;
    const Tensor golden = contiguous(*task_.golden);
    std::vector<Tensor> kept;
    std::vector<TensorView> views;
    for (const Tensor& one : moved) {
      if (one.shape() != golden.shape() || !is_float(one.dtype())) return;
      views.push_back(kept.emplace_back(contiguous(one)).view);
    }
    const auto request = standard_.detail_request(*judged_.row.stats, task_.op);
    if (request)
      judge_conditioning(
          {golden.view, views, device_.view, request->bound, yardstick},
          judged_.row);
  }

  // msprobe's words: its "warning" passes, and says so.
  void judge_by_detail() {
    const Detail& detail = *judged_.detail;
    Row& row = judged_.row;
    if (row.verdict == Verdict::kEmpty) return;
    const bool passes = detail.status == "pass" || detail.status == "warning";
    row.verdict = passes                     ? Verdict::kMatch
                  : detail.status == "error" ? Verdict::kMismatch
                                             : Verdict::kIncomplete;
    std::string text =
        "msprobe says " + (detail.status.empty() ? "nothing" : detail.status);
    if (!detail.message.empty()) text += ": " + detail.message;
    for (Reason& reason : row.reasons) reason.note = true;
    row.reasons.insert(row.reasons.begin(),
                       make_reason("msprobe_status", std::move(text), passes));
  }

  const Standard& standard_;
  const PairTask& task_;
  Tensor golden_, device_;
  JudgedRow judged_;
};

}  // namespace

Tensor rounded(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  Tensor result = Tensor::zeros(dtype, tensor.shape());
  const std::int64_t count = tensor.numel() * (is_complex(dtype) ? 2 : 1);
  constexpr std::int64_t kBlock = 1 << 14;  // even: two e2m1 share a byte
  std::byte* out = result.mutable_data();
  parallel_for((count + kBlock - 1) / kBlock, [&](std::int64_t block) {
    const std::int64_t end = std::min(count, (block + 1) * kBlock);
    for (std::int64_t i = block * kBlock; i < end; ++i)
      store_from_double(dtype,
                        load_as_double(tensor.dtype(), tensor.view.data, i),
                        out, i, Overflow::kSpecial);
  });
  return result;
}

JudgedRow judge_pair(const Standard& standard, const PairTask& task) {
  return PairJudge(standard, task).run();
}

JudgedRow decided(std::string name, bool backward, bool is_tensor,
                  Verdict verdict, std::string criterion, std::string text) {
  JudgedRow judged;
  judged.backward = backward;
  Row& row = judged.row;
  row.role = Role::kOutput;
  row.is_tensor = is_tensor;
  row.golden.present = row.target.present = true;
  row.golden.name = row.target.name = std::move(name);
  row.verdict = verdict;
  if (verdict == Verdict::kMismatch) row.origin = Origin::kBorn;
  const bool note = verdict == Verdict::kMatch || verdict == Verdict::kEmpty;
  row.reasons.push_back(
      make_reason(std::move(criterion), std::move(text), note));
  return judged;
}

}  // namespace assay::precheck
