// The main job, step by step: locate, pair, read, match, judge, localise.
#include "assay/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "assay/base/parallel.h"
#include "assay/base/text.h"
#include "assay/compare/divergence.h"
#include "assay/compare/engine.h"
#include "assay/compare/explain.h"
#include "assay/compare/localise.h"
#include "assay/compare/rank_order.h"
#include "assay/compare/read_traces.h"
#include "assay/compare/summary.h"

namespace assay {
namespace {

// A further run beside the golden: the baseline, or one of the noise runs.
struct Companion {
  TraceTree tree;
  std::vector<std::int32_t> of_golden;  // per golden location, -1 for none

  Companion(const std::string& path, const TraceTree& golden) : tree(path) {
    of_golden.assign(golden.locations.size(), -1);
    for (const LocationPair& pair :
         pair_locations(golden.locations, tree.locations)) {
      if (pair.golden >= 0) of_golden[pair.golden] = pair.target;
    }
  }
};

class Comparer {
 public:
  Comparer(const std::string& golden, const std::string& target,
           const CompareOptions& options)
      : options_(options),
        progress_(options_),
        golden_(golden),
        target_(target) {
    result_.golden_path = golden;
    result_.target_path = target;
    if (!options_.standard) options_.standard = Standard::load("assay");
    if (!options_.map_file.empty()) rules_ = load_map_rules(options_.map_file);
    rule_used_.resize(rules_.rules.size());
    if (!options_.baseline.empty()) {
      baseline_.emplace_back(options_.baseline, golden_);
    }
    for (const std::string& path : options_.noise) {
      noise_.emplace_back(path, golden_);
    }
  }

  Comparison run() {
    const auto start = std::chrono::steady_clock::now();
    describe_standard();
    result_.command = compare_command(result_, options_);
    const auto pairs = pair_locations(golden_.locations, target_.locations);
    only_pair_ = pairs.size() == 1;
    for (auto begin = pairs.begin(); begin != pairs.end();) {
      const auto end = std::find_if(begin, pairs.end(), [&](const auto& pair) {
        return pair.step != begin->step;
      });
      run_step({begin, end});
      begin = end;
    }
    summarise(result_);
    if (first_) {
      result_.first_divergence = describe_divergence(result_, *first_);
    }
    finish_warnings();
    const auto elapsed = std::chrono::steady_clock::now() - start;
    result_.seconds = std::chrono::duration<double>(elapsed).count();
    return std::move(result_);
  }

 private:
  void describe_standard() {
    result_.standard = options_.standard->name();
    result_.standard_source = options_.standard->source();
    result_.standard_date = options_.standard->date();
  }

  // As many ranks at a time as keep the threads busy with reading.
  void run_step(const std::vector<LocationPair>& ranks) {
    const std::size_t wave =
        std::max<std::size_t>(1, static_cast<std::size_t>(thread_count()) / 2);
    std::vector<GroupFindings> findings;
    for (std::size_t begin = 0; begin < ranks.size(); begin += wave) {
      const std::size_t end = std::min(begin + wave, ranks.size());
      std::vector<std::unique_ptr<TracePair>> pairs;
      read(ranks, begin, end, pairs);
      for (auto& pair : pairs) {
        findings.push_back(run_pair(*pair));
        discard(*pair);
      }
    }
    find_across_ranks(findings, result_);
    if (!first_) first_ = first_mismatch(findings, result_);
  }

  // Millions of strings: both sides at once.
  static void discard(TracePair& pair) {
    parallel_for(2, [&](std::int64_t side) {
      (side == 0 ? pair.golden : pair.target) = Trace();
    });
    pair.matching = Matching();
    pair.baseline.clear();
    pair.noise.clear();
  }

  void read(const std::vector<LocationPair>& ranks, std::size_t begin,
            std::size_t end, std::vector<std::unique_ptr<TracePair>>& pairs) {
    std::vector<ReadRequest> requests;
    for (std::size_t i = begin; i < end; ++i) {
      pairs.push_back(std::make_unique<TracePair>());
      TracePair& pair = *pairs.back();
      request(golden_, ranks[i].golden, ranks[i], pair.golden, requests);
      request(target_, ranks[i].target, ranks[i], pair.target, requests);
      if (ranks[i].golden < 0) continue;
      request_companions(baseline_, ranks[i].golden, pair.baseline, requests);
      request_companions(noise_, ranks[i].golden, pair.noise, requests);
    }
    read_all(requests, options_.read);
  }

  void request(const TraceTree& tree, std::int32_t index,
               const LocationPair& place, Trace& into,
               std::vector<ReadRequest>& requests) {
    if (index < 0) {
      into = absent_trace(place);
      result_.warnings.push_back(fmt::format("{}: no step {} rank {}",
                                             printable(tree.path), place.step,
                                             place.rank));
      return;
    }
    requests.push_back({&tree.locations[index], &into, only_pair_});
  }

  static void request_companions(const std::vector<Companion>& companions,
                                 std::int32_t golden,
                                 std::vector<CompanionTrace>& into,
                                 std::vector<ReadRequest>& requests) {
    into.reserve(companions.size());  // requests point into it
    for (const Companion& companion : companions) {
      const std::int32_t index = companion.of_golden[golden];
      if (index < 0) continue;
      into.emplace_back();
      requests.push_back(
          {&companion.tree.locations[index], &into.back().trace, false});
    }
  }

  GroupFindings run_pair(TracePair& pair) {
    mark_if_empty(pair.golden, pair.target);
    take_warnings(pair.golden, "golden");
    take_warnings(pair.target, "target");
    pair.matching =
        match_traces(pair.golden, pair.target, rules_, options_.fuzzy);
    for (std::size_t i = 0; i < pair.matching.rule_used.size(); ++i) {
      if (pair.matching.rule_used[i]) rule_used_[i] = true;
    }
    for (CompanionTrace& other : pair.baseline) match(pair.golden, other);
    for (CompanionTrace& other : pair.noise) match(pair.golden, other);
    if (!options_.only.empty()) {
      keep_only(options_.only, pair.golden, pair.target, pair.matching);
    }
    const auto group = static_cast<std::uint32_t>(result_.groups.size());
    judge_pair(pair, *options_.standard, options_, progress_, result_);
    GroupFindings findings =
        localise_group(pair, group, result_, first_.has_value());
    explain_group(pair, findings, result_);
    return findings;
  }

  void match(const Trace& golden, CompanionTrace& other) const {
    const Matching matching =
        match_traces(golden, other.trace, rules_, options_.fuzzy);
    other.record_of.assign(golden.records.size(), -1);
    for (const RecordPair& pair : matching.pairs) {
      if (pair.golden >= 0) other.record_of[pair.golden] = pair.target;
    }
  }

  void take_warnings(Trace& trace, std::string_view side) {
    for (const std::string& warning : trace.warnings) {
      std::string text = fmt::format("{}: {}", side, warning);
      if (warned_.insert(text).second)  // not again for each step and rank
        result_.warnings.push_back(std::move(text));
    }
  }

  void finish_warnings() {
    for (std::size_t i = 0; i < rule_used_.size(); ++i) {
      const MapRule& rule = rules_.rules[i];
      if (rule_used_[i]) continue;
      result_.warnings.push_back(fmt::format(
          "{}:{}: rule '{}: {}' applied to no name (the golden's name is on "
          "the left)",
          rules_.path, rule.line, printable(rule.golden),
          printable(rule.target)));
    }
    if (result_.rows.empty() && !options_.only.empty()) {
      result_.warnings.push_back("no record or operator fits --only");
    }
  }

  CompareOptions options_;
  ProgressMeter progress_;
  TraceTree golden_, target_;
  MapRules rules_;
  std::vector<bool> rule_used_;
  std::vector<Companion> baseline_, noise_;
  Comparison result_;
  std::unordered_set<std::string> warned_;
  std::optional<std::size_t> first_;
  bool only_pair_ = false;
};

}  // namespace

Comparison compare_paths(const std::string& golden, const std::string& target,
                         const CompareOptions& options) {
  return Comparer(golden, target, options).run();
}

void discard(Comparison comparison) {
  constexpr std::int64_t kRows = 4096;
  std::vector<Row>& rows = comparison.rows;
  const auto count = static_cast<std::int64_t>(rows.size());
  parallel_for((count + kRows - 1) / kRows, [&](std::int64_t block) {
    const std::int64_t end = std::min(count, (block + 1) * kRows);
    for (std::int64_t i = block * kRows; i < end; ++i) rows[i] = Row();
  });
}

}  // namespace assay
