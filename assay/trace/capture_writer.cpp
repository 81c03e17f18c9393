#include "assay/trace/capture_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "assay/base/error.h"
#include "assay/base/hash.h"
#include "assay/metrics/tensor_summary.h"
#include "assay/trace/capture_lines.h"
#include "assay/trace/capture_names.h"
#include "assay/trace/capture_queue.h"
#include "assay/trace/capture_shard.h"

namespace assay {
namespace {

// Lines are written at the latest when so many bytes have come together, and
// whenever the thread has nothing else to do.
constexpr std::size_t kLineBuffer = 1 << 16;

// Of dtype, shape and bytes: a tensor of ones and its transpose differ.
Hash128 content_hash(const Tensor& tensor) {
  std::string kind(traits(tensor.dtype()).name);
  kind += to_string(tensor.shape());
  return hash128(tensor.view.bytes(), hash128(kind).low);
}

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
    if (::getpid() != owner_) {
      thread_.detach();  // it does not exist in this process
      return;
    }
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
    if (added) queue_.push({stack_line(frames), std::nullopt});
    return found->second;
  }

  std::uint32_t op(const Op& op, std::string_view autocast) {
    queue_.push({op_line(op, autocast), std::nullopt});
    return static_cast<std::uint32_t>(counts_.ops++);
  }

  void tensor(const CaptureLeaf& leaf, const TensorView& view,
              bool requires_grad) {
    ++counts_.records;
    std::string line = leaf_begin(leaf);
    add_text(line, "dtype", traits(view.dtype).name);
    add_integers(line, "shape", view.shape);
    if (requires_grad) line += ",\"requires_grad\":true";
    if (!problem().empty()) return;
    Tensor copy = queue_.copy(view, counts_.waited);
    counts_.tensor_bytes += static_cast<std::int64_t>(copy.view.bytes().size());
    queue_.push({std::move(line), std::move(copy)});
  }

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
    queue_.push({line + "}\n", std::nullopt});
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
      queue_.push({line + "}\n", std::nullopt});
      queue_.finish();
      thread_.join();
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
    if (job.tensor) {
      describe(*job.tensor, job.line);
      job.line += "}\n";
    }
    std::lock_guard lock(lines_mutex_);
    lines_ += job.line;
    if (lines_.size() > kLineBuffer) write_lines_locked();
  }

  void describe(const Tensor& tensor, std::string& line) {
    if (options_.mode != CaptureMode::kHash) add_statistics(tensor, line);
    if (options_.mode == CaptureMode::kStatistics) return;
    const Hash128 hash = content_hash(tensor);
    add_text(line, "hash", to_hex(hash));
    if (options_.mode == CaptureMode::kTensor) {
      const StoredAt place = store(hash, tensor);
      add_integer(line, "shard", place.shard);
      add_integer(line, "at", place.at);
    }
  }

  static void add_statistics(const Tensor& tensor, std::string& line) {
    const TensorSummary s = summarise(tensor.view, false);
    if (s.count == 0) return;
    add_number(line, "max", s.max);
    add_number(line, "min", s.min);
    add_number(line, "mean", s.mean);
    add_number(line, "norm", s.norm);
    add_integer(line, "zeros", s.zeros);
    if (saturates(tensor.dtype())) add_integer(line, "saturated", s.saturated);
    add_integer_unless_zero(line, "nan", s.nan);
    add_integer_unless_zero(line, "inf", s.positive_inf);
    add_integer_unless_zero(line, "-inf", s.negative_inf);
  }

  StoredAt store(const Hash128& hash, const Tensor& tensor) {
    const auto known = stored_.find(hash);
    if (known != stored_.end()) return known->second;
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

CaptureWriter::~CaptureWriter() = default;

std::int32_t CaptureWriter::stack(const std::vector<std::string>& frames) {
  return impl_->ignores() ? -1 : impl_->stack(frames);
}

std::uint32_t CaptureWriter::op(const Op& op, std::string_view autocast) {
  return impl_->ignores() ? 0 : impl_->op(op, autocast);
}

void CaptureWriter::tensor(const CaptureLeaf& leaf, const TensorView& tensor,
                           bool requires_grad) {
  if (!impl_->ignores()) impl_->tensor(leaf, tensor, requires_grad);
}

void CaptureWriter::value(const CaptureLeaf& leaf, std::string_view text) {
  if (!impl_->ignores()) impl_->plain(leaf, nullptr, "value", text);
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
