#include "assay/precheck/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/compare/read_traces.h"
#include "assay/precheck/signature.h"

namespace assay::precheck {
namespace {

bool fits(const std::vector<std::string>& only, const ApiCall& call) {
  if (only.empty()) return true;
  return std::any_of(only.begin(), only.end(), [&](const std::string& pattern) {
    return glob_match(pattern, call.name) || glob_match(pattern, call.api) ||
           glob_match(pattern, call.name + ".forward") ||
           glob_match(pattern, call.name + ".backward");
  });
}

class Planner {
 public:
  Planner(const std::string& path, const PlanOptions& options)
      : options_(options) {
    plan_.path = path;
  }

  Plan run() {
    read();
    for (std::size_t i = 0; i < plan_.traces.size(); ++i) {
      for (const std::string& warning : plan_.traces[i].warnings) warn(warning);
      add_calls(i);
      if (options_.only.empty()) add_unrecorded(i);
    }
    if (plan_.chosen == 0) nothing_chosen();
    return std::move(plan_);
  }

 private:
  void read() {
    const std::vector<TraceLocation> all = locate_traces(plan_.path);
    std::vector<TraceLocation> chosen;
    for (const TraceLocation& place : all)
      if ((!options_.step || options_.step(place.step)) &&
          (!options_.rank || options_.rank(place.rank)))
        chosen.push_back(place);
    if (chosen.empty())
      throw Error(Code::kUsage,
                  fmt::format("{}: --step and --rank choose none of its {} "
                              "traces",
                              printable(plan_.path), all.size()));
    plan_.traces.resize(chosen.size());
    std::vector<ReadRequest> requests;
    for (std::size_t i = 0; i < chosen.size(); ++i)
      requests.push_back({&chosen[i], &plan_.traces[i], chosen.size() == 1});
    read_all(requests, {});
  }

  void warn(const std::string& warning) {
    auto& warnings = plan_.warnings;
    if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end())
      warnings.push_back(warning);
  }

  void add_calls(std::size_t index) {
    const Trace& trace = plan_.traces[index];
    for (ApiCall& call : read_calls(trace)) {
      ++seen_;
      if (!fits(options_.only, call)) continue;
      ++plan_.chosen;
      PlannedCall planned;
      planned.trace = index;
      planned.signature = signature_of(trace, call);
      if (!options_.every_call) {
        const auto [known, is_new] =
            first_.try_emplace(planned.signature, plan_.calls.size());
        if (!is_new) {
          ++plan_.calls[known->second].stands_for;
          continue;
        }
      }
      planned.rule = skip_rule(trace, call);
      planned.call = std::move(call);
      plan_.calls.push_back(std::move(planned));
    }
  }

  // Faults of a capture, the end of a step that is missing, a trace that
  // cannot be read: what was called there is not known.
  void add_unrecorded(std::size_t index) {
    const Trace& trace = plan_.traces[index];
    for (LeftOut& op : left_out(trace))
      plan_.unrecorded.push_back(
          {index, trace.ops[op.op].name, std::move(op.why)});
    for (const Op& op : trace.ops) {
      if (op.direction != Direction::kNone) continue;
      for (std::uint32_t i = 0; i < op.record_count; ++i) {
        const Record& record = trace.records[op.first_record + i];
        if (record.unreadable.empty()) continue;
        plan_.unrecorded.push_back(
            {index, op.name, "not recorded: " + record.unreadable});
        break;
      }
    }
  }

  void nothing_chosen() {
    if (seen_ > 0)
      throw Error(Code::kUsage,
                  fmt::format("{}: --only fits none of its {} calls",
                              printable(plan_.path), seen_));
    warn("the trace has no API calls: was it captured at level \"module\"?");
  }

  const PlanOptions& options_;
  Plan plan_;
  std::int64_t seen_ = 0;
  std::unordered_map<std::string, std::size_t> first_;
};

}  // namespace

Plan make_plan(const std::string& path, const PlanOptions& options) {
  return Planner(path, options).run();
}

}  // namespace assay::precheck
