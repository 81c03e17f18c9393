// Builds traces in memory, and runs them through the comparison.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "assay/compare/compare.h"
#include "assay/compare/engine.h"

namespace assay::test {

Tensor f32(Shape shape, const std::vector<float>& values);

// Hands out tensors by Record::file; an unknown file cannot be read.
class FakeLoader : public TensorLoader {
 public:
  Tensor load(const Record& record) const override;
  std::map<std::string, Tensor> tensors;
  std::function<void()> on_load;
};

// Appends operators and records in execution order.
class TraceBuilder {
 public:
  TraceBuilder();

  // `name` is "Functional.gelu.0.forward", "Module.a.Linear.forward.0", ...;
  // API, index and direction are taken from it.
  TraceBuilder& op(const std::string& name, const std::string& parent = "");
  TraceBuilder& tensor(Role role, const std::string& leaf, Tensor tensor);
  TraceBuilder& in(const std::vector<float>& values);
  TraceBuilder& out(const std::vector<float>& values);
  TraceBuilder& parameter(const std::vector<float>& values);
  // Statistics alone: max, min, mean, norm.
  TraceBuilder& statistics(Role role, const std::string& leaf, Shape shape,
                           double max, double min, double mean, double norm);
  TraceBuilder& digest(Role role, const std::string& leaf, DType dtype,
                       Shape shape, const std::string& digest);
  TraceBuilder& value(const std::string& leaf, const std::string& type,
                      const std::string& text);
  TraceBuilder& group(std::vector<std::int64_t> ranks);
  Record& last() { return trace_.records.back(); }
  Op& last_op() { return trace_.ops.back(); }
  FakeLoader& loader() { return *loader_; }

  Trace build(std::int64_t rank = 0);

 private:
  Record& add(Role role, const std::string& leaf);

  Trace trace_;
  std::shared_ptr<FakeLoader> loader_;
  std::vector<std::pair<std::size_t, std::string>> parents_;
};

// All pairs are ranks of one step, in this order.
struct RankSet {
  std::vector<std::pair<Trace, Trace>> ranks;
  CompareOptions options;
  MapRules rules;

  RankSet& add(Trace golden, Trace target);
  Comparison compare();
};

Comparison compare(Trace golden, Trace target);

// The row of that name; fails the test when there is none.
const Row& row(const Comparison& result, const std::string& name);
bool has_reason(const Row& row, const std::string& criterion);

}  // namespace assay::test
