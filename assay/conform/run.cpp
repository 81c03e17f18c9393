#include "assay/conform/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>

#include "assay/base/clock.h"
#include "assay/base/error.h"
#include "assay/conform/case_log.h"
#include "assay/conform/case_run.h"
#include "assay/conform/exports.h"
#include "assay/conform/journal.h"
#include "assay/conform/judge.h"
#include "assay/conform/scratch.h"
#include "assay/conform/store.h"

namespace assay::conform {
namespace {

class Runner {
 public:
  Runner(const RunOptions& options, const TargetOptions& where,
         std::string target, Hello hello)
      : where_(where),
        target_(std::move(target)),
        hello_(std::move(hello)),
        goldens_(where.goldens),
        scratch_(where.folder),
        journal_(where.folder / "journal.jsonl", options.resume) {}

  CaseResult judge(const Job& job, std::size_t index, WorkerSet& workers) {
    CaseResult result;
    result.subject = job.subject;
    try {
      const std::optional<Manifest> golden = usable_golden(job, result);
      if (!golden) return result;
      const std::string key = journal_key(
          *golden, manifest_of(*job.spec, job.subject, hello_), target_);
      if (std::optional<CaseResult> kept = journal_.find(key)) return *kept;
      compare(job, index, workers, *golden, result);
      journal_.add(key, result);
    } catch (const Error& error) {
      // A spec that is wrong is wrong for every case of it.
      if (error.code() == Code::kUsage) throw;
      result.ending = Ending::kMissing;
      result.verdict = Verdict::kIncomplete;
      result.message = error.what();
    }
    return result;
  }

  // Who made the goldens that were used; several are worth a warning.
  void describe_goldens(RunResult& result) const {
    if (sides_.empty()) return;
    result.golden = sides_.begin()->second;
    if (sides_.size() == 1) return;
    std::string names;
    for (const auto& [name, side] : sides_)
      names += (names.empty() ? "" : ", ") + name;
    result.warnings.push_back("the store has goldens of several: " + names);
  }

 private:
  void remember(const Manifest& golden) {
    const std::lock_guard lock(mutex_);
    sides_.try_emplace(fmt::format("{} {} on {}", golden.implementation,
                                   golden.version, golden.device),
                       Side{golden.implementation, golden.version,
                            golden.device, golden.environment});
  }

  // Fills the result where there is none.
  std::optional<Manifest> usable_golden(const Job& job, CaseResult& result) {
    std::optional<Manifest> golden = goldens_.find(job.subject);
    if (!golden) {
      result.ending = Ending::kMissing;
      result.message = "no golden of this case; `assay conform collect`";
      return std::nullopt;
    }
    const Manifest now = manifest_of(*job.spec, job.subject, hello_);
    Manifest comparable = now;
    // A target without the module says so itself.
    if (hello_.modules.count(job.subject.module) == 0)
      comparable.adapter = golden->adapter;
    const std::string stale = stale_reason(*golden, comparable, false);
    if (!stale.empty()) {
      result.ending = Ending::kStale;
      result.message = stale;
      return std::nullopt;
    }
    remember(*golden);
    result.golden_seconds = golden->seconds;
    result.golden_peak_bytes = golden->peak_bytes;
    return golden;
  }

  void compare(const Job& job, std::size_t index, WorkerSet& workers,
               const Manifest& golden, CaseResult& result) {
    const Outcome expected = goldens_.outcome(golden);
    const std::filesystem::path inputs =
        goldens_.inputs(golden, scratch_.path());
    const std::filesystem::path prefix =
        scratch_.path() / std::to_string(index);
    const CaseRun first =
        run_case(workers, *job.spec, job.subject, inputs, prefix);
    result.seconds = first.seconds;
    result.peak_bytes = first.peak_bytes;
    if (ended(first, result)) return;
    if (!first.outcome.ok() || !job.spec->deterministic) {
      judge_case(*job.spec, expected, first.outcome, nullptr, result);
    } else {
      const CaseRun again = run_case(workers, *job.spec, job.subject, inputs,
                                     prefix.string() + "-again");
      if (ended(again, result)) {
        result.message = "in its second run: " + result.message;
        return;
      }
      // The first one pays for pages and caches.
      result.seconds = std::min(first.seconds, again.seconds);
      judge_case(*job.spec, expected, first.outcome, &again.outcome, result);
      remove(again);
    }
    remove(first);
    if (result.verdict != Verdict::kMatch && result.verdict != Verdict::kEmpty)
      result.log = keep(job.subject, first.log);
  }

  // True where there is no answer that could be judged.
  bool ended(const CaseRun& run, CaseResult& result) {
    if (run.ending == Ending::kCompared) return false;
    result.ending = run.ending;
    result.verdict = Verdict::kIncomplete;
    result.message = run.message;
    result.log = keep(result.subject, run.log);
    return true;
  }

  std::string keep(const Case& c, const std::string& log) const {
    return keep_log(where_.folder / "logs", c, "target", log);
  }

  static void remove(const CaseRun& run) {
    std::error_code ignored;
    for (const std::filesystem::path& file : run.files)
      std::filesystem::remove(file, ignored);
  }

  const TargetOptions& where_;
  const std::string target_;
  const Hello hello_;
  const Goldens goldens_;
  const Scratch scratch_;
  Journal journal_;
  std::mutex mutex_;
  std::map<std::string, Side> sides_;
};

// One entry for each spec, its cases in the order that make_cases() has.
std::vector<ModuleResult> by_module(const RunOptions& options,
                                    const Hello& hello,
                                    std::vector<CaseResult> results) {
  std::vector<ModuleResult> modules;
  std::map<std::string, std::size_t> index;
  for (const Spec& spec : options.specs) {
    index[spec.module] = modules.size();
    modules.push_back({spec.module, options.tier, spec.api, {}, {}});
    if (!options.only.empty()) continue;
    if (auto exports = judge_exports(spec, options.tier, hello))
      modules.back().cases.push_back(std::move(*exports));
  }
  for (CaseResult& result : results)
    modules[index.at(result.subject.module)].cases.push_back(std::move(result));
  std::erase_if(modules, [&](const ModuleResult& module) {
    return module.cases.empty() && !options.only.empty();
  });
  return modules;
}

Side side_of(const Hello& hello) {
  return {hello.implementation, hello.version, hello.device, hello.environment};
}

}  // namespace

RunResult run(const RunOptions& options, const WorkerCommand& target,
              const TargetOptions& where) {
  const auto start = std::chrono::steady_clock::now();
  RunResult result;
  result.began = utc_time();
  result.command = where.command;
  result.store = where.goldens.string();
  const std::vector<Job> jobs = make_jobs(options);
  auto first = start_first(jobs, options, target);
  const Hello hello = first->of(1).hello();
  result.target = side_of(hello);
  Runner runner(options, where, target.text + '\n' + files_of(target), hello);
  std::vector<CaseResult> results(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    results[i].subject = jobs[i].subject;
    results[i].message = "not run: interrupted";
  }
  for_each_job(jobs, options, std::move(first),
               [&](std::size_t i, WorkerSet& workers) {
                 results[i] = runner.judge(jobs[i], i, workers);
               });
  result.interrupted = stopped(options);
  runner.describe_goldens(result);
  result.modules = by_module(options, hello, std::move(results));
  result.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  conclude(result);
  return result;
}

}  // namespace assay::conform
