#include "assay/conform/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/conform/proc_table.h"

extern char** environ;

namespace assay::conform {
namespace {

using namespace std::chrono_literals;

constexpr auto kLookEvery = 100ms;  // at the memory
constexpr auto kEndingPatience = 500ms;
constexpr std::size_t kChunk = 64 * 1024;
constexpr std::string_view kTokenName = "ASSAY_WORKER_TOKEN";

void close_fd(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

// A write to a pipe that nobody reads would end this process. The signal is
// this thread's own, so it can be held back and taken away here.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t waiting;
    sigpending(&waiting);
    was_waiting_ = sigismember(&waiting, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    const int error = errno;
    const timespec none{};
    while (!was_waiting_ && sigtimedwait(&pipe_, nullptr, &none) == -1 &&
           errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_waiting_ = false;
};

std::string new_token() {
  static std::atomic<std::uint64_t> count{0};
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return fmt::format("{}-{}-{}", ::getpid(), now, count.fetch_add(1));
}

std::vector<std::string> environment_of(
    const std::map<std::string, std::string>& own) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string name(text.substr(0, text.find('=')));
    if (own.count(name) == 0) all.emplace_back(text);
  }
  for (const auto& [name, value] : own) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Process groups that a signal handler may kill: fixed storage, no locks. More
// than these end when their stdin does.
constexpr std::size_t kSlots = 256;
std::array<std::atomic<int>, kSlots> running_groups{};
static_assert(std::atomic<int>::is_always_lock_free);

void remember(int pid) {
  for (std::atomic<int>& slot : running_groups) {
    int free = 0;
    if (slot.compare_exchange_strong(free, pid)) return;
  }
}

void forget(int pid) {
  for (std::atomic<int>& slot : running_groups) {
    int ours = pid;
    if (slot.compare_exchange_strong(ours, 0)) return;
  }
}

int milliseconds_until(Process::Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - Process::Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(
      left.count() + 1, 0, std::chrono::milliseconds(kLookEvery).count()));
}

}  // namespace

// Both ends of the three pipes until the child has its own.
struct Process::Pipes {
  std::array<int, 2> in{-1, -1}, out{-1, -1}, err{-1, -1};
  Pipes() {
    if (::pipe2(in.data(), O_CLOEXEC) != 0 ||
        ::pipe2(out.data(), O_CLOEXEC) != 0 ||
        ::pipe2(err.data(), O_CLOEXEC) != 0) {
      const int error = errno;
      close_all();
      throw Error(Code::kUnreadable,
                  fmt::format("pipe: {}", std::strerror(error)));
    }
  }
  ~Pipes() { close_all(); }
  Pipes(const Pipes&) = delete;
  Pipes& operator=(const Pipes&) = delete;
  static int take(int& fd) {
    const int taken = std::exchange(fd, -1);
    ::fcntl(taken, F_SETFL, O_NONBLOCK);
    return taken;
  }

 private:
  void close_all() {
    for (auto* pair : {&in, &out, &err})
      for (int& fd : *pair) close_fd(fd);
  }
};

Process::Process(const ProcessOptions& options)
    : line_limit_(options.line_limit),
      memory_limit_(options.memory_limit),
      token_(new_token()),
      log_(options.log_limit) {
  if (options.arguments.empty())
    throw Error(Code::kUsage, "a worker's command is empty");
  Pipes pipes;
  start(options, pipes);
  in_ = Pipes::take(pipes.in[1]);
  out_ = Pipes::take(pipes.out[0]);
  err_ = Pipes::take(pipes.err[0]);
}

void Process::start(const ProcessOptions& options, Pipes& pipes) {
  std::map<std::string, std::string> own = options.environment;
  own[std::string(kTokenName)] = token_;
  std::vector<std::string> environment = environment_of(own);
  std::vector<std::string> arguments = options.arguments;

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipes.in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, pipes.out[1], 1);
  posix_spawn_file_actions_adddup2(&actions, pipes.err[1], 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigfillset(&defaults);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP |
                                            POSIX_SPAWN_SETSIGMASK |
                                            POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, arguments[0].c_str(), &actions,
                                   &attributes, pointers_to(arguments).data(),
                                   pointers_to(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    throw Error(Code::kUnreadable, fmt::format("{}: cannot be started: {}",
                                               printable(options.arguments[0]),
                                               std::strerror(error)));
  pid_ = pid;
  remember(pid_);
}

Process::~Process() {
  kill();
  close_all();
}

void Process::close_all() {
  close_fd(in_);
  close_fd(out_);
  close_fd(err_);
}

void Process::drain_log() {
  std::array<char, kChunk> buffer;
  while (err_ >= 0) {
    const ssize_t got = ::read(err_, buffer.data(), buffer.size());
    if (got > 0) {
      log_.append({buffer.data(), static_cast<std::size_t>(got)});
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else {
      if (got == 0) close_fd(err_);
      return;
    }
  }
}

// Waits for one slice of time at most; true where `fd` is ready.
bool Process::wait_for(int fd, short events, Clock::time_point deadline) {
  std::array<pollfd, 2> fds{{{fd, events, 0}, {err_, POLLIN, 0}}};
  ::poll(fds.data(), fds.size(), milliseconds_until(deadline));
  if (fds[1].revents != 0) drain_log();
  return fds[0].revents != 0;
}

bool Process::over_memory() {
  const auto now = Clock::now();
  if (now - last_look_ < kLookEvery) return false;
  last_look_ = now;
  const std::int64_t resident = resident_bytes();
  peak_bytes_ = std::max(peak_bytes_, resident);
  return memory_limit_ > 0 && resident > memory_limit_;
}

bool Process::take_line(std::string& line) {
  const std::size_t end = pending_.find('\n', scanned_);
  if (end == std::string::npos) {
    scanned_ = pending_.size();
    return false;
  }
  line = pending_.substr(0, end);
  pending_.erase(0, end + 1);
  scanned_ = 0;
  return true;
}

Process::Read Process::read_line(std::string& line,
                                 Clock::time_point deadline) {
  std::array<char, kChunk> buffer;
  for (;;) {
    if (take_line(line)) return Read::kLine;
    if (pending_.size() > line_limit_) return Read::kTooLong;
    if (out_ < 0) return Read::kEnd;
    if (over_memory()) return Read::kMemory;
    if (!wait_for(out_, POLLIN, deadline)) {
      if (Clock::now() >= deadline) return Read::kTimeout;
      continue;
    }
    const ssize_t got = ::read(out_, buffer.data(), buffer.size());
    if (got > 0) {
      pending_.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
      close_fd(out_);
    }
  }
}

bool Process::write_line(std::string_view line, Clock::time_point deadline) {
  const std::string text = std::string(line) + '\n';
  std::string_view left = text;
  const WithoutSigpipe guard;
  while (!left.empty()) {
    if (in_ < 0) return false;
    if (!wait_for(in_, POLLOUT, deadline)) {
      if (Clock::now() >= deadline) return false;
      continue;
    }
    const ssize_t written = ::write(in_, left.data(), left.size());
    if (written >= 0) {
      left.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR && errno != EAGAIN) {
      close_fd(in_);
      return false;
    }
  }
  return true;
}

bool Process::reap(bool block) {
  while (!reaped_ && pid_ > 0) {
    const pid_t got = ::waitpid(pid_, &status_, block ? 0 : WNOHANG);
    if (got < 0 && errno == EINTR) continue;
    reaped_ = got != 0;  // an error: it is no longer ours to wait for
    break;
  }
  return reaped_;
}

void Process::kill() {
  if (pid_ <= 0) return;
  if (!reap(false)) {
    killed_ = true;
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);
    reap(true);
  } else {
    ::kill(-pid_, SIGKILL);
  }
  // One that starts others while it is looked for is found the next time.
  const std::string entry = fmt::format("{}={}", kTokenName, token_);
  for (int round = 0; round < 10; ++round) {
    const std::vector<int> left = processes_with_environment(entry);
    if (left.empty()) break;
    for (const int pid : left) ::kill(pid, SIGKILL);
    std::this_thread::sleep_for(1ms);
  }
  drain_log();
  forget(pid_);
  pid_ = -1;
}

void Process::finish(std::chrono::milliseconds patience) {
  close_fd(in_);
  const auto deadline = Clock::now() + patience;
  std::string ignored;
  while (pid_ > 0 && !reap(false) && Clock::now() < deadline) {
    if (out_ >= 0) {
      read_line(ignored, std::min(deadline, Clock::now() + 20ms));
      pending_.clear();
      scanned_ = 0;
    } else {
      std::this_thread::sleep_for(2ms);
      drain_log();
    }
  }
  kill();
}

std::string Process::ending() {
  const auto deadline = Clock::now() + kEndingPatience;
  while (pid_ > 0 && !reap(false) && Clock::now() < deadline) {
    std::this_thread::sleep_for(1ms);
    drain_log();
  }
  kill();
  if (killed_) return "killed";
  if (WIFSIGNALED(status_)) {
    const char* name = sigabbrev_np(WTERMSIG(status_));
    return name ? fmt::format("SIG{}", name)
                : fmt::format("signal {}", WTERMSIG(status_));
  }
  return fmt::format("exit {}", WEXITSTATUS(status_));
}

void kill_running_processes() noexcept {
  for (const std::atomic<int>& slot : running_groups)
    if (const int pid = slot.load(); pid > 0) ::kill(-pid, SIGKILL);
}

std::int64_t Process::resident_bytes() const {
  return pid_ > 0 ? resident_bytes_below(pid_) : 0;
}

}  // namespace assay::conform
