// Runs the overflow search over traces in memory.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "assay/compare/overflow/scan.h"
#include "assay/compare/overflow/step_search.h"
#include "assay/numerics/element.h"
#include "synthetic.h"

namespace assay::test {

using Values = std::vector<float>;

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The ranks of one step.
template <typename... Traces>
OverflowReport search(Traces... traces) {
  OverflowReport report;
  OverflowOptions options;
  StepSearch step(options, report);
  const auto add = [&](Trace trace) {
    Scan scan = scan_values(trace, nullptr, {});
    step.add(std::move(trace), std::move(scan));
  };
  (add(std::move(traces)), ...);
  step.finish();
  return report;
}

inline OverflowReport search(TraceBuilder& builder) {
  return search(builder.build());
}

inline Tensor tensor_of(DType dtype, const std::vector<double>& values) {
  Tensor t = Tensor::zeros(dtype, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i)
    store_from_double(dtype, values[i], t.mutable_data(),
                      static_cast<std::int64_t>(i));
  return t;
}

// "born Functional.exp.0.forward output.0", one a finding.
inline std::vector<std::string> found(const OverflowReport& report) {
  std::vector<std::string> texts;
  for (const OverflowFinding& f : report.found)
    texts.push_back(std::string(to_string(f.kind)) + " " + f.op + " " +
                    f.leaf.leaf);
  return texts;
}

}  // namespace assay::test
