#include "assay/trace/capture_shard.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "assay/base/error.h"
#include "assay/base/text_out.h"

namespace assay {
namespace {

// Of an entry beside name and sizes: dtype, two offsets, punctuation.
constexpr std::size_t kEntryBytes = 128;

// As safetensors can say it: complex128 is pairs of float64, an odd number of
// e2m1 codes, which do not fill their bytes, is those bytes.
struct StoredForm {
  std::string_view dtype;
  Shape shape;
};

StoredForm stored_form(DType dtype, const Shape& shape, std::size_t bytes) {
  StoredForm form{traits(dtype).safetensors, shape};
  if (dtype == DType::kC128) {
    form.dtype = "F64";
    form.shape.push_back(2);
  } else if (dtype == DType::kE2M1 && checked_numel(shape).value() % 2 != 0) {
    form = {"U8", {static_cast<std::int64_t>(bytes)}};
  }
  return form;
}

}  // namespace

std::string shard_name(std::int64_t number) {
  std::string digits = std::to_string(number);
  if (digits.size() < 5) digits.insert(0, 5 - digits.size(), '0');
  return "tensors-" + digits + ".safetensors";
}

CaptureShard::CaptureShard(const std::filesystem::path& directory,
                           std::int64_t number)
    : path_((directory / shard_name(number)).string()) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0)
    throw Error(Code::kUnreadable, path_ + ": " + std::strerror(errno));
}

CaptureShard::~CaptureShard() {
  if (fd_ >= 0) ::close(fd_);
}

bool CaptureShard::has_room(std::string_view name, const Shape& shape) const {
  return header_.size() + name.size() + 20 * shape.size() + kEntryBytes <
         static_cast<std::size_t>(kShardHeaderBytes);
}

std::int64_t CaptureShard::add(std::string_view name, DType dtype,
                               const Shape& shape,
                               std::span<const std::byte> bytes) {
  const std::int64_t at = at_;
  const auto size = static_cast<std::int64_t>(bytes.size());
  write_at(at, bytes);
  at_ += size;
  if (header_.size() > 1) header_ += ',';
  append_json_string(header_, name);
  const StoredForm form = stored_form(dtype, shape, bytes.size());
  header_ += ":{\"dtype\":\"";
  header_ += form.dtype;
  header_ += "\",\"shape\":[";
  for (std::size_t d = 0; d < form.shape.size(); ++d) {
    if (d > 0) header_ += ',';
    append_int(header_, form.shape[d]);
  }
  header_ += "],\"data_offsets\":[";
  append_int(header_, at - kShardHeaderBytes);
  header_ += ',';
  append_int(header_, at - kShardHeaderBytes + size);
  header_ += "]}";
  return at;
}

void CaptureShard::close() {
  if (fd_ < 0) return;
  const std::uint64_t length = kShardHeaderBytes - 8;
  header_ += '}';
  header_.resize(length, ' ');
  // The length last: a file without it is one that was not closed.
  write_at(8, std::as_bytes(std::span(header_)));
  write_at(0, std::as_bytes(std::span(&length, 1)));
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0)
    throw Error(Code::kUnreadable, path_ + ": " + std::strerror(errno));
}

void CaptureShard::write_at(std::int64_t offset,
                            std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      throw Error(Code::kUnreadable, path_ + ": " + std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += written;
  }
}

}  // namespace assay
