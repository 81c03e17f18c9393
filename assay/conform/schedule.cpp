#include "assay/conform/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
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

// Cores that each worker may use: all of them together use the machine.
WorkerCommand with_threads(WorkerCommand command, int workers) {
  const int cores = std::max(1u, std::thread::hardware_concurrency());
  if (!std::getenv("OMP_NUM_THREADS"))
    command.environment.emplace("OMP_NUM_THREADS",
                                std::to_string(std::max(1, cores / workers)));
  return command;
}

class Threads {
 public:
  Threads(std::size_t count, const RunOptions& options,
          const std::function<void(std::size_t, WorkerSet&)>& body)
      : count_(count), options_(options), body_(body) {}

  void run(const WorkerCommand& command) {
    const int number = static_cast<int>(std::min<std::size_t>(
        static_cast<std::size_t>(worker_count(options_)), count_));
    const WorkerCommand own = with_threads(command, std::max(number, 1));
    std::vector<std::jthread> threads;
    for (int i = 0; i < number; ++i)
      threads.emplace_back([this, &own] { work(own); });
    threads.clear();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void work(const WorkerCommand& command) {
    try {
      WorkerSet workers(command, options_.limits);
      while (!failed_ && !stopped(options_)) {
        const std::size_t index = next_.fetch_add(1);
        if (index >= count_) return;
        body_(index, workers);
        const std::int64_t done = done_.fetch_add(1) + 1;
        if (options_.progress)
          options_.progress(done, static_cast<std::int64_t>(count_));
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      failed_ = true;
    }
  }

  const std::size_t count_;
  const RunOptions& options_;
  const std::function<void(std::size_t, WorkerSet&)>& body_;
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

void for_each_job(const std::vector<Job>& jobs, const RunOptions& options,
                  const WorkerCommand& command,
                  const std::function<void(std::size_t, WorkerSet&)>& body) {
  Threads(jobs.size(), options, body).run(command);
}

int worker_count(const RunOptions& options) {
  if (options.workers > 0) return options.workers;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency() / 2));
}

bool stopped(const RunOptions& options) {
  return options.stop && options.stop->load();
}

Hello ask_hello(const WorkerCommand& command, const WorkerLimits& limits) {
  WorkerClient client(command, limits);
  return client.hello();
}

}  // namespace assay::conform
