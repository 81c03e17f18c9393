#include "assay/formats/raw_atb.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "assay/base/text.h"
#include "assay/formats/bytes.h"
#include "assay/formats/tensor_layout.h"

namespace assay {
namespace {

constexpr std::string_view kMagic = "$Version=";
constexpr std::size_t kMaxHeader = 64 * 1024;
constexpr std::size_t kMaxRank = 32;

// aclDataType of CANN (acl_base.h).
constexpr std::pair<std::int64_t, DType> kAclDtypes[] = {
    {0, DType::kF32},  {1, DType::kF16},   {2, DType::kI8},
    {3, DType::kI32},  {4, DType::kU8},    {6, DType::kI16},
    {7, DType::kU16},  {8, DType::kU32},   {9, DType::kI64},
    {10, DType::kU64}, {11, DType::kF64},  {12, DType::kBool},
    {16, DType::kC64}, {17, DType::kC128}, {27, DType::kBF16},
};

// aclFormat values whose memory is row-major over dims: undefined, NCHW, NHWC,
// ND, HWCN, NDHWC, NCDHW, NC, NCL.
constexpr std::int64_t kRowMajor[] = {-1, 0, 1, 2, 16, 27, 30, 35, 47};

struct Header {
  std::int64_t format = -1;
  std::int64_t dtype = -1;
  bool has_dtype = false, has_dims = false;
  Shape dims;
  std::uint64_t data_offset = 0;  // relative to the end of the header
  std::optional<std::uint64_t> data_length;
  std::string other_file;
  std::size_t data_begin = 0;
};

class HeaderParser {
 public:
  explicit HeaderParser(const FileBytes& file)
      : file_(file), text_(as_text(file.bytes).substr(0, kMaxHeader)) {}

  Header run() {
    while (true) {
      const std::size_t end = text_.find('\n', at_);
      if (end == std::string_view::npos) fail("no line \"$End=1\"", "one");
      const std::string_view line = text_.substr(at_, end - at_);
      const std::size_t equals = line.find('=');
      if (equals == std::string_view::npos) {
        fail(fmt::format("\"{}\"", printable(line.substr(0, 40))), "key=value");
      }
      const std::string_view key = line.substr(0, equals);
      const std::string_view value = line.substr(equals + 1);
      if (key != "$End") attribute(key, value);
      at_ = end + 1;
      if (key == "$End") break;
    }
    header_.data_begin = at_;
    return std::move(header_);
  }

 private:
  void attribute(std::string_view key, std::string_view value) {
    if (key == "format") header_.format = integer(value);
    if (key == "data") header_.other_file = value;
    if (key == "dtype") {
      once(header_.has_dtype, key);
      header_.dtype = integer(value);
    }
    if (key == "dims") {
      once(header_.has_dims, key);
      dims(value);
    }
    if (key == "$Object.data") object(value);
  }

  void once(bool& seen, std::string_view key) {
    if (seen) fail(fmt::format("a second {}", key), "each once");
    seen = true;
  }

  void dims(std::string_view value) {
    if (value.empty()) return;
    for (const std::string_view part : split(value, ',')) {
      if (header_.dims.size() == kMaxRank) fail("more dims", "32 at most");
      header_.dims.push_back(integer(part));
    }
  }

  void object(std::string_view value) {
    const std::size_t comma = value.find(',');
    if (comma == std::string_view::npos || header_.data_length) {
      fail(fmt::format("$Object.data={}", printable(value)),
           "offset,length once");
    }
    header_.data_offset = natural(value.substr(0, comma));
    header_.data_length = natural(value.substr(comma + 1));
  }

  std::uint64_t natural(std::string_view text) const {
    const std::int64_t value = integer(text);
    if (value < 0) fail(std::to_string(value), "0 or more");
    return static_cast<std::uint64_t>(value);
  }

  std::int64_t integer(std::string_view text) const {
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || stop != end) {
      fail(fmt::format("\"{}\"", printable(text.substr(0, 40))), "an integer");
    }
    return value;
  }

  [[noreturn]] void fail(std::string_view found,
                         std::string_view expected) const {
    refuse(file_.name, at_, found, expected);
  }

  const FileBytes& file_;
  std::string_view text_;
  std::size_t at_ = 0;
  Header header_;
};

std::optional<DType> dtype_of(std::int64_t acl) {
  for (const auto& [value, dtype] : kAclDtypes) {
    if (value == acl) return dtype;
  }
  return std::nullopt;
}

// Why the tensor cannot be compared, "" if it can.
std::string obstacle(const Header& header) {
  if (!header.other_file.empty()) {
    return "its data lies in another file, \"" + printable(header.other_file) +
           "\", which is not followed: compare that file";
  }
  if (!dtype_of(header.dtype)) {
    return "aclDataType " + std::to_string(header.dtype) +
           " cannot be compared";
  }
  if (!std::ranges::count(kRowMajor, header.format)) {
    return "aclFormat " + std::to_string(header.format) +
           " is not row-major: convert to ND first";
  }
  return "";
}

class AtbSource : public TensorSource {
 public:
  explicit AtbSource(FileBytes file) : file_(std::move(file)) {
    format_ = "atb";
    mapping_ = file_.mapping;
    const Header header = HeaderParser(file_).run();
    if (!header.has_dtype || !header.has_dims) {
      refuse(file_.name, header.data_begin, "no dtype or no dims before $End",
             "both");
    }
    TensorInfo info;
    info.shape = header.dims;
    if (const std::string why = obstacle(header); !why.empty()) {
      info.unsupported = file_.name + ": " + why;
    } else {
      info.dtype = *dtype_of(header.dtype);
      data_ = locate(header, info);
    }
    tensors_.push_back(std::move(info));
  }

  Tensor load(std::size_t index) const override {
    const TensorInfo& info = tensors_.at(index);
    if (!info.unsupported.empty()) {
      throw Error(Code::kUnsupported, info.unsupported);
    }
    return tensor_over(data_, file_.owner, info.dtype, info.shape, {});
  }

 private:
  std::span<const std::byte> locate(const Header& header,
                                    const TensorInfo& info) const {
    ByteCursor cursor(file_.bytes, file_.name);
    cursor.seek(header.data_begin, "the data");
    cursor.skip(header.data_offset, "$Object.data offset");
    const std::uint64_t length =
        header.data_length.value_or(cursor.remaining());
    const auto count = checked_numel(info.shape);
    const auto size = count ? storage_bytes(info.dtype, *count) : std::nullopt;
    if (!size || static_cast<std::uint64_t>(*size) != length ||
        cursor.remaining() != length) {
      cursor.fail(std::to_string(cursor.remaining()) + " bytes of data",
                  "dims " + to_string(info.shape) + " of " +
                      std::string(traits(info.dtype).name) +
                      ", $Object.data and the file's end to agree");
    }
    return cursor.take(length, "the data");
  }

  FileBytes file_;
  std::span<const std::byte> data_;
};

}  // namespace

bool is_atb(const FileBytes& file) {
  return as_text(file.bytes).starts_with(kMagic);
}

std::unique_ptr<TensorSource> open_atb(FileBytes file) {
  return std::make_unique<AtbSource>(std::move(file));
}

}  // namespace assay
