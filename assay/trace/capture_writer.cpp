#include "assay/trace/capture_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "assay/base/error.h"
#include "assay/base/hash.h"
#include "assay/trace/capture_content.h"
#include "assay/trace/capture_lines.h"
#include "assay/trace/capture_names.h"
#include "assay/trace/capture_queue.h"
#include "assay/trace/capture_shard.h"

namespace assay {
namespace {

// Lines are written at the latest when so many bytes have come together, and
// whenever the thread has nothing else to do.
constexpr std::size_t kLineBuffer = 1 << 16;

struct StoredAt {
  std::int64_t shard = 0, at = 0;
};

}  // namespace

class CaptureWriter::Impl {
 public:
  Impl(const std::filesystem::path& directory, const CaptureOptions& options)
      : directory_(directory),
        options_(options),
        queue_(options.queue_bytes),
        owner_(::getpid()) {
    std::error_code failed;
    std::filesystem::create_directories(directory_, failed);
    const std::string path = (directory_ / kCaptureFile).string();
    fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno == EEXIST)
      throw Error(Code::kUsage, path + ": there is a trace already");
    if (fd_ < 0)
      throw Error(Code::kUnreadable, path + ": " + std::strerror(errno));
    lines_ = header_line(options_);
    thread_ = std::thread([this] { work(); });
  }

  ~Impl() {
    try {
      close();
    } catch (const Error&) {
    }
  }

  pid_t owner() const { return owner_; }
  bool ignores() const { return closed_ || ::getpid() != owner_; }

  std::int32_t stack(const std::vector<std::string>& frames) {
    const auto next = static_cast<std::int32_t>(stacks_.size());
    const auto [found, added] = stacks_.emplace(frames, next);
    if (added) queue_.push({stack_line(frames)});
    return found->second;
  }

  std::uint32_t op(const Op& op, std::string_view autocast) {
    queue_.push({op_line(op, autocast)});
    return static_cast<std::uint32_t>(counts_.ops++);
  }

  Finiteness tensor(const CaptureLeaf& leaf, const TensorView& view,
                    bool requires_grad, std::uint64_t number) {
    std::string line = tensor_begin(leaf, view, requires_grad);
    if (!problem().empty()) return Finiteness::kUnknown;
    if (const CaptureMemo::Content* content = memo_.find(number, view)) {
      ++counts_.remembered;
      queue_.push({line + content->statistics.text + content_end(content->hash),
                   std::nullopt, to_place(content->hash)});
      return content->statistics.finiteness;
    }
    if (options_.mode != CaptureMode::kStatistics && !view.is_contiguous()) {
      queue_.push({std::move(line), queue_.copy(view, counts_.waited)});
      return Finiteness::kUnknown;
    }
    return describe(std::move(line), view, number);
  }

  void owned(const CaptureLeaf& leaf, Tensor tensor, bool requires_grad) {
    std::string line = tensor_begin(leaf, tensor.view, requires_grad);
    if (!problem().empty()) return;
    queue_.admit(tensor, counts_.waited);
    queue_.push({std::move(line), std::move(tensor)});
  }

  void forget() { memo_.clear(); }

  void plain(const CaptureLeaf& leaf, const SideFacts* facts,
             std::string_view key, std::string_view text) {
    ++counts_.records;
    std::string line = leaf_begin(leaf);
    if (facts && facts->dtype) {
      add_text(line, "dtype", traits(*facts->dtype).name);
    } else if (facts) {
      add_text_unless_empty(line, "dtype", facts->dtype_text);
    }
    if (facts) add_integers(line, "shape", facts->shape);
    add_text(line, key, text);
    queue_.push({line + "}\n"});
  }

  void flush() {
    queue_.wait_until_empty();
    flush_when_idle();
  }

  void close() {
    if (!closed_) {
      closed_ = true;
      std::string line = "{\"end\":true";
      add_integer(line, "ops", counts_.ops);
      add_integer(line, "records", counts_.records);
      queue_.push({line + "}\n"});
      queue_.finish();
      thread_.join();
      guarded([&] { check_there(); });
      ::close(fd_);
    }
    if (!problem_.empty()) throw Error(Code::kUnreadable, problem_);
  }

  std::string problem() const {
    std::lock_guard lock(mutex_);
    return problem_;
  }

  CaptureCounts counts() const {
    CaptureCounts counts = counts_;
    std::lock_guard lock(mutex_);
    counts.stored_bytes = stored_bytes_;
    return counts;
  }

 private:
  void work() {
    while (auto job = queue_.pop([this] { flush_when_idle(); })) {
      if (problem().empty()) guarded([&] { handle(*job); });
      queue_.done(std::move(*job));
    }
    guarded([&] {
      if (shard_) shard_->close();
      write_lines();
    });
  }

  // Files that were removed can be written to: nobody would find the trace.
  void check_there() const {
    struct stat at_path;
    struct stat written;
    const std::string path = (directory_ / kCaptureFile).string();
    const bool there = ::stat(path.c_str(), &at_path) == 0 &&
                       ::fstat(fd_, &written) == 0 && written.st_nlink > 0;
    if (!there)
      throw Error(Code::kUnreadable,
                  path + ": it was removed or moved while it was written");
  }

  template <typename F>
  void guarded(F&& body) {
    try {
      body();
    } catch (const std::exception& error) {
      std::lock_guard lock(mutex_);
      if (problem_.empty()) problem_ = error.what();
    }
  }

  void handle(CaptureJob& job) {
    if (job.tensor && !job.hash) look_at(job);
    if (job.hash) {
      const StoredAt place =
          store(*job.hash, job.tensor ? &*job.tensor : nullptr);
      add_integer(job.line, "shard", place.shard);
      add_integer(job.line, "at", place.at);
      job.line += "}\n";
    }
    std::lock_guard lock(lines_mutex_);
    lines_ += job.line;
    if (lines_.size() > kLineBuffer) write_lines_locked();
  }

  // A tensor of which nothing is known yet.
  void look_at(CaptureJob& job) {
    const TensorView& view = job.tensor->view;
    std::optional<Hash128> hash;
    if (options_.mode != CaptureMode::kHash)
      job.line += statistics_of(view, false).text;
    if (options_.mode != CaptureMode::kStatistics) hash = content_hash(view);
    job.line += content_end(hash);
    job.hash = to_place(hash);
  }

  std::string tensor_begin(const CaptureLeaf& leaf, const TensorView& view,
                           bool requires_grad) {
    ++counts_.records;
    counts_.tensor_bytes += storage_bytes(view.dtype, view.numel()).value();
    std::string line = leaf_begin(leaf);
    add_text(line, "dtype", traits(view.dtype).name);
    add_integers(line, "shape", view.shape);
    if (requires_grad) line += ",\"requires_grad\":true";
    return line;
  }

  // Looks at a contiguous tensor here; of hashes seen before nothing is kept.
  Finiteness describe(std::string line, const TensorView& view,
                      std::uint64_t number) {
    CaptureMemo::Content content;
    if (options_.mode != CaptureMode::kStatistics)
      content.hash = content_hash(view);
    bool stored = false;
    if (options_.mode == CaptureMode::kTensor) {
      const auto [known, added] = known_.try_emplace(*content.hash);
      if (added) known->second = statistics_of(view, true);
      content.statistics = known->second;
      stored = !added;
    } else if (options_.mode == CaptureMode::kStatistics) {
      content.statistics = statistics_of(view, true);
    }
    const Finiteness finiteness = content.statistics.finiteness;
    line += content.statistics.text + content_end(content.hash);
    const auto place = to_place(content.hash);
    memo_.keep(number, view, std::move(content));
    if (place && !stored) {
      queue_.push({std::move(line), queue_.copy(view, counts_.waited), place});
    } else {
      queue_.push({std::move(line), std::nullopt, place});
    }
    return finiteness;
  }

  // The end of a line but for the tensor's place in a file.
  std::string content_end(const std::optional<Hash128>& hash) const {
    std::string text;
    if (hash) add_text(text, "hash", to_hex(*hash));
    if (options_.mode != CaptureMode::kTensor) text += "}\n";
    return text;
  }

  std::optional<Hash128> to_place(const std::optional<Hash128>& hash) const {
    return options_.mode == CaptureMode::kTensor ? hash : std::nullopt;
  }

  StoredAt store(const Hash128& hash, const Tensor* given) {
    const auto known = stored_.find(hash);
    if (known != stored_.end()) return known->second;
    const Tensor& tensor = *given;
    const std::string name = to_hex(hash);
    if (shard_ && (shard_->data_bytes() > options_.shard_bytes ||
                   !shard_->has_room(name, tensor.shape()))) {
      shard_->close();
      shard_.reset();
    }
    if (!shard_) shard_.emplace(directory_, shards_++);
    const auto bytes = tensor.view.bytes();
    const StoredAt place{
        shards_ - 1, shard_->add(name, tensor.dtype(), tensor.shape(), bytes)};
    stored_.emplace(hash, place);
    std::lock_guard lock(mutex_);
    stored_bytes_ += static_cast<std::int64_t>(bytes.size());
    return place;
  }

  void flush_when_idle() {
    guarded([&] { write_lines(); });
  }

  void write_lines() {
    std::lock_guard lock(lines_mutex_);
    write_lines_locked();
  }

  void write_lines_locked() {
    std::string_view rest = lines_;
    while (!rest.empty()) {
      const ssize_t written = ::write(fd_, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0)
        throw Error(Code::kUnreadable, (directory_ / kCaptureFile).string() +
                                           ": " + std::strerror(errno));
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
    lines_.clear();
  }

  const std::filesystem::path directory_;
  const CaptureOptions options_;
  CaptureQueue queue_;
  const pid_t owner_;
  int fd_ = -1;
  bool closed_ = false;
  CaptureCounts counts_;
  std::map<std::vector<std::string>, std::int32_t> stacks_;
  // Statistics of what was handed over for storing, by content.
  std::map<Hash128, ContentStatistics> known_;
  CaptureMemo memo_;

  mutable std::mutex mutex_;  // problem_, stored_bytes_
  std::string problem_;
  std::int64_t stored_bytes_ = 0;

  std::mutex lines_mutex_;
  std::string lines_;  // not in the file yet

  // The thread's own.
  std::optional<CaptureShard> shard_;
  std::int64_t shards_ = 0;
  std::map<Hash128, StoredAt> stored_;
  std::thread thread_;
};

CaptureWriter::CaptureWriter(const std::filesystem::path& directory,
                             const CaptureOptions& options)
    : impl_(std::make_unique<Impl>(directory, options)) {}

// In a forked process the thread does not exist, and what it waited on when
// the process was forked cannot be taken apart: that would wait for ever.
CaptureWriter::~CaptureWriter() {
  if (::getpid() != impl_->owner()) static_cast<void>(impl_.release());
}

std::int32_t CaptureWriter::stack(const std::vector<std::string>& frames) {
  return impl_->ignores() ? -1 : impl_->stack(frames);
}

std::uint32_t CaptureWriter::op(const Op& op, std::string_view autocast) {
  return impl_->ignores() ? 0 : impl_->op(op, autocast);
}

Finiteness CaptureWriter::tensor(const CaptureLeaf& leaf,
                                 const TensorView& tensor, bool requires_grad,
                                 std::uint64_t number) {
  return impl_->ignores() ? Finiteness::kUnknown
                          : impl_->tensor(leaf, tensor, requires_grad, number);
}

void CaptureWriter::forget() {
  if (!impl_->ignores()) impl_->forget();
}

void CaptureWriter::owned_tensor(const CaptureLeaf& leaf, Tensor tensor,
                                 bool requires_grad) {
  if (!impl_->ignores()) impl_->owned(leaf, std::move(tensor), requires_grad);
}

void CaptureWriter::value(const CaptureLeaf& leaf, std::string_view text) {
  if (!impl_->ignores()) impl_->plain(leaf, nullptr, "value", text);
}

void CaptureWriter::opaque(const CaptureLeaf& leaf, std::string_view why) {
  if (!impl_->ignores()) impl_->plain(leaf, nullptr, "opaque", why);
}

void CaptureWriter::unreadable(const CaptureLeaf& leaf, const SideFacts& facts,
                               std::string_view why) {
  if (!impl_->ignores()) impl_->plain(leaf, &facts, "unreadable", why);
}

void CaptureWriter::flush() {
  if (!impl_->ignores()) impl_->flush();
}

void CaptureWriter::close() {
  if (::getpid() != impl_->owner()) return;
  impl_->close();
}

std::string CaptureWriter::problem() const { return impl_->problem(); }

CaptureCounts CaptureWriter::counts() const { return impl_->counts(); }

}  // namespace assay
