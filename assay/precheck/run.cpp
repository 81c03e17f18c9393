#include "assay/precheck/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <set>
#include <thread>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/hash.h"
#include "assay/base/text.h"
#include "assay/conform/case_log.h"
#include "assay/conform/schedule.h"
#include "assay/precheck/assemble.h"
#include "assay/precheck/judge_call.h"
#include "assay/precheck/nondeterminism.h"
#include "assay/precheck/replay.h"
#include "assay/trace/capture_content.h"

namespace assay::precheck {
namespace {

using conform::CaseRun;
using conform::Ending;
using conform::Hello;

constexpr int kMostJobs = 4;

std::size_t jobs_of(const RunOptions& options, std::size_t calls) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int wanted =
      options.jobs > 0 ? options.jobs : std::clamp(cores / 2, 1, kMostJobs);
  return std::clamp<std::size_t>(calls, 1, static_cast<std::size_t>(wanted));
}

// A worker that cannot take part is refused before the work.
Hello hello_of(WorkerPool& pool, const conform::WorkerCommand& command) {
  WorkerPool::Lease worker(pool);
  const Hello& hello = worker.workers().of(1).hello();
  if (hello.modules.count("api_call") == 0)
    throw Error(
        Code::kUsage,
        fmt::format("worker '{}': {} {} has no module api_call: it "
                    "cannot replay calls",
                    printable(command.text), printable(hello.implementation),
                    printable(hello.version)));
  return hello;
}

std::string side_text(const Hello& hello, const char* precision) {
  return fmt::format("{}{} {} on {}", precision,
                     printable(hello.implementation), printable(hello.version),
                     printable(hello.device));
}

bool is_final(const std::vector<JudgedRow>& rows) {
  static const std::set<std::string> kWorthAnotherTry = {"crashed", "timeout",
                                                         "memory", "garbage"};
  for (const JudgedRow& judged : rows)
    for (const Reason& reason : judged.row.reasons)
      if (kWorthAnotherTry.count(reason.criterion) > 0) return false;
  return true;
}

class Runner {
 public:
  Runner(const Plan& plan, const RunOptions& options)
      : plan_(plan),
        options_(options),
        jobs_(jobs_of(options, plan.calls.size())),
        device_(conform::with_threads(options.device, 2 * jobs_),
                options.limits, jobs_),
        golden_(conform::with_threads(options.golden, 2 * jobs_),
                options.limits, jobs_),
        journal_(options.out, options.resume),
        replayer_(options.out, device_, golden_) {}

  RunResult run() {
    const auto start = std::chrono::steady_clock::now();
    RunResult result;
    say_hello(result);
    std::vector<JournalEntry> results(plan_.calls.size());
    // One thread more than workers: it judges while they compute.
    conform::Schedule schedule{plan_.calls.size(), jobs_ + 1, options_.stop,
                               options_.progress};
    conform::for_each_index(schedule, [&](std::size_t i, std::size_t) {
      if (plan_.calls[i].rule.skip == Skip::kNone) results[i] = call(i);
    });
    result.comparison.interrupted = options_.stop && options_.stop->load();
    assemble(plan_, std::move(results), result);
    result.comparison.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count();
    return result;
  }

 private:
  void say_hello(RunResult& result) {
    auto golden = std::async(
        std::launch::async, [&] { return hello_of(golden_, options_.golden); });
    const Hello device_hello = hello_of(device_, options_.device);
    const Hello golden_hello = golden.get();
    result.device = {device_hello.implementation, device_hello.version,
                     device_hello.device, device_hello.environment};
    result.golden = {golden_hello.implementation, golden_hello.version,
                     golden_hello.device, golden_hello.environment};
    Comparison& comparison = result.comparison;
    comparison.subject = Subject::kCalls;
    comparison.golden_path = side_text(golden_hello, "float64, ");
    comparison.target_path = side_text(device_hello, "");
    comparison.standard = options_.standard->name();
    comparison.standard_source = options_.standard->source();
    comparison.standard_date = options_.standard->date();
    if (options_.by_detail) {
      comparison.standard = "msprobe-precheck";
      comparison.standard_source = "msprobe 26.2.0, acc_check";
      comparison.standard_date.clear();
    }
    comparison.command = options_.command;
    run_key_ = conform::format_hello(device_hello) +
               conform::format_hello(golden_hello) + options_.device.text +
               files_of(options_.device) + options_.golden.text +
               files_of(options_.golden) + options_.standard->name() +
               options_.standard->date() + (options_.by_detail ? "d" : "e") +
               std::to_string(options_.runs) + plan_.path;
  }

  // The elements of a tensor that is given to a call, by a hash: the trace's
  // own where it has one.
  static std::string content_of(const Trace& trace, const Record& record) {
    if (!record.digest.empty() || record.file.empty() ||
        record.role != Role::kInput || !record.unreadable.empty())
      return record.digest;
    try {
      const Tensor tensor = contiguous(trace.loader->load(record));
      return to_hex(content_hash(tensor.view));
    } catch (const Error& error) {
      return error.what();
    }
  }

  // Whatever decides about the rows of a call.
  std::string key_of(const PlannedCall& planned) const {
    const Trace& trace = plan_.traces[planned.trace];
    std::string text =
        fmt::format("{}\n{}\n{}\n{}\n{}\n", run_key_, planned.call.name,
                    trace.step, trace.rank, planned.signature);
    for (const std::int32_t index :
         {static_cast<std::int32_t>(planned.call.forward),
          planned.call.backward}) {
      if (index < 0) continue;
      const Op& op = trace.ops[static_cast<std::size_t>(index)];
      for (std::uint32_t i = 0; i < op.record_count; ++i) {
        const Record& r = trace.records[op.first_record + i];
        text += fmt::format("{} {} {} {} {} {} {} {} {} {} {}\n", r.leaf,
                            r.facts.dtype_text, to_string(r.facts.shape),
                            r.stats.max.value_or(0), r.stats.min.value_or(0),
                            r.stats.mean.value_or(0), r.stats.norm.value_or(0),
                            r.zeros, content_of(trace, r), r.value, r.file);
      }
    }
    return to_hex(hash128(text));
  }

  JournalEntry call(std::size_t index) {
    const PlannedCall& planned = plan_.calls[index];
    const std::string key = key_of(planned);
    if (std::optional<JournalEntry> kept = journal_.take(key))
      return *std::move(kept);
    JournalEntry entry;
    try {
      entry = replayed(planned, index);
    } catch (const Error& error) {
      if (error.code() == Code::kUsage) throw;
      entry.rows.clear();
      entry.rows.push_back(decided(planned.call.name + ".forward", false, true,
                                   Verdict::kIncomplete, "inputs",
                                   error.what()));
    }
    if (is_final(entry.rows)) journal_.add(key, entry);
    return entry;
  }

  int runs_of(const PlannedCall& planned, const CallInputs& inputs) const {
    if (options_.runs > 0) return options_.runs;
    const std::string& api = planned.call.api;
    const bool may_differ = may_not_repeat(api, false) ||
                            (inputs.backward && may_not_repeat(api, true));
    return may_differ ? 2 : 1;
  }

  JournalEntry replayed(const PlannedCall& planned, std::size_t index) {
    JournalEntry entry;
    const Trace& trace = plan_.traces[planned.trace];
    const CallInputs inputs = make_inputs(trace, planned);
    entry.generated = !inputs.generated.empty();
    const Replayed replayed =
        replayer_.run(planned, inputs, runs_of(planned, inputs), index);
    CallTask task;
    task.trace = &trace;
    task.planned = &planned;
    task.inputs = &inputs;
    task.golden = &replayed.golden;
    task.device = &replayed.device;
    task.standard = options_.standard.get();
    task.by_detail = options_.by_detail;
    task.again = [&](const conform::TensorMap& tensors,
                     const std::string& precision) {
      return replayer_.golden(planned, inputs, tensors, precision, index);
    };
    entry.rows = judge_call(task);
    keep_logs(replayed, index, entry.rows);
    return entry;
  }

  // Of a call that is no match what its workers complained of, named in its
  // first row.
  void keep_logs(const Replayed& replayed, std::size_t index,
                 std::vector<JudgedRow>& rows) const {
    const bool bad = std::any_of(rows.begin(), rows.end(), [](const auto& r) {
      return r.row.verdict == Verdict::kMismatch ||
             r.row.verdict == Verdict::kIncomplete;
    });
    if (!bad) return;
    conform::Case c;
    c.module = "call";
    c.id = std::to_string(index);
    for (const auto& [side, run] : {std::pair("device", &replayed.device),
                                    std::pair("golden", &replayed.golden)}) {
      const std::string file =
          conform::keep_log(options_.out / "logs", c, side, run->log);
      if (file.empty()) continue;
      Reason reason;
      reason.criterion = "log";
      reason.text =
          fmt::format("the {}'s log: logs/{}", side,
                      std::filesystem::path(file).filename().string());
      reason.note = true;
      rows.front().row.reasons.push_back(std::move(reason));
    }
  }

  const Plan& plan_;
  const RunOptions& options_;
  const std::size_t jobs_;
  WorkerPool device_, golden_;
  CallJournal journal_;
  Replayer replayer_;
  std::string run_key_;
};

}  // namespace

RunResult run(const Plan& plan, const RunOptions& options) {
  return Runner(plan, options).run();
}

}  // namespace assay::precheck
