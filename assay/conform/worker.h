// A worker as the runner sees it: asked one case after the other, started
// again when it failed, believed in nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "assay/conform/process.h"
#include "assay/conform/protocol.h"
#include "assay/conform/run_result.h"
#include "assay/conform/worker_command.h"

namespace assay::conform {

struct WorkerLimits {
  double seconds = 300;           // of one case
  double start_seconds = 120;     // until its hello: imports of torch are slow
  std::int64_t memory_bytes = 0;  // resident, of all its processes; 0: none
};

struct WorkerReply {
  // kCompared: it answered, with whatever status. Else kCrashed, kTimeout,
  // kMemory or kGarbage, and the process is gone.
  Ending ending = Ending::kCompared;
  RunAnswer answer;
  std::string message;  // one line, where there is no answer
  std::string log;      // its stderr during the case
};

// Not thread-safe.
class WorkerClient {
 public:
  // Starts nothing yet.
  WorkerClient(WorkerCommand command, WorkerLimits limits)
      : command_(std::move(command)), limits_(limits) {}
  // Says bye, waits for a moment, then kills.
  ~WorkerClient();
  WorkerClient(const WorkerClient&) = delete;
  WorkerClient& operator=(const WorkerClient&) = delete;

  // Starts it where it is not running. Throws Error{kUnreadable} naming the
  // command, why, and the last line of its log.
  const Hello& hello();

  // Never throws for what the worker does. The request gets an id of its own.
  WorkerReply run(RunRequest request);

  // What it wrote to stderr when the last start failed.
  const std::string& start_log() const { return start_log_; }

 private:
  using Clock = Process::Clock;
  void start();
  [[noreturn]] void fail_start(const std::string& why);
  WorkerReply failed(Ending ending, const std::string& message);
  WorkerReply ask(const RunRequest& request);
  WorkerReply understand(std::int64_t id, const std::string& line);

  const WorkerCommand command_;
  const WorkerLimits limits_;
  std::unique_ptr<Process> process_;
  Hello hello_;
  std::int64_t next_id_ = 1;
  int failed_starts_ = 0;
  std::string start_log_;
};

// One thread's workers of one command: for cases of one rank, and for the
// number of ranks that was asked for last (waiting ranks of MPI keep a core
// busy, so they do not stay). Not thread-safe.
class WorkerSet {
 public:
  WorkerSet(WorkerCommand command, WorkerLimits limits);
  // Throws Error{kUnsupported} where it cannot be started as so many ranks,
  // Error{kUnreadable} where it cannot be started.
  WorkerClient& of(int ranks);
  const WorkerCommand& command() const { return command_; }

 private:
  const WorkerCommand command_;
  const WorkerLimits limits_;
  WorkerClient single_;
  std::unique_ptr<WorkerClient> many_;
  int many_ranks_ = 0;
};

}  // namespace assay::conform
