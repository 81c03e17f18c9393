#include "assay/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "assay/base/error.h"

namespace assay {
namespace {

// Paths a signal handler may unlink: fixed storage, no locks.
constexpr int kSlots = 32;
constexpr std::size_t kPathBytes = 4096;
std::atomic<int> slot_used[kSlots];
char slot_path[kSlots][kPathBytes];
constexpr std::size_t kBufferBytes = 1 << 20;
constexpr std::size_t kLargeBytes = 1 << 16;  // cheaper to write than to copy

void remember(const std::string& path) {
  if (path.size() >= kPathBytes) return;
  for (int i = 0; i < kSlots; ++i) {
    int free = 0;
    if (slot_used[i].compare_exchange_strong(free, 1)) {
      std::memcpy(slot_path[i], path.c_str(), path.size() + 1);
      slot_used[i].store(2);
      return;
    }
  }
}

void forget(const std::string& path) {
  for (int i = 0; i < kSlots; ++i) {
    if (slot_used[i].load() == 2 && path == slot_path[i]) {
      slot_used[i].store(0);
      return;
    }
  }
}

[[noreturn]] void fail(const std::filesystem::path& path, const char* action) {
  throw Error(Code::kUnreadable, path.string() + ": cannot " + action + ": " +
                                     std::strerror(errno));
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  struct stat status {};
  // The standard output may be a regular file, which is not to be replaced; nor
  // is the name that stands for it.
  if (path_ == "/dev/stdout" ||
      (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode))) {
    open_in_place();
    return;
  }
  create_beside();
  remember(temporary_.string());
}

// Not mkstemp: its 0600 would have to be widened without knowing the umask.
void AtomicFile::create_beside() {
  static std::atomic<unsigned> counter{0};
  do {
    temporary_ = path_.string() + "." + std::to_string(::getpid()) + "-" +
                 std::to_string(counter.fetch_add(1)) + ".tmp";
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                 0666);
  } while (fd_ < 0 && errno == EEXIST);
  if (fd_ < 0) fail(path_, "create");
}

void AtomicFile::open_in_place() {
  fd_ = path_ == "/dev/stdout"
            ? ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)  // where it is now
            : ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd_ < 0) fail(path_, "open");
  temporary_ = path_;
  in_place_ = true;
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!committed_ && !in_place_) {
    ::unlink(temporary_.c_str());
    forget(temporary_.string());
  }
}

void AtomicFile::write(std::string_view bytes) {
  if (bytes.size() < kLargeBytes) {
    buffer_.append(bytes);
    if (buffer_.size() >= kBufferBytes) flush();
  } else {
    flush();
    write_through(bytes);
  }
}

void AtomicFile::flush() {
  write_through(buffer_);
  buffer_.clear();
}

void AtomicFile::write_through(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "write");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  flush();
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) fail(path_, "close");
  if (in_place_) return;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "rename");
  committed_ = true;
  forget(temporary_.string());
}

void discard_open_atomic_files() noexcept {
  for (int i = 0; i < kSlots; ++i) {
    if (slot_used[i].load() == 2) ::unlink(slot_path[i]);
  }
}

}  // namespace assay
