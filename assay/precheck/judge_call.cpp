#include "assay/precheck/judge_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "assay/base/text.h"
#include "assay/compare/single_pair.h"
#include "assay/conform/value_shown.h"
#include "assay/precheck/conditioning.h"
#include "assay/precheck/indices.h"
#include "assay/precheck/judge_values.h"
#include "assay/precheck/nondeterminism.h"
#include "assay/precheck/random/arguments.h"
#include "assay/precheck/random/judge_random.h"
#include "assay/precheck/repeats.h"
#include "assay/precheck/selection.h"

namespace assay::precheck {
namespace {

using conform::CaseRun;
using conform::Ending;
using conform::Object;
using conform::one_line;
using conform::TensorMap;

constexpr std::string_view kGradient = "gradient.";
constexpr std::string_view kAfter = "after.";
constexpr std::string_view kAgain = "again.";  // of another run
constexpr std::string_view kInput = "input";

const Tensor* find(const TensorMap& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

const TensorMap& tensors_of(const CaseRun& run) {
  static const TensorMap kNone;
  return run.outcome.outputs.empty() ? kNone : run.outcome.outputs[0];
}

// A text of contract.<field>.<name>, "" where there is none.
std::string contract_text(const CaseRun& run, std::string_view field,
                          const std::string& name) {
  const auto found = run.outcome.contract.find(std::string(field));
  if (found == run.outcome.contract.end()) return "";
  const conform::Value* value = found->second.find(name);
  return value && value->is_text() ? value->text() : "";
}

std::string dtype_name(DType dtype) { return std::string(traits(dtype).name); }

// The golden's dtype where `recorded` was recorded: the same kind and no
// narrower; whole numbers the very same.
bool stands_for(DType golden, DType recorded) {
  if (is_exact(golden) || is_exact(recorded)) return golden == recorded;
  if (is_complex(golden) != is_complex(recorded)) return false;
  return traits(golden).mantissa_bits >= traits(recorded).mantissa_bits &&
         traits(golden).exponent_bits >= traits(recorded).exponent_bits;
}

bool is_float8(DType dtype) {
  return is_float(dtype) && traits(dtype).bits == 8;
}

class CallJudge {
 public:
  explicit CallJudge(const CallTask& task)
      : task_(task), call_(task.planned->call) {}

  std::vector<JudgedRow> run() {
    if (settled_by_failure()) return std::move(rows_);
    list_names();
    for (const std::string& name : names_) tensor(name);
    for (JudgedRow& row : judge_values(task_)) rows_.push_back(std::move(row));
    if (rows_.empty())
      rows_.push_back(decided(call_.name + ".forward", false, true,
                              Verdict::kIncomplete, "no_output",
                              "neither side gave anything to compare"));
    return std::move(rows_);
  }

 private:
  // ---- the call as a whole

  void fail(Verdict verdict, std::string criterion, std::string text) {
    rows_.push_back(decided(call_.name + ".forward", false, true, verdict,
                            std::move(criterion), std::move(text)));
  }

  bool settled_by_failure() {
    const CaseRun& golden = *task_.golden;
    const CaseRun& device = *task_.device;
    for (const auto& [side, run] :
         {std::pair("the device", &device), std::pair("the golden", &golden)})
      if (run->ending != Ending::kCompared) {
        fail(Verdict::kIncomplete, std::string(to_string(run->ending)),
             fmt::format("{}: {}", side, one_line(run->message)));
        return true;
      }
    for (const auto& [side, run] :
         {std::pair("the device", &device), std::pair("the golden", &golden)})
      if (run->outcome.unsupported()) {
        fail(Verdict::kIncomplete, "unsupported",
             fmt::format("{} lacks it: {}", side,
                         one_line(run->outcome.message)));
        return true;
      }
    if (golden.outcome.ok() && device.outcome.ok()) return false;
    const bool both = !golden.outcome.ok() && !device.outcome.ok();
    const conform::Outcome& failed =
        golden.outcome.ok() ? device.outcome : golden.outcome;
    const std::string what =
        fmt::format("{}: {}", one_line(failed.error), one_line(failed.message));
    if (golden.outcome.ok())
      fail(Verdict::kMismatch, "failed",
           "the device raises, the golden does not: " + what);
    else
      fail(Verdict::kIncomplete, "golden_failed",
           (both ? "both sides raise, the golden: " : "the golden raises: ") +
               what);
    return true;
  }

  // ---- which tensors

  void add_name(std::string name) {
    if (std::find(names_.begin(), names_.end(), name) == names_.end())
      names_.push_back(std::move(name));
  }

  void list_names() {
    const Op& op = task_.trace->ops[call_.forward];
    for (const Record& record : records_of(op))
      if (record.role == Role::kOutput && record.is_tensor)
        add_name(record.leaf);
    for (const auto& run : {task_.golden, task_.device})
      for (const auto& [name, tensor] : tensors_of(*run))
        if (!name.starts_with(kGradient) && !name.starts_with(kAgain))
          add_name(name);
    if (task_.inputs->backward)
      for (const Record& record : records_of(op))
        if (wants_gradient(record))
          add_name(std::string(kGradient) + record.leaf);
    for (const auto& run : {task_.golden, task_.device})
      for (const auto& [name, tensor] : tensors_of(*run))
        if (!name.starts_with(kAgain)) add_name(name);
  }

  static bool wants_gradient(const Record& record) {
    return record.role == Role::kInput && record.is_tensor &&
           record.facts.requires_grad.value_or(false) && record.facts.dtype &&
           !is_exact(*record.facts.dtype);
  }

  std::span<const Record> records_of(const Op& op) const {
    return {task_.trace->records.data() + op.first_record, op.record_count};
  }

  const Record* record_named(const Op& op, Role role,
                             std::string_view leaf) const {
    for (const Record& record : records_of(op))
      if (record.role == role && record.leaf == leaf) return &record;
    return nullptr;
  }

  // The record that says what dtype the tensor has to have: the result, or the
  // argument that a gradient or a write belongs to.
  const Record* recorded(const std::string& name) const {
    const Op& op = task_.trace->ops[call_.forward];
    for (const std::string_view prefix : {kGradient, kAfter})
      if (name.starts_with(prefix))
        return record_named(op, Role::kInput,
                            std::string_view(name).substr(prefix.size()));
    return record_named(op, Role::kOutput, name);
  }

  bool gradient_was_recorded(const std::string& name) const {
    if (call_.backward < 0 || !name.starts_with(kGradient)) return false;
    const std::string leaf =
        "output" + name.substr(kGradient.size() + kInput.size());
    return record_named(
               task_.trace->ops[static_cast<std::size_t>(call_.backward)],
               Role::kOutput, leaf) != nullptr;
  }

  // As traces name it: "Functional.linear.0.backward.output.1".
  std::string row_name(const std::string& name) const {
    if (name.starts_with(kGradient) &&
        std::string_view(name).substr(kGradient.size()).starts_with(kInput))
      return call_.name + ".backward.output" +
             name.substr(kGradient.size() + kInput.size());
    return call_.name + ".forward." + name;
  }

  // ---- one tensor

  void add(const std::string& name, Verdict verdict, std::string criterion,
           std::string text) {
    rows_.push_back(decided(row_name(name), name.starts_with(kGradient), true,
                            verdict, std::move(criterion), std::move(text)));
  }

  void tensor(const std::string& name) {
    const Tensor* golden = find(tensors_of(*task_.golden), name);
    const Tensor* device = find(tensors_of(*task_.device), name);
    // Where one side wrote to an argument, the other left it as it was.
    if (name.starts_with(kAfter)) {
      const Tensor* before =
          find(task_.inputs->tensors, name.substr(kAfter.size()));
      if (!golden) golden = before;
      if (!device) device = before;
    }
    const Record* record = recorded(name);
    if (!golden && !device) return neither(name);
    if (!device)
      return add(name, Verdict::kMismatch, "missing",
                 with_why("the golden gives it, the device does not",
                          contract_text(*task_.device, "no_gradient",
                                        argument_of(name))));
    if (!golden)
      return add(name, Verdict::kMismatch, "unexpected",
                 with_why("the device gives it, the golden does not",
                          contract_text(*task_.golden, "no_gradient",
                                        argument_of(name))));
    if (record && !replayed(name, *record, *golden)) return;
    if (record && record->facts.dtype &&
        is_not_reproducible(name, *record, *device))
      return;
    judge(name, record, *golden, *device);
  }

  static std::string argument_of(const std::string& name) {
    return name.starts_with(kGradient) ? name.substr(kGradient.size()) : name;
  }

  static std::string with_why(std::string text, const std::string& why) {
    if (!why.empty()) text += ": " + one_line(why);
    return text;
  }

  void neither(const std::string& name) {
    const bool gradient = name.starts_with(kGradient);
    const std::string why =
        contract_text(*task_.golden, "no_gradient", argument_of(name));
    if (gradient && !gradient_was_recorded(name))
      return add(name, Verdict::kEmpty, "no_gradient",
                 with_why("neither side gives a gradient", why));
    add(name, Verdict::kIncomplete, "not_replayed",
        with_why("not replayed as recorded: neither side gives it", why));
  }

  // Whether the golden gave what was recorded; else a row says that it is no
  // replay. What an unreadable record was is not known.
  bool replayed(const std::string& name, const Record& record,
                const Tensor& golden) {
    if (!record.facts.dtype) return true;
    std::string text;
    if (!record.is_tensor) {
      text = "no tensor was recorded";
    } else if (!stands_for(golden.dtype(), *record.facts.dtype)) {
      text = fmt::format("the golden gives {}, {} was recorded",
                         dtype_name(golden.dtype()),
                         dtype_name(*record.facts.dtype));
    } else if (golden.shape() != record.facts.shape &&
               (task_.inputs->generated.empty() ||
                !name.starts_with("output"))) {
      text =
          fmt::format("the golden gives shape {}, {} was recorded",
                      to_string(golden.shape()), to_string(record.facts.shape));
    } else {
      return true;
    }
    add(name, Verdict::kIncomplete, "not_replayed",
        "not replayed as recorded: " + text);
    return false;
  }

  // Where the golden's own installation gives the device's dtype too, without
  // widening, the trace was made under other circumstances (autocast).
  bool is_not_reproducible(const std::string& name, const Record& record,
                           const Tensor& device) {
    if (device.dtype() == *record.facts.dtype || !task_.again) return false;
    const Tensor* same = find(tensors_of(given()), name);
    if (!same || same->dtype() != device.dtype()) return false;
    add(name, Verdict::kIncomplete, "not_replayed",
        fmt::format("not replayed as recorded: {} was recorded, but on these "
                    "arguments the golden's installation gives {} too; was it "
                    "under autocast?",
                    dtype_name(*record.facts.dtype),
                    dtype_name(device.dtype())));
    return true;
  }

  void judge(const std::string& name, const Record* record,
             const Tensor& golden, const Tensor& device) {
    const bool backward = name.starts_with(kGradient);
    PairTask task;
    task.name = row_name(name);
    task.golden = &golden;
    task.device = &device;
    if (record && record->is_tensor) task.recorded = record->facts.dtype;
    task.api = call_.name + (backward ? ".backward" : ".forward");
    task.op = op_class(task.api);
    task.input = find(task_.inputs->tensors, "input.0");
    task.by_detail = task_.by_detail;
    task.float8_input = std::any_of(
        task_.inputs->tensors.begin(), task_.inputs->tensors.end(),
        [](const auto& input) { return is_float8(input.second.dtype()); });
    const RandomCall random{call_.api, &task_.inputs->arguments,
                            &task_.inputs->tensors};
    if (draws_random(random)) return judge_drawn(name, task, random);
    task.backward = backward;
    if (task_.again)
      task.moved = [this, &name](Yardstick yardstick) {
        return moved(name, yardstick);
      };
    const Selection selection{call_.api, *task_.inputs,
                              tensors_of(*task_.golden),
                              tensors_of(*task_.device)};
    std::optional<Tensor> chosen;
    if (backward && name == std::string(kGradient) + first_argument())
      chosen = gradient_of_choice(selection);
    if (chosen) {
      task.golden = &*chosen;
      task.moved = nullptr;
    }
    JudgedRow judged = judge_pair(*task_.standard, task);
    if (judged.row.verdict == Verdict::kMismatch)
      judge_in_autocast(name, task, judged);
    judged.backward = backward;
    if (chosen)
      judged.row.reasons.push_back(
          {"ties", "judged by the device's own choice among equal elements", 0,
           0, -1, true});
    if (name == chosen_indices(call_.api))
      judge_selection(selection, judged.row);
    if (!backward && judged.row.verdict == Verdict::kMismatch)
      excuse_order(judged.row);
    if (!repeats(name))
      judge_repeats(*task_.standard, task,
                    find(tensors_of(*task_.device), std::string(kAgain) + name),
                    may_not_repeat(call_.api, backward), judged);
    finish(name, record, golden, judged);
    rows_.push_back(std::move(judged));
  }

  void judge_drawn(const std::string& name, const PairTask& task,
                   const RandomCall& random) {
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
    if (auto contract = task_.standard->judge_contract(
            row.golden.facts, row.target.facts, notes)) {
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
    rows_.push_back(std::move(judged));
  }

  // By the mask of the device's own run: the golden drew another.
  Judgement judge_drawn_gradient(const std::string& name,
                                 const Tensor& gradient,
                                 const RandomCall& random) const {
    const TensorMap& device = tensors_of(*task_.device);
    const Tensor* output =
        find(device, std::string(kAfter) + argument_of(name));
    if (!output) output = find(device, "output.0");
    const Tensor* given = find(task_.inputs->tensors, "gradient.output.0");
    if (output && given && name == std::string(kGradient) + first_argument())
      return judge_random_gradient(random, *output, *given, gradient);
    Judgement judgement;
    judgement.reasons.push_back(
        {"random", "the gradient of a random operator's further arguments", 0,
         0, -1, false});
    return judgement;
  }

  std::string first_argument() const {
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
  void judge_in_autocast(const std::string& name, PairTask task,
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

  std::optional<DType> autocast_dtype() const {
    return parse_dtype(task_.inputs->autocast);
  }

  // Whether all runs on the device gave the same.
  bool repeats(const std::string& name) const {
    const auto& contract = task_.device->outcome.contract;
    const auto found = contract.find("repeats");
    if (found == contract.end()) return true;
    const conform::Value* value = found->second.find(name);
    return !value || (value->is_bool() && value->boolean());
  }

  // Which of several writes to one place stands is nobody's promise.
  void excuse_order(Row& row) {
    if (!writes_twice_) writes_twice_ = writes_twice(call_.api, *task_.inputs);
    if (!*writes_twice_) return;
    const Reason* reason = deciding_reason(row);
    if (reason &&
        (reason->criterion == "shape" || reason->criterion == "dtype"))
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
  void finish(const std::string& name, const Record* record,
              const Tensor& golden, JudgedRow& judged) const {
    Row& row = judged.row;
    if (!record && row.verdict == Verdict::kMatch) {
      row.verdict = Verdict::kIncomplete;
      row.reasons.insert(row.reasons.begin(),
                         {"unrecorded",
                          "agrees, but the trace does not have it: what dtype "
                          "it has to have is not known",
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
                       to_string(golden.shape()),
                       to_string(record->facts.shape)),
           0, 0, -1, true});
  }

  // The golden's tensor of that name, computed again.
  std::vector<Tensor> moved(const std::string& name, Yardstick yardstick) {
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

  // What the golden's installation gives without widening.
  const CaseRun& given() {
    if (!given_) given_ = task_.again(task_.inputs->tensors, "given");
    return *given_;
  }

  const CallTask& task_;
  const ApiCall& call_;
  std::vector<std::string> names_;
  std::vector<JudgedRow> rows_;
  std::vector<CaseRun> moved_;
  std::optional<CaseRun> given_;
  std::optional<bool> writes_twice_;
};

}  // namespace

std::vector<JudgedRow> judge_call(const CallTask& task) {
  return CallJudge(task).run();
}

}  // namespace assay::precheck
