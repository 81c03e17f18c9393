#include "assay/base/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "assay/base/error.h"
#include "assay/base/round_up.h"

namespace assay {
namespace {

// Small files are copied: two system calls cheaper than a mapping, and no page
// of them can vanish.
constexpr std::size_t kCopyBelow = 64 * 1024;

// Mapped ranges, readable from the signal handler without locks. Slots are
// claimed and released by compare-and-swap on `state`.
struct Range {
  std::atomic<int> state{0};  // 0 free, 1 being set up, 2 live
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> faulted{false};
  std::atomic<const MappedFile*> file{nullptr};
};
constexpr int kSlots = 4096;
Range ranges[kSlots];
std::atomic<int> live_ranges{0};
struct sigaction previous_action;

int claim_slot(std::uintptr_t begin, std::uintptr_t end,
               const MappedFile* file) {
  static std::atomic<unsigned> next{0};
  for (int tries = 0; tries < kSlots; ++tries) {
    const int i = static_cast<int>(next.fetch_add(1) % kSlots);
    int free = 0;
    if (!ranges[i].state.compare_exchange_strong(free, 1)) continue;
    ranges[i].begin.store(begin);
    ranges[i].end.store(end);
    ranges[i].faulted.store(false);
    ranges[i].file.store(file);
    ranges[i].state.store(2);
    live_ranges.fetch_add(1);
    return i;
  }
  return -1;
}

// Puts a page of zeros where the file no longer has one and marks the range;
// faults outside our ranges go to whoever handled them before.
void on_bus_error(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (Range& range : ranges) {
    if (range.state.load() != 2 || address < range.begin.load() ||
        address >= range.end.load()) {
      continue;
    }
    // Marked first: another thread must not see the zeros before the mark.
    range.faulted.store(true);
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    void* at = reinterpret_cast<void*>(address / page * page);
    if (::mmap(at, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
               0) != MAP_FAILED) {
      return;
    }
  }
  if ((previous_action.sa_flags & SA_SIGINFO) && previous_action.sa_sigaction) {
    previous_action.sa_sigaction(signal, info, context);
    return;
  }
  if (previous_action.sa_handler != SIG_DFL &&
      previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal);
    return;
  }
  ::signal(SIGBUS, SIG_DFL);
  ::raise(SIGBUS);
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &previous_action);
  });
}

[[noreturn]] void fail(const std::filesystem::path& path, const char* what) {
  throw Error(Code::kUnreadable,
              path.string() + ": " + what + ": " + std::strerror(errno));
}

// The live range that holds `address`, null when none does.
const Range* find_range(std::uintptr_t address) {
  if (live_ranges.load(std::memory_order_acquire) == 0) return nullptr;
  for (const Range& range : ranges) {
    if (range.state.load(std::memory_order_acquire) == 2 &&
        address >= range.begin.load(std::memory_order_relaxed) &&
        address < range.end.load(std::memory_order_relaxed)) {
      return &range;
    }
  }
  return nullptr;
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

// Reads up to `size` bytes; fewer only when the file ends early.
std::size_t read_all(int fd, std::byte* out, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n =
        ::pread(fd, out + done, size - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

}  // namespace

MappedFile::Identity MappedFile::identity_of(const struct stat& status) {
  return {static_cast<std::uint64_t>(status.st_dev),
          static_cast<std::uint64_t>(status.st_ino),
          std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 +
              status.st_mtim.tv_nsec};
}

std::shared_ptr<const MappedFile> MappedFile::open(
    const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO must not hang before we can refuse it.
  const Descriptor file{
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) fail(path, "cannot open");
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) fail(path, "cannot stat");
  if (!S_ISREG(status.st_mode)) {
    throw Error(Code::kUnreadable, path.string() + ": not a regular file");
  }
  std::shared_ptr<MappedFile> mapped(new MappedFile);
  mapped->path_ = path;
  mapped->size_ = static_cast<std::size_t>(status.st_size);
  mapped->identity_ = identity_of(status);
  if (mapped->size_ == 0) return mapped;
  if (mapped->size_ < kCopyBelow) {
    // No over-aligned memory: older glibc cannot reuse it, and a directory of
    // small tensors would keep the size of all of them.
    auto* copy = static_cast<std::byte*>(::operator new(mapped->size_));
    mapped->data_ = copy;
    const std::size_t got = read_all(file.fd, copy, mapped->size_);
    if (got != mapped->size_) {
      throw Error(Code::kUnreadable, path.string() + ": ended at byte " +
                                         std::to_string(got) +
                                         " while being read, expected " +
                                         std::to_string(mapped->size_));
    }
    return mapped;
  }
  install_handler();
  void* at = ::mmap(nullptr, mapped->size_, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (at == MAP_FAILED) fail(path, "cannot map");
  mapped->data_ = static_cast<const std::byte*>(at);
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  mapped->slot_ = claim_slot(begin, begin + mapped->size_, mapped.get());
  if (mapped->slot_ < 0) {
    throw Error(Code::kUnreadable, path.string() + ": more than " +
                                       std::to_string(kSlots) +
                                       " files are mapped at once");
  }
  return mapped;
}

MappedFile::~MappedFile() {
  if (!data_) return;
  auto* at = const_cast<std::byte*>(data_);
  if (size_ < kCopyBelow) {
    ::operator delete(at);
    return;
  }
  if (slot_ >= 0) {
    ranges[slot_].state.store(0);
    live_ranges.fetch_sub(1);
  }
  ::munmap(at, size_);
}

// Within the last page of a shortened file the kernel reads zeros without any
// signal, and a rewrite in place gives none at all: the file is asked too. A
// path that is gone or names another file now leaves the mapped one as it was.
bool MappedFile::intact() const {
  if (slot_ < 0) return true;
  if (ranges[slot_].faulted.load()) return false;
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) return true;
  const Identity now = identity_of(status);
  if (now.device != identity_.device || now.inode != identity_.inode)
    return true;
  const auto size = static_cast<std::size_t>(status.st_size);
  return size > size_ ||
         (size == size_ && now.modified_ns == identity_.modified_ns);
}

bool MappedFile::intact(const void* data) {
  const Range* range = find_range(reinterpret_cast<std::uintptr_t>(data));
  return !range || range->file.load()->intact();
}

void MappedFile::release(std::span<const std::byte> bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const Range* range = find_range(begin);
  if (!range || begin + bytes.size() > range->end.load()) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t first = round_up(begin, page);
  const std::uintptr_t last = (begin + bytes.size()) / page * page;
  if (first < last) {
    ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  }
}

void MappedFile::check_intact() const {
  if (!intact()) {
    throw Error(Code::kUnreadable,
                path_.string() +
                    ": was truncated or rewritten while it was read (opened "
                    "with " +
                    std::to_string(size_) + " bytes)");
  }
}

}  // namespace assay
