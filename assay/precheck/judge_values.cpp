#include "assay/precheck/judge_values.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "assay/base/text.h"
#include "assay/compare/single_pair.h"
#include "assay/precheck/api_rules.h"

namespace assay::precheck {
namespace {

using conform::CaseRun;

struct LeafValue {
  std::string type, value;
};

std::map<std::string, LeafValue> values_of(const CaseRun& run) {
  std::map<std::string, LeafValue> values;
  const auto found = run.outcome.contract.find("values");
  if (found == run.outcome.contract.end() || !found->second.is_object())
    return values;
  for (const auto& [leaf, value] : found->second.object()) {
    const conform::Value* type = value.find("type");
    const conform::Value* text = value.find("value");
    if (type && text && type->is_text() && text->is_text())
      values[leaf] = {type->text(), text->text()};
    else  // nothing that a trace could hold: it differs from everything
      values[leaf] = {"malformed", conform::to_json(value)};
  }
  return values;
}

class ValueJudge {
 public:
  explicit ValueJudge(const CallTask& task)
      : task_(task), call_(task.planned->call) {}

  std::vector<JudgedRow> run() {
    auto golden = values_of(*task_.golden);
    const auto device = values_of(*task_.device);
    std::vector<std::string> leaves;
    std::map<std::string, LeafValue> known;
    const Op& op = task_.trace->ops[call_.forward];
    for (std::uint32_t i = 0; i < op.record_count; ++i) {
      const Record& record = task_.trace->records[op.first_record + i];
      if (record.role == Role::kOutput && !record.is_tensor &&
          record.unreadable.empty()) {
        leaves.push_back(record.leaf);
        known[record.leaf] = {record.type, record.value};
      }
    }
    if (tells_of_dtype(call_.api)) golden = known;
    for (const auto& side : {golden, device})
      for (const auto& [leaf, value] : side)
        if (std::find(leaves.begin(), leaves.end(), leaf) == leaves.end())
          leaves.push_back(leaf);
    for (const std::string& leaf : leaves) {
      const auto a = golden.find(leaf);
      const auto b = device.find(leaf);
      value(leaf, a == golden.end() ? nullptr : &a->second,
            b == device.end() ? nullptr : &b->second);
    }
    return std::move(rows_);
  }

 private:
  void value(const std::string& leaf, const LeafValue* golden,
             const LeafValue* device) {
    const std::string name = call_.name + ".forward." + leaf;
    const auto add_value = [&](Verdict verdict, const char* criterion,
                               const char* text) {
      rows_.push_back(decided(name, false, false, verdict, criterion, text));
    };
    if (!golden && !device)
      return add_value(Verdict::kIncomplete, "not_replayed",
                       "not replayed as recorded: neither side gives it");
    if (!device)
      return add_value(Verdict::kMismatch, "missing",
                       "the golden gives it, the device does not");
    if (!golden)
      return add_value(Verdict::kMismatch, "unexpected",
                       "the device gives it, the golden does not");
    if (golden->type == "float" && device->type == "float")
      if (const auto a = number(golden->value), b = number(device->value);
          a && b)
        return float_value(name, *a, *b);
    SingleSide a, b;
    a.is_tensor = b.is_tensor = false;
    a.type = golden->type;
    a.value = golden->value;
    b.type = device->type;
    b.value = device->value;
    push_value(judge_single(*task_.standard, OpClass::kMovement, name, &a, &b));
  }

  void float_value(const std::string& name, double golden, double device) {
    const DType dtype = first_float();
    const SingleSide a = SingleSide::of(scalar(golden, dtype));
    const SingleSide b = SingleSide::of(scalar(device, dtype));
    Row row = judge_single(*task_.standard, op_class(call_.name + ".forward"),
                           name, &a, &b);
    row.golden.value = format_double(golden);
    row.target.value = format_double(device);
    push_value(std::move(row));
  }

  void push_value(Row row) {
    row.role = Role::kOutput;
    if (row.verdict == Verdict::kMismatch) row.origin = Origin::kBorn;
    JudgedRow judged;
    judged.row = std::move(row);
    rows_.push_back(std::move(judged));
  }

  DType first_float() const {
    for (const auto& [name, tensor] : task_.inputs->tensors)
      if (is_float(tensor.dtype())) return tensor.dtype();
    return DType::kF64;
  }

  static Tensor scalar(double value, DType dtype) {
    Tensor tensor = Tensor::zeros(DType::kF64, {});
    *tensor.mutable_data<double>() = value;
    return rounded(tensor, dtype);
  }

  static std::optional<double> number(const std::string& text) {
    double value = 0;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, value);
    if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
    return value;
  }

  const CallTask& task_;
  const ApiCall& call_;
  std::vector<JudgedRow> rows_;
};

}  // namespace

std::vector<JudgedRow> judge_values(const CallTask& task) {
  return ValueJudge(task).run();
}

}  // namespace assay::precheck
