#include "assay/compare/determinism/determinism.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string_view>
#include <utility>

#include "assay/base/error.h"
#include "assay/compare/compare.h"
#include "assay/compare/determinism/parting.h"
#include "assay/compare/determinism/same_bits.h"

namespace assay {
namespace {

bool came_in(Parting kind) {
  return kind == Parting::kWeights || kind == Parting::kData ||
         kind == Parting::kArgument;
}

class Finder {
 public:
  Finder(const std::vector<RunTraces>& runs, const DeterminismOptions& options)
      : runs_(runs), options_(options) {
    if (runs.size() < 2)
      throw Error(Code::kUsage, "a run alone: two or more can be compared");
    out_.runs = static_cast<std::int64_t>(runs.size());
  }

  DeterminismReport run() {
    const auto start = std::chrono::steady_clock::now();
    out_.verdict = Verdict::kMatch;
    for (std::size_t i = 1; i < runs_.size(); ++i) compare(i);
    if (first_) out_.first = std::move(first_->finding);
    out_.steps.assign(steps_.begin(), steps_.end());
    const auto elapsed = std::chrono::steady_clock::now() - start;
    out_.seconds = std::chrono::duration<double>(elapsed).count();
    return std::move(out_);
  }

 private:
  Comparison compared(const std::string& a, const std::string& b) const {
    CompareOptions options;
    options.standard = same_bits();
    options.progress = options_.progress;
    options.stop = options_.stop;
    return compare_paths(a, b, options);
  }

  void compare(std::size_t run) {
    Comparison result = compared(runs_[0].steps, runs_[run].steps);
    out_.interrupted = out_.interrupted || result.interrupted;
    for (const Group& group : result.groups) steps_.insert(group.step);
    const DeterminismCounts counts = {
        result.counts.match, result.counts.mismatch, result.counts.incomplete,
        result.counts.empty};
    std::optional<Parted> parted;
    if (result.verdict != Verdict::kMatch && !result.interrupted)
      parted = find_parting(result);
    if (!parted && out_.verdict == Verdict::kMatch)
      out_.verdict = result.verdict;
    for (std::string& warning : result.warnings) warn(std::move(warning));
    if (parted && (!first_ || parted->when < first_->when)) {
      look_before(run, *parted);
      parted->finding.run = static_cast<std::int64_t>(run) + 1;
      first_ = std::move(parted);
      out_.counts = counts;
    }
    if (!first_) out_.counts = counts;
    if (first_) out_.verdict = Verdict::kMismatch;
    discard(std::move(result));
  }

  // What came in differing at the start may have been computed before it.
  void look_before(std::size_t run, Parted& parted) const {
    DeterminismFinding& finding = parted.finding;
    if (!came_in(finding.kind) || runs_[0].setup.empty() ||
        runs_[run].setup.empty()) {
      return;
    }
    try {
      Comparison setup = compared(runs_[0].setup, runs_[run].setup);
      if (auto origin = find_origin(setup)) {
        origin->reached = finding.op + "." + finding.leaf;
        finding = std::move(*origin);
      }
    } catch (const Error&) {
      return;  // nothing ran before the steps
    }
  }

  void warn(std::string warning) {
    // Sides are runs of one program: what is said of both is said once.
    for (const std::string_view side : {"golden: ", "target: "}) {
      if (warning.starts_with(side)) warning.erase(0, side.size());
    }
    auto& all = out_.warnings;
    if (std::find(all.begin(), all.end(), warning) == all.end())
      all.push_back(std::move(warning));
  }

  const std::vector<RunTraces>& runs_;
  const DeterminismOptions& options_;
  DeterminismReport out_;
  std::set<std::int64_t> steps_;
  std::optional<Parted> first_;
};

}  // namespace

std::string_view to_string(Parting parting) {
  switch (parting) {
    case Parting::kOperator:
      return "operator";
    case Parting::kRandom:
      return "random";
    case Parting::kCalls:
      return "calls";
    case Parting::kWeights:
      return "weights";
    case Parting::kData:
      return "data";
    case Parting::kArgument:
      return "argument";
    case Parting::kExchange:
      return "exchange";
    case Parting::kUnknown:
      break;
  }
  return "unknown";
}

bool DeterminismReport::another_start() const {
  return first && came_in(first->kind);
}

DeterminismReport find_nondeterminism(const std::vector<RunTraces>& runs,
                                      const DeterminismOptions& options) {
  return Finder(runs, options).run();
}

}  // namespace assay
