// The cases of a run, spread over threads that each have workers of their own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "assay/conform/spec.h"
#include "assay/conform/worker.h"

namespace assay::conform {

// Which cases, on how many workers, within which limits.
struct RunOptions {
  std::vector<Spec> specs;
  Tier tier = Tier::kSmall;
  // Cases by id or "module/id"; all where it is empty.
  std::vector<std::string> only;
  int workers = 0;  // 0: half the cores, at least one
  WorkerLimits limits;
  bool resume = false;  // keep what an interrupted run has finished
  const std::atomic<bool>* stop = nullptr;  // finish the cases in hand
  // Called from any thread.
  std::function<void(std::int64_t done, std::int64_t total)> progress;
};

struct Job {
  const Spec* spec = nullptr;
  Case subject;
};

// Cases of several ranks at the end, those of one number of ranks together.
// Throws Error{kUsage} where `only` names a case that is none.
std::vector<Job> make_jobs(const RunOptions& options);

// The first of a run's workers, started already: what says hello runs cases
// too. Throws Error{kUnreadable}.
std::unique_ptr<WorkerSet> start_first(const std::vector<Job>& jobs,
                                       const RunOptions& options,
                                       const WorkerCommand& command);

// Calls body(i, thread) for every i below `count` on that many threads, until
// all are done or `stop` is set. The first exception of a body ends the others
// after what they have in hand and is thrown here. `progress` is called from
// any thread.
struct Schedule {
  std::size_t count = 0, threads = 1;
  const std::atomic<bool>* stop = nullptr;
  std::function<void(std::int64_t done, std::int64_t total)> progress;
};
void for_each_index(
    const Schedule& schedule,
    const std::function<void(std::size_t i, std::size_t thread)>& body);

// The command with the cores that each of so many workers may use: all of them
// together use the machine.
WorkerCommand with_threads(WorkerCommand command, std::size_t workers);

// Calls body(i, workers) for every job, each thread with its own WorkerSet,
// one of them `first`, until all are done or `stop` is set. The first
// exception of a body ends the others after their case and is thrown here.
void for_each_job(const std::vector<Job>& jobs, const RunOptions& options,
                  std::unique_ptr<WorkerSet> first,
                  const std::function<void(std::size_t, WorkerSet&)>& body);

bool stopped(const RunOptions& options);

}  // namespace assay::conform
