#include "assay/conform/worker.h"

#include <fmt/format.h>

#include <chrono>

#include "assay/base/error.h"
#include "assay/base/text.h"

namespace assay::conform {
namespace {

using namespace std::chrono_literals;

constexpr auto kByePatience = 10s;
// After so many starts in a row that gave no hello a case fails at once.
constexpr int kMaxFailedStarts = 3;
constexpr std::size_t kShownBytes = 120;

Process::Clock::time_point after(double seconds) {
  return Process::Clock::now() +
         std::chrono::duration_cast<Process::Clock::duration>(
             std::chrono::duration<double>(seconds));
}

std::string shown(const std::string& line) {
  std::string text = printable(std::string_view(line).substr(0, kShownBytes));
  return line.size() > kShownBytes ? text + "..." : text;
}

}  // namespace

WorkerClient::~WorkerClient() {
  if (!process_) return;
  process_->write_line(bye_request(), after(0.1));
  process_->finish(kByePatience);
}

void WorkerClient::fail_start(const std::string& why) {
  process_->kill();
  start_log_ = process_->log().text();
  const std::string last = process_->log().last_line();
  process_.reset();
  ++failed_starts_;
  // Of the words `torch` and `te` the user sees no interpreter.
  const bool lacks_module = last.starts_with("ModuleNotFoundError");
  throw Error(
      Code::kUnreadable,
      fmt::format("worker '{}': {}{}{}", printable(command_.text), why,
                  last.empty() ? "" : "; its log ends: " + shown(last),
                  lacks_module ? "; ASSAY_PYTHON names another python3" : ""));
}

void WorkerClient::start() {
  if (process_) return;
  if (failed_starts_ >= kMaxFailedStarts)
    throw Error(Code::kUnreadable,
                fmt::format("worker '{}': not started again after {} starts "
                            "that failed",
                            printable(command_.text), failed_starts_));
  ProcessOptions options;
  options.arguments = command_.arguments;
  options.environment = command_.environment;
  options.memory_limit = limits_.memory_bytes;
  process_ = std::make_unique<Process>(options);
  const auto deadline = after(limits_.start_seconds);
  process_->write_line(hello_request(), deadline);
  std::string line;
  switch (process_->read_line(line, deadline)) {
    case Process::Read::kLine:
      break;
    case Process::Read::kTimeout:
      fail_start(fmt::format("no hello within {}",
                             human_seconds(limits_.start_seconds)));
    case Process::Read::kMemory:
      fail_start("over the memory limit before its hello");
    case Process::Read::kTooLong:
      fail_start("a hello without an end");
    case Process::Read::kEnd:
      fail_start(fmt::format("no hello: {}", process_->ending()));
  }
  try {
    hello_ = parse_hello(line);
  } catch (const Error& error) {
    fail_start(
        fmt::format("no hello: {}, found '{}'", error.what(), shown(line)));
  }
  failed_starts_ = 0;
}

const Hello& WorkerClient::hello() {
  start();
  return hello_;
}

WorkerReply WorkerClient::failed(Ending ending, const std::string& message) {
  WorkerReply reply;
  reply.ending = ending;
  if (process_) {
    process_->kill();
    reply.log = process_->log().text();
    const std::string last = process_->log().last_line();
    reply.message = message;
    if (!last.empty()) reply.message += "; its log ends: " + shown(last);
    process_.reset();
  } else {
    reply.log = start_log_;
    reply.message = message;
  }
  return reply;
}

WorkerReply WorkerClient::run(RunRequest request) {
  try {
    start();
  } catch (const Error& error) {
    return failed(Ending::kCrashed, error.what());
  }
  request.id = next_id_++;
  process_->log().clear();
  return ask(request);
}

WorkerReply WorkerClient::ask(const RunRequest& request) {
  const auto deadline = after(limits_.seconds);
  std::string line;
  process_->write_line(format_request(request), deadline);
  switch (process_->read_line(line, deadline)) {
    case Process::Read::kLine:
      break;
    case Process::Read::kTimeout:
      return failed(
          Ending::kTimeout,
          fmt::format("no answer within {}", human_seconds(limits_.seconds)));
    case Process::Read::kMemory:
      return failed(Ending::kMemory,
                    fmt::format("over the memory limit of {}",
                                human_bytes(limits_.memory_bytes)));
    case Process::Read::kTooLong:
      return failed(Ending::kGarbage, "an answer without an end");
    case Process::Read::kEnd:
      return failed(Ending::kCrashed,
                    "ended without an answer: " + process_->ending());
  }
  return understand(request.id, line);
}

WorkerReply WorkerClient::understand(std::int64_t id, const std::string& line) {
  WorkerReply reply;
  try {
    reply.answer = parse_answer(line);
  } catch (const Error& error) {
    return failed(Ending::kGarbage,
                  fmt::format("{}, found '{}'", error.what(), shown(line)));
  }
  if (reply.answer.id != id)
    return failed(Ending::kGarbage,
                  fmt::format("answer to request {}, expected "
                              "{}",
                              reply.answer.id, id));
  if (reply.answer.peak_bytes == 0)
    reply.answer.peak_bytes = process_->peak_bytes();
  reply.log = process_->log().text();
  return reply;
}

WorkerSet::WorkerSet(WorkerCommand command, WorkerLimits limits)
    : command_(std::move(command)),
      limits_(limits),
      single_(command_, limits) {}

WorkerClient& WorkerSet::of(int ranks) {
  if (ranks <= 1) return single_;
  if (many_ && many_ranks_ == ranks) return *many_;
  many_.reset();
  const std::string launcher = single_.hello().launcher;
  many_ = std::make_unique<WorkerClient>(for_ranks(command_, ranks, launcher),
                                         limits_);
  many_ranks_ = ranks;
  return *many_;
}

}  // namespace assay::conform
