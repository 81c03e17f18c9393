#include "assay/precheck/judge_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "assay/base/text.h"
#include "assay/compare/single_pair.h"
#include "assay/conform/value_shown.h"
#include "assay/precheck/answer.h"
#include "assay/precheck/conditioning.h"
#include "assay/precheck/indices.h"
#include "assay/precheck/nondeterminism.h"
#include "assay/precheck/own_installation.h"
#include "assay/precheck/random/arguments.h"
#include "assay/precheck/repeats.h"
#include "assay/precheck/selection.h"

namespace assay::precheck {
namespace {

using conform::CaseRun;
using conform::one_line;
using conform::TensorMap;

bool is_float8(DType dtype) {
  return is_float(dtype) && traits(dtype).bits == 8;
}

}  // namespace

PairTask TensorJudge::pair_of(const Given& what, const Tensor& golden,
                              const Tensor& device) {
  PairTask task;
  task.name = what.row;
  task.golden = &golden;
  task.device = &device;
  task.backward = what.name.starts_with(kGradient);
  if (what.record && what.record->is_tensor)
    task.recorded = what.record->facts.dtype;
  task.api = call_.name + (task.backward ? ".backward" : ".forward");
  task.op = op_class(task.api);
  task.input = find(task_.inputs->tensors, "input.0");
  task.by_detail = task_.by_detail;
  task.float8_input = std::any_of(
      task_.inputs->tensors.begin(), task_.inputs->tensors.end(),
      [](const auto& input) { return is_float8(input.second.dtype()); });
  if (task_.again)
    task.moved = [this, name = what.name](Yardstick yardstick) {
      return moved(name, yardstick);
    };
  return task;
}

JudgedRow TensorJudge::judge(const Given& what, const Tensor& golden,
                             const Tensor& device) {
  const std::string& name = what.name;
  PairTask task = pair_of(what, golden, device);
  const RandomCall random{call_.api, &task_.inputs->arguments,
                          &task_.inputs->tensors};
  if (draws_random(random)) return judge_drawn(name, task, random);
  const Selection selection{call_.api, *task_.inputs, tensors_of(*task_.golden),
                            tensors_of(*task_.device)};
  std::optional<Tensor> chosen;
  if (task.backward && argument_of(name) == first_argument())
    chosen = gradient_of_choice(selection);
  if (chosen) {
    task.golden = &*chosen;
    task.moved = nullptr;
  }
  JudgedRow judged = judge_pair(*task_.standard, task);
  if (judged.row.verdict == Verdict::kMismatch)
    judge_in_autocast(name, task, judged);
  judged.backward = task.backward;
  if (chosen)
    judged.row.reasons.push_back(
        {"ties", "judged by the device's own choice among equal elements", 0, 0,
         -1, true});
  if (name == chosen_indices(call_.api)) judge_selection(selection, judged.row);
  if (!task.backward && judged.row.verdict == Verdict::kMismatch)
    excuse_order(judged.row);
  if (may_hold_to_own(judged.row) && task_.again && !task_.by_detail)
    if (const Tensor* same = own(name))
      hold_to_own(*task_.standard, task, *same, judged.row);
  if (!repeats(name))
    judge_repeats(*task_.standard, task,
                  find(tensors_of(*task_.device), std::string(kAgain) + name),
                  may_not_repeat(call_.api, task.backward), judged);
  finish(what, golden, judged);
  return judged;
}

JudgedRow TensorJudge::judge_drawn(const std::string& name,
                                   const PairTask& task,
                                   const RandomCall& random) const {
  JudgedRow judged;
  judged.backward = name.starts_with(kGradient);
  Row& row = judged.row;
  row.role = Role::kOutput;
  row.golden.present = row.target.present = true;
  row.golden.name = row.target.name = task.name;
  const DType dtype = task.recorded.value_or(task.device->dtype());
  const Tensor golden = rounded(contiguous(*task.golden), dtype);
  row.golden.facts = SingleSide::of(golden).facts;
  row.target.facts = SingleSide::of(*task.device).facts;
  std::vector<Reason> notes;
  if (auto contract = task_.standard->judge_contract(row.golden.facts,
                                                     row.target.facts, notes)) {
    row.verdict = contract->verdict;
    row.reasons = std::move(contract->reasons);
  } else if (golden.numel() == 0) {
    row.verdict = Verdict::kEmpty;
    row.reasons.push_back(
        {"empty", "0 elements: equal, no evidence", 0, 0, -1, true});
  } else {
    Judgement judgement =
        judged.backward
            ? judge_drawn_gradient(name, *task.device, random)
            : judge_random(random, name, *task.golden, *task.device);
    row.verdict = judgement.verdict;
    row.reasons = std::move(judgement.reasons);
    row.evidence = Evidence::kStatistics;
  }
  std::move(notes.begin(), notes.end(), std::back_inserter(row.reasons));
  if (row.verdict == Verdict::kMismatch) row.origin = Origin::kBorn;
  return judged;
}

// By the mask of the device's own run: the golden drew another.
Judgement TensorJudge::judge_drawn_gradient(const std::string& name,
                                            const Tensor& gradient,
                                            const RandomCall& random) const {
  const TensorMap& device = tensors_of(*task_.device);
  const Tensor* output = find(device, std::string(kAfter) + argument_of(name));
  if (!output) output = find(device, "output.0");
  const Tensor* given = find(task_.inputs->tensors, "gradient.output.0");
  const Tensor* input = find(task_.inputs->tensors, argument_of(name));
  if (output && given && input && input->shape() == output->shape() &&
      name == std::string(kGradient) + first_argument())
    return judge_random_gradient(random, *output, *given, gradient);
  Judgement judgement;
  judgement.reasons.push_back({"random",
                               "the gradient of a random operator's further "
                               "arguments, or of one that is broadcast",
                               0, 0, -1, false});
  return judgement;
}

std::string TensorJudge::first_argument() const {
  const auto& arguments = task_.inputs->arguments;
  const auto first = arguments.find("0");
  const conform::Value* tensor =
      (first != arguments.end() ? first : arguments.begin())
          ->second.find("tensor");
  return tensor ? tensor->text() : "";
}

// Under autocast a gradient is computed in the region's dtype and handed on
// in its argument's: where the golden's installation gives no more either, it
// is judged in that.
void TensorJudge::judge_in_autocast(const std::string& name, PairTask task,
                                    JudgedRow& judged) {
  const auto narrow = autocast_dtype();
  if (!narrow || !task_.again || !task.recorded ||
      task.device->dtype() != *task.recorded || !is_float(*task.recorded) ||
      unit_roundoff(*task.recorded) >= unit_roundoff(*narrow))
    return;
  const Tensor* given = find(tensors_of(this->given()), name);
  if (!given || given->dtype() != *task.recorded ||
      given->shape() != task.device->shape())
    return;
  if (elements(rounded(contiguous(*given), *narrow)) != elements(*given))
    return;
  const Tensor device = rounded(contiguous(*task.device), *narrow);
  task.recorded = *narrow;
  task.device = &device;
  judged = judge_pair(*task_.standard, task);
  judged.row.reasons.push_back(
      {"autocast",
       fmt::format("judged in {}, the dtype of the autocast region that "
                   "computes it",
                   dtype_name(*narrow)),
       0, 0, -1, true});
}

std::optional<DType> TensorJudge::autocast_dtype() const {
  return parse_dtype(task_.inputs->autocast);
}

// Whether all runs on the device gave the same.
bool TensorJudge::repeats(const std::string& name) const {
  const auto& contract = task_.device->outcome.contract;
  const auto found = contract.find("repeats");
  if (found == contract.end()) return true;
  const conform::Value* value = found->second.find(name);
  return !value || (value->is_bool() && value->boolean());
}

// Which of several writes to one place stands is nobody's promise.
void TensorJudge::excuse_order(Row& row) {
  if (!writes_twice_) writes_twice_ = writes_twice(call_.api, *task_.inputs);
  if (!*writes_twice_) return;
  const Reason* reason = deciding_reason(row);
  if (reason && (reason->criterion == "shape" || reason->criterion == "dtype"))
    return;
  for (Reason& each : row.reasons) each.note = true;
  row.verdict = Verdict::kIncomplete;
  row.origin = Origin::kNone;
  row.reasons.insert(row.reasons.begin(),
                     {"order_of_writes",
                      "differs, but the call writes a place more than once: "
                      "which value stands is not defined",
                      0, 0, -1, false});
}

// What a row has to say beside its verdict.
void TensorJudge::finish(const Given& what, const Tensor& golden,
                         JudgedRow& judged) const {
  const auto& [name, row_name, record] = what;
  Row& row = judged.row;
  if (!record && row.verdict == Verdict::kMatch) {
    row.verdict = Verdict::kIncomplete;
    row.reasons.insert(row.reasons.begin(),
                       {"unrecorded",
                        "agrees, but the trace does not have it: what dtype "
                        "it has to have is not known",
                        0, 0, -1, false});
  }
  const auto answered = task_.device->outcome.contract.find("precision");
  if (answered != task_.device->outcome.contract.end() &&
      !(answered->second.is_text() && answered->second.text() == "given") &&
      row.verdict == Verdict::kMatch) {
    row.verdict = Verdict::kIncomplete;
    row.reasons.insert(
        row.reasons.begin(),
        {"precision",
         "agrees, but the device says that it was computed in another "
         "precision than asked for: " +
             one_line(conform::to_json(answered->second)),
         0, 0, -1, false});
  }
  const auto precision = task_.golden->outcome.contract.find("precision");
  if (precision != task_.golden->outcome.contract.end())
    row.reasons.push_back(
        {"golden_precision",
         fmt::format("the golden is not in float64, which the operator "
                     "lacks or which would change it: {}",
                     one_line(conform::to_json(precision->second))),
         0, 0, -1, true});
  if (record && record->is_tensor && record->facts.dtype &&
      golden.shape() != record->facts.shape && name.starts_with("output"))
    row.reasons.push_back(
        {"generated_shape",
         fmt::format("on generated inputs it has shape {}, recorded was {}",
                     to_string(golden.shape()), to_string(record->facts.shape)),
         0, 0, -1, true});
}

// The golden's tensor of that name, computed again.
std::vector<Tensor> TensorJudge::moved(const std::string& name,
                                       Yardstick yardstick) {
  if (yardstick == Yardstick::kGivenPrecision) {
    const Tensor* tensor = find(tensors_of(given()), name);
    return tensor ? std::vector<Tensor>{*tensor} : std::vector<Tensor>{};
  }
  if (moved_.empty())
    for (int i = 0; i < kConditioningSeeds; ++i)
      moved_.push_back(task_.again(
          perturbed(task_.inputs->tensors, static_cast<std::uint64_t>(i + 1),
                    autocast_dtype()),
          "float64"));
  std::vector<Tensor> tensors;
  for (const CaseRun& run : moved_) {
    const Tensor* tensor = find(tensors_of(run), name);
    if (!tensor) return {};
    tensors.push_back(*tensor);
  }
  return tensors;
}

// Of that, the tensor of that name.
const Tensor* TensorJudge::own(const std::string& name) {
  const Tensor* tensor = find(tensors_of(given()), name);
  return !tensor && name.starts_with(kAfter)
             ? find(task_.inputs->tensors, name.substr(kAfter.size()))
             : tensor;
}

// What the golden's installation gives without widening.
const CaseRun& TensorJudge::given() {
  if (!given_) given_ = task_.again(task_.inputs->tensors, "given");
  return *given_;
}

}  // namespace assay::precheck
