#include "assay/precheck/judge_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "assay/base/text.h"
#include "assay/conform/value_shown.h"
#include "assay/precheck/answer.h"
#include "assay/precheck/judge_tensor.h"
#include "assay/precheck/judge_values.h"

namespace assay::precheck {
namespace {

using conform::CaseRun;
using conform::Ending;
using conform::Object;
using conform::one_line;
using conform::TensorMap;

// The golden's dtype where `recorded` was recorded: the same kind and no
// narrower; whole numbers the very same.
bool stands_for(DType golden, DType recorded) {
  if (is_exact(golden) || is_exact(recorded)) return golden == recorded;
  if (is_complex(golden) != is_complex(recorded)) return false;
  return traits(golden).mantissa_bits >= traits(recorded).mantissa_bits &&
         traits(golden).exponent_bits >= traits(recorded).exponent_bits;
}

class CallJudge {
 public:
  explicit CallJudge(const CallTask& task)
      : task_(task), call_(task.planned->call), judge_(task) {}

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
             fmt::format("{} cannot make the call: {}", side,
                         one_line(run->outcome.message)));
        return true;
      }
    if (golden.outcome.ok() && device.outcome.ok()) return false;
    const bool both = !golden.outcome.ok() && !device.outcome.ok();
    const conform::Outcome& failed =
        golden.outcome.ok() ? device.outcome : golden.outcome;
    const std::string what =
        fmt::format("{}: {}", one_line(failed.error), one_line(failed.message));
    if (golden.outcome.ok() && own_installation_raises(failed))
      fail(Verdict::kIncomplete, "golden_failed",
           "the device raises, and so does the golden's installation in the "
           "given precision: " +
               what);
    else if (golden.outcome.ok())
      fail(Verdict::kMismatch, "failed",
           "the device raises, the golden does not: " + what);
    else
      fail(Verdict::kIncomplete, "golden_failed",
           (both ? "both sides raise, the golden: " : "the golden raises: ") +
               what);
    return true;
  }

  // Of dtypes that an operator has on neither side.
  bool own_installation_raises(const conform::Outcome& device) {
    if (!task_.again) return false;
    const CaseRun& own = judge_.given();
    return own.ending == Ending::kCompared && !own.outcome.ok() &&
           !own.outcome.unsupported() && own.outcome.error == device.error;
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
    add_recorded_gradients();
  }

  // Gradients that the trace has and nobody was asked for: of an argument that
  // requires none by what the trace says of it.
  void add_recorded_gradients() {
    if (call_.backward < 0) return;
    const Op& op = task_.trace->ops[static_cast<std::size_t>(call_.backward)];
    constexpr std::string_view kOutput = "output";
    for (const Record& record : records_of(op)) {
      if (record.role != Role::kOutput || !record.is_tensor) continue;
      std::string input(kInput);
      if (record.leaf.starts_with(kOutput))
        input += std::string_view(record.leaf).substr(kOutput.size());
      const Record* argument =
          record_named(task_.trace->ops[call_.forward], Role::kInput, input);
      // msprobe numbers the gradients that there are: of embedding(ids, weight)
      // "output.0" is the weight's, which was asked for.
      if (argument && argument->facts.dtype && is_exact(*argument->facts.dtype))
        continue;
      if (argument && argument->is_tensor)
        add_name(std::string(kGradient) + input);
      else if (!task_.inputs->backward)
        add(record.leaf, Verdict::kIncomplete, "not_replayed",
            "the trace has this gradient, which was not asked for");
    }
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
    rows_.push_back(
        judge_.judge({name, row_name(name), record}, *golden, *device));
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
    const Tensor* same = find(tensors_of(judge_.given()), name);
    if (!same || same->dtype() != device.dtype()) return false;
    add(name, Verdict::kIncomplete, "not_replayed",
        fmt::format("not replayed as recorded: {} was recorded, but on these "
                    "arguments the golden's installation gives {} too; was it "
                    "under autocast?",
                    dtype_name(*record.facts.dtype),
                    dtype_name(device.dtype())));
    return true;
  }

  const CallTask& task_;
  const ApiCall& call_;
  TensorJudge judge_;
  std::vector<std::string> names_;
  std::vector<JudgedRow> rows_;
};

}  // namespace

std::vector<JudgedRow> judge_call(const CallTask& task) {
  return CallJudge(task).run();
}

}  // namespace assay::precheck
