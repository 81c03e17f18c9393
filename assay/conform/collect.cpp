#include "assay/conform/collect.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "assay/base/clock.h"
#include "assay/base/error.h"
#include "assay/conform/case_log.h"
#include "assay/conform/case_run.h"
#include "assay/conform/judge_outputs.h"
#include "assay/conform/scratch.h"
#include "assay/conform/store.h"
#include "assay/conform/tensor_file.h"
#include "assay/conform/value_shown.h"

namespace assay::conform {
namespace {

class Collector {
 public:
  Collector(const RunOptions& options, const std::filesystem::path& folder,
            Hello hello)
      : options_(options), writer_(folder), goldens_(folder), scratch_(folder) {
    result_.hello = std::move(hello);
  }

  void collect(const Job& job, std::size_t index, WorkerSet& workers) {
    const Manifest now = manifest_of(*job.spec, job.subject, result_.hello);
    if (options_.resume && is_fresh(now)) {
      const std::lock_guard lock(mutex_);
      ++result_.kept;
      return;
    }
    make(job, index, workers, now);
  }

  Collected take(bool interrupted) {
    result_.interrupted = interrupted;
    return std::move(result_);
  }

 private:
  bool is_fresh(const Manifest& now) const {
    try {
      const std::optional<Manifest> golden = goldens_.find(now.subject);
      return golden && stale_reason(*golden, now, true).empty() &&
             goldens_.complete(*golden);
    } catch (const Error&) {
      return false;  // changed: it is made again
    }
  }

  void make(const Job& job, std::size_t index, WorkerSet& workers,
            Manifest manifest) {
    const Case& c = job.subject;
    const std::filesystem::path prefix =
        scratch_.path() / std::to_string(index);
    const std::filesystem::path inputs = prefix.string() + ".in";
    write_tensors(make_inputs(*job.spec, c), inputs);
    manifest.inputs = writer_.put_object(inputs);
    std::filesystem::remove(inputs);
    const std::filesystem::path given = writer_.object_path(manifest.inputs);
    CaseRun run = run_case(workers, *job.spec, c, given, prefix);
    if (run.ending != Ending::kCompared) return fail(c, run);
    if (!run.outcome.ok() && !run.outcome.unsupported() &&
        !run.outcome.refused()) {
      run.message = fmt::format("{}: {}", one_line(run.outcome.error),
                                one_line(run.outcome.message));
      return fail(c, run);
    }
    if (run.outcome.ok() && job.spec->deterministic) {
      const CaseRun again =
          run_case(workers, *job.spec, c, given, prefix.string() + "-again");
      if (again.ending != Ending::kCompared) return fail(c, again);
      manifest.repeats = repeats(run.outcome, again.outcome);
      run.seconds = std::min(run.seconds, again.seconds);
      remove(again);
    }
    keep(run, std::move(manifest));
  }

  static bool repeats(const Outcome& first, const Outcome& second) {
    return second.ok() &&
           judge_repetition(first, second)[0].verdict == Verdict::kMatch;
  }

  void keep(const CaseRun& run, Manifest manifest) {
    manifest.status = run.outcome.status;
    manifest.error = run.outcome.error;
    manifest.message = run.outcome.message;
    manifest.contract = run.outcome.contract;
    for (const std::filesystem::path& file : run.files)
      manifest.outputs.push_back(writer_.put_object(file));
    remove(run);
    manifest.seconds = run.seconds;
    manifest.peak_bytes = run.peak_bytes;
    manifest.collected = utc_time();
    writer_.put(manifest);
    const std::lock_guard lock(mutex_);
    ++result_.made;
    if (run.outcome.unsupported()) ++result_.unsupported;
    if (run.outcome.refused()) ++result_.refused;
  }

  static void remove(const CaseRun& run) {
    std::error_code ignored;
    for (const std::filesystem::path& file : run.files)
      std::filesystem::remove(file, ignored);
  }

  void fail(const Case& c, const CaseRun& run) {
    const std::string log =
        keep_log(writer_.folder() / "logs", c, "golden", run.log);
    const std::lock_guard lock(mutex_);
    result_.failures.push_back({c.name(), run.message, log});
  }

  const RunOptions& options_;
  GoldenWriter writer_;
  Goldens goldens_;
  Scratch scratch_;
  std::mutex mutex_;
  Collected result_;
};

}  // namespace

Collected collect(const RunOptions& options, const WorkerCommand& reference,
                  const std::filesystem::path& folder) {
  const std::vector<Job> jobs = make_jobs(options);
  auto first = start_first(jobs, options, reference);
  Collector collector(options, folder, first->of(1).hello());
  for_each_job(jobs, options, std::move(first),
               [&](std::size_t i, WorkerSet& workers) {
                 collector.collect(jobs[i], i, workers);
               });
  return collector.take(stopped(options));
}

}  // namespace assay::conform
