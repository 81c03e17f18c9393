#include "synthetic.h"

#include <gtest/gtest.h>

#include <cstring>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/compare/divergence.h"
#include "assay/compare/explain.h"
#include "assay/compare/localise.h"
#include "assay/compare/rank_order.h"
#include "assay/compare/summary.h"

namespace assay::test {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string join(const std::vector<std::string_view>& parts, std::size_t begin,
                 std::size_t end) {
  std::string text;
  for (std::size_t i = begin; i < end; ++i) {
    if (i > begin) text += '.';
    text += parts[i];
  }
  return text;
}

void name_op(const std::string& name, Op& op) {
  op.name = name;
  const auto parts = split(op.name, '.');
  std::size_t at = parts.size();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i] == "forward") op.direction = Direction::kForward, at = i;
    if (parts[i] == "backward") op.direction = Direction::kBackward, at = i;
    if (parts[i] == "parameters_grad") {
      op.direction = Direction::kParametersGrad, at = i;
    }
  }
  if (at == parts.size()) return;
  op.prefix = parts[0];
  const bool indexed_before =
      at + 1 == parts.size() && is_number(parts[at - 1]);
  op.api = join(parts, 1, indexed_before ? at - 1 : at);
}

}  // namespace

Tensor f32(Shape shape, const std::vector<float>& values) {
  Tensor tensor = Tensor::zeros(DType::kF32, std::move(shape));
  if (values.empty()) return tensor;
  std::memcpy(tensor.mutable_data(), values.data(), 4 * values.size());
  return tensor;
}

Tensor FakeLoader::load(const Record& record) const {
  if (on_load) on_load();
  const auto at = tensors.find(record.file);
  if (at == tensors.end()) {
    throw Error(Code::kUnreadable, record.file + ": truncated at byte 7");
  }
  return at->second;
}

TraceBuilder::TraceBuilder() : loader_(std::make_shared<FakeLoader>()) {
  trace_.framework = "pytorch";
}

TraceBuilder& TraceBuilder::op(const std::string& name,
                               const std::string& parent) {
  Op op;
  name_op(name, op);
  op.first_record = static_cast<std::uint32_t>(trace_.records.size());
  if (!parent.empty()) parents_.emplace_back(trace_.ops.size(), parent);
  trace_.ops.push_back(std::move(op));
  return *this;
}

Record& TraceBuilder::add(Role role, const std::string& leaf) {
  Record record;
  record.op = static_cast<std::uint32_t>(trace_.ops.size() - 1);
  record.role = role;
  record.leaf = leaf;
  record.type = "torch.Tensor";
  trace_.records.push_back(std::move(record));
  ++trace_.ops.back().record_count;
  return trace_.records.back();
}

TraceBuilder& TraceBuilder::tensor(Role role, const std::string& leaf,
                                   Tensor tensor) {
  Record& record = add(role, leaf);
  record.file = trace_.ops.back().name + "." + leaf + "#" +
                std::to_string(trace_.records.size()) + ".pt";
  record.facts.dtype = tensor.view.dtype;
  record.facts.dtype_text = traits(tensor.view.dtype).name;
  record.facts.shape = tensor.view.shape;
  loader_->tensors[record.file] = std::move(tensor);
  return *this;
}

TraceBuilder& TraceBuilder::in(const std::vector<float>& values) {
  return tensor(Role::kInput, "input.0",
                f32({static_cast<std::int64_t>(values.size())}, values));
}
TraceBuilder& TraceBuilder::out(const std::vector<float>& values) {
  return tensor(Role::kOutput, "output.0",
                f32({static_cast<std::int64_t>(values.size())}, values));
}
TraceBuilder& TraceBuilder::parameter(const std::vector<float>& values) {
  return tensor(Role::kParameter, "parameters.weight",
                f32({static_cast<std::int64_t>(values.size())}, values));
}

TraceBuilder& TraceBuilder::statistics(Role role, const std::string& leaf,
                                       Shape shape, double max, double min,
                                       double mean, double norm) {
  Record& record = add(role, leaf);
  record.facts.dtype = DType::kF32;
  record.facts.dtype_text = "torch.float32";
  record.facts.shape = std::move(shape);
  record.stats = {max, min, mean, norm};
  return *this;
}

TraceBuilder& TraceBuilder::digest(Role role, const std::string& leaf,
                                   DType dtype, Shape shape,
                                   const std::string& digest) {
  Record& record = add(role, leaf);
  record.facts.dtype = dtype;
  record.facts.dtype_text = traits(dtype).name;
  record.facts.shape = std::move(shape);
  record.digest = digest;
  return *this;
}

TraceBuilder& TraceBuilder::value(const std::string& leaf,
                                  const std::string& type,
                                  const std::string& text) {
  Record& record = add(Role::kInput, leaf);
  record.is_tensor = false;
  record.type = type;
  record.value = text;
  return *this;
}

TraceBuilder& TraceBuilder::group(std::vector<std::int64_t> ranks) {
  trace_.ops.back().collective = std::make_unique<Collective>();
  trace_.ops.back().collective->group_ranks = std::move(ranks);
  return *this;
}

Trace TraceBuilder::build(std::int64_t rank) {
  for (const auto& [child, parent] : parents_) {
    for (std::size_t i = 0; i < trace_.ops.size(); ++i) {
      if (trace_.ops[i].name == parent) {
        trace_.ops[child].parent = static_cast<std::int32_t>(i);
      }
    }
  }
  trace_.rank = rank;
  trace_.loader = loader_;
  return std::move(trace_);
}

RankSet& RankSet::add(Trace golden, Trace target) {
  ranks.emplace_back(std::move(golden), std::move(target));
  return *this;
}

Comparison RankSet::compare() {
  Comparison result;
  result.golden_path = "golden";
  result.target_path = "target";
  if (!options.standard) options.standard = Standard::load("assay");
  result.standard = options.standard->name();
  result.command = compare_command(result, options);
  ProgressMeter progress(options);
  std::vector<GroupFindings> findings;
  for (auto& [golden, target] : ranks) {
    TracePair pair;
    pair.golden = std::move(golden);
    pair.target = std::move(target);
    pair.matching =
        match_traces(pair.golden, pair.target, rules, options.fuzzy);
    if (!options.only.empty()) {
      keep_only(options.only, pair.golden, pair.target, pair.matching);
    }
    const auto group = static_cast<std::uint32_t>(result.groups.size());
    judge_pair(pair, *options.standard, options, progress, result);
    findings.push_back(localise_group(pair, group, result));
    explain_group(pair, findings.back(), result);
  }
  find_across_ranks(findings, result);
  const auto first = first_mismatch(findings, result);
  summarise(result);
  if (first) {
    result.first_divergence = describe_divergence(result, *first);
  }
  return result;
}

Comparison compare(Trace golden, Trace target) {
  return RankSet().add(std::move(golden), std::move(target)).compare();
}

const Row& row(const Comparison& result, const std::string& name) {
  for (const Row& one : result.rows) {
    if (one.name() == name) return one;
  }
  ADD_FAILURE() << "no row " << name;
  static const Row kNone;
  return kNone;
}

bool has_reason(const Row& row, const std::string& criterion) {
  for (const Reason& reason : row.reasons) {
    if (reason.criterion == criterion) return true;
  }
  return false;
}

}  // namespace assay::test
