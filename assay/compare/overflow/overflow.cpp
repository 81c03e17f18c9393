#include "assay/compare/overflow/overflow.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/parallel.h"
#include "assay/compare/overflow/scan.h"
#include "assay/compare/overflow/step_search.h"
#include "assay/compare/read_traces.h"

namespace assay {
namespace {

class Finder {
 public:
  Finder(const std::string& path, const OverflowOptions& options)
      : options_(options) {
    out_.path = path;
    const TraceTree tree(path);
    for (const TraceLocation& location : tree.locations) {
      if (wanted(options.step, location.step) &&
          wanted(options.rank, location.rank)) {
        locations_.push_back(location);
      }
    }
    if (locations_.empty())
      throw Error(Code::kUsage,
                  path + ": no trace of such a step and rank among the " +
                      std::to_string(tree.locations.size()) + " there");
  }

  OverflowReport run() {
    const auto start = std::chrono::steady_clock::now();
    for (auto begin = locations_.begin(); begin != locations_.end();) {
      const auto end = std::find_if(
          begin, locations_.end(),
          [&](const auto& location) { return location.step != begin->step; });
      run_step({begin, end});
      begin = end;
    }
    conclude();
    const auto elapsed = std::chrono::steady_clock::now() - start;
    out_.seconds = std::chrono::duration<double>(elapsed).count();
    return std::move(out_);
  }

 private:
  static bool wanted(const std::function<bool(std::int64_t)>& fits,
                     std::int64_t number) {
    return !fits || fits(number);
  }

  // As many ranks at a time as there are threads are read together.
  void run_step(const std::vector<TraceLocation>& ranks) {
    StepSearch search(options_, out_);
    const auto wave = static_cast<std::size_t>(std::max(thread_count(), 1));
    for (std::size_t begin = 0; begin < ranks.size(); begin += wave) {
      const std::size_t end = std::min(begin + wave, ranks.size());
      std::vector<Trace> traces(end - begin);
      std::vector<ReadRequest> requests;
      for (std::size_t i = begin; i < end; ++i) {
        requests.push_back(
            {&ranks[i], &traces[i - begin], locations_.size() == 1});
      }
      read_all(requests, options_.read);
      for (Trace& trace : traces) add(search, std::move(trace));
    }
    search.finish();
  }

  void add(StepSearch& search, Trace trace) {
    steps_.insert(trace.step);
    ranks_.insert(trace.rank);
    for (const std::string& warning : trace.warnings) {
      if (warned_.insert(warning).second) out_.warnings.push_back(warning);
    }
    if (trace.records.empty())
      out_.warnings.push_back(trace.path.string() +
                              ": the trace has no records");
    Scan scan = scan_values(trace, options_.stop, [&](std::int64_t bytes) {
      bytes_ += bytes;
      report();
    });
    search.add(std::move(trace), std::move(scan));
    ++done_;
    report();
  }

  void report() const {
    if (!options_.progress) return;
    options_.progress(done_, static_cast<std::int64_t>(locations_.size()),
                      bytes_);
  }

  void conclude() {
    OverflowCounts& counts = out_.counts;
    counts.near = static_cast<std::int64_t>(out_.near.size());
    counts.quantised = static_cast<std::int64_t>(out_.quantised.size());
    out_.steps.assign(steps_.begin(), steps_.end());
    out_.ranks.assign(ranks_.begin(), ranks_.end());
    out_.interrupted = options_.stop && options_.stop->load();
    out_.bytes = bytes_;
    if (counts.records == 0 && !options_.only.empty())
      out_.warnings.push_back("no record or operator fits --only");
    if (out_.first) {
      out_.verdict = Verdict::kMismatch;
    } else if (counts.unseen > 0 || counts.records == 0 || out_.interrupted) {
      out_.verdict = Verdict::kIncomplete;
    } else {
      out_.verdict = Verdict::kMatch;
    }
  }

  const OverflowOptions& options_;
  OverflowReport out_;
  std::unordered_set<std::string> warned_;
  std::vector<TraceLocation> locations_;
  std::set<std::int64_t> steps_, ranks_;
  std::atomic<std::int64_t> done_{0}, bytes_{0};
};

}  // namespace

std::string_view to_string(OverflowKind kind) {
  switch (kind) {
    case OverflowKind::kBorn:
      return "born";
    case OverflowKind::kEntered:
      return "entered";
    case OverflowKind::kArrived:
      return "arrived";
    case OverflowKind::kUnknown:
      return "unknown";
    case OverflowKind::kPropagated:
      return "propagated";
  }
  return "unknown";
}

std::string_view overflow_word(Verdict verdict) {
  if (verdict == Verdict::kMismatch) return "overflow";
  return verdict == Verdict::kMatch ? "finite" : "incomplete";
}

OverflowReport find_overflow(const std::string& path,
                             const OverflowOptions& options) {
  return Finder(path, options).run();
}

}  // namespace assay
