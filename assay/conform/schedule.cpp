#include "assay/conform/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>

#include "assay/base/error.h"
#include "assay/base/text.h"

namespace assay::conform {
namespace {

void keep_only(const std::vector<std::string>& only, std::vector<Job>& jobs) {
  if (only.empty()) return;
  std::vector<std::string> all;
  for (const Job& job : jobs) all.push_back(job.subject.id);
  const auto named = [](const Job& job, const std::string& name) {
    return job.subject.id == name || job.subject.name() == name;
  };
  for (const std::string& name : only) {
    if (std::any_of(jobs.begin(), jobs.end(),
                    [&](const Job& job) { return named(job, name); }))
      continue;
    const std::string near = closest(name, all);
    throw Error(Code::kUsage,
                fmt::format("--only {}: no such case{}; `assay conform cases` "
                            "lists them",
                            printable(name),
                            near.empty() ? "" : ", did you mean " + near));
  }
  std::erase_if(jobs, [&](const Job& job) {
    return std::none_of(only.begin(), only.end(), [&](const std::string& name) {
      return named(job, name);
    });
  });
}

std::size_t thread_count(std::size_t jobs, const RunOptions& options) {
  const unsigned cores = std::thread::hardware_concurrency();
  const int wanted = options.workers > 0
                         ? options.workers
                         : std::max(1, static_cast<int>(cores / 2));
  return std::clamp<std::size_t>(jobs, 1, static_cast<std::size_t>(wanted));
}

class Threads {
 public:
  Threads(const Schedule& schedule,
          const std::function<void(std::size_t, std::size_t)>& body)
      : schedule_(schedule), body_(body) {}

  void run() {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < schedule_.threads; ++i)
      threads.emplace_back([this, i] { work(i); });
    work(0);
    threads.clear();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void work(std::size_t thread) {
    try {
      while (!failed_ && !(schedule_.stop && schedule_.stop->load())) {
        const std::size_t index = next_.fetch_add(1);
        if (index >= schedule_.count) return;
        body_(index, thread);
        const std::int64_t done = done_.fetch_add(1) + 1;
        if (schedule_.progress)
          schedule_.progress(done, static_cast<std::int64_t>(schedule_.count));
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      failed_ = true;
    }
  }

  const Schedule& schedule_;
  const std::function<void(std::size_t, std::size_t)>& body_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::int64_t> done_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

std::vector<Job> make_jobs(const RunOptions& options) {
  std::vector<Job> jobs;
  for (const Spec& spec : options.specs)
    for (Case& c : make_cases(spec, options.tier))
      jobs.push_back({&spec, std::move(c)});
  keep_only(options.only, jobs);
  std::stable_sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) {
    return a.subject.ranks < b.subject.ranks;
  });
  return jobs;
}

std::unique_ptr<WorkerSet> start_first(const std::vector<Job>& jobs,
                                       const RunOptions& options,
                                       const WorkerCommand& command) {
  auto first = std::make_unique<WorkerSet>(
      with_threads(command, thread_count(jobs.size(), options)),
      options.limits);
  first->of(1).hello();
  return first;
}

void for_each_job(const std::vector<Job>& jobs, const RunOptions& options,
                  std::unique_ptr<WorkerSet> first,
                  const std::function<void(std::size_t, WorkerSet&)>& body) {
  const WorkerCommand command = first->command();
  const Schedule schedule{jobs.size(), thread_count(jobs.size(), options),
                          options.stop, options.progress};
  // Each is touched by its own thread alone.
  std::vector<std::unique_ptr<WorkerSet>> workers(schedule.threads);
  workers[0] = std::move(first);
  for_each_index(schedule, [&](std::size_t i, std::size_t thread) {
    if (!workers[thread])
      workers[thread] = std::make_unique<WorkerSet>(command, options.limits);
    body(i, *workers[thread]);
  });
}

void for_each_index(const Schedule& schedule,
                    const std::function<void(std::size_t, std::size_t)>& body) {
  Threads(schedule, body).run();
}

WorkerCommand with_threads(WorkerCommand command, std::size_t workers) {
  const std::size_t cores = std::thread::hardware_concurrency();
  if (!std::getenv("OMP_NUM_THREADS"))
    command.environment.emplace(
        "OMP_NUM_THREADS",
        std::to_string(std::max<std::size_t>(1, cores / workers)));
  return command;
}

bool stopped(const RunOptions& options) {
  return options.stop && options.stop->load();
}

}  // namespace assay::conform
