#include "assay/formats/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>

#include "assay/base/text.h"
#include "assay/formats/bytes.h"
#include "assay/formats/json_scan.h"

namespace assay {
namespace {

constexpr std::size_t kMaxRank = 32;
constexpr std::uint64_t kLengthBytes = 8;

std::optional<DType> dtype_of(std::string_view text) {
  for (const DTypeTraits& t : kDTypes) {
    if (!t.safetensors.empty() && t.safetensors == text) return t.id;
  }
  return std::nullopt;
}

// Bits of one element; 0 for a dtype the format does not define (yet).
std::uint64_t element_bits(const SafetensorsEntry& entry) {
  if (entry.dtype) {
    return static_cast<std::uint64_t>(traits(*entry.dtype).bits);
  }
  const bool fp6 =
      entry.dtype_text == "F6_E2M3" || entry.dtype_text == "F6_E3M2";
  return fp6 ? 6 : 0;
}

class HeaderParser {
 public:
  HeaderParser(std::span<const std::byte> bytes, std::string_view file)
      : bytes_(bytes), file_(file) {}

  SafetensorsHeader run() {
    ByteCursor cursor(bytes_, file_);
    const auto length = cursor.le<std::uint64_t>("safetensors header length");
    check_length(length, cursor.remaining());
    header_.data_begin = kLengthBytes + length;
    data_size_ = bytes_.size() - header_.data_begin;
    JsonScanner scan(cursor.text(length, "safetensors header"), file_,
                     kLengthBytes);
    parse(scan);
    for (const SafetensorsEntry& entry : header_.entries) check_entry(entry);
    check_coverage();
    return std::move(header_);
  }

 private:
  void check_length(std::uint64_t length, std::uint64_t available) const {
    const std::uint64_t most = std::min(available, kMaxSafetensorsHeader);
    if (length >= 2 && length <= most) return;
    refuse(file_, 0, "safetensors header length " + std::to_string(length),
           "2 to " + std::to_string(most) +
               (most < available ? " (the format's cap)"
                                 : " (the bytes that follow)"));
  }

  void parse(JsonScanner& scan) {
    if (bytes_[kLengthBytes] != std::byte{'{'}) scan.fail("'{'");
    for (JsonObject object(scan); object.next();) {
      if (object.key() == "__metadata__") {
        parse_metadata(scan);
      } else {
        parse_entry(scan, object.key());
      }
    }
    scan.finish();
  }

  void parse_metadata(JsonScanner& scan) {
    for (JsonObject object(scan); object.next();) {
      header_.metadata[object.key()] = scan.string();
    }
  }

  void parse_entry(JsonScanner& scan, const std::string& name) {
    const std::uint64_t offset = scan.offset();
    SafetensorsEntry entry;
    entry.name = name;
    bool has_dtype = false, has_shape = false, has_offsets = false;
    for (JsonObject object(scan); object.next();) {
      if (object.key() == "dtype") {
        entry.dtype_text = scan.string();
        has_dtype = true;
      } else if (object.key() == "shape") {
        entry.shape = parse_shape(scan);
        has_shape = true;
      } else if (object.key() == "data_offsets") {
        parse_offsets(scan, entry);
        has_offsets = true;
      } else {
        scan.skip_value();
      }
    }
    if (!has_dtype || !has_shape || !has_offsets) {
      refuse(file_, offset, "tensor " + quoted(entry) + " without all fields",
             "dtype, shape and data_offsets");
    }
    entry.dtype = dtype_of(entry.dtype_text);
    header_.entries.push_back(std::move(entry));
  }

  static Shape parse_shape(JsonScanner& scan) {
    Shape shape;
    for (JsonArray array(scan); array.next();) {
      if (shape.size() == kMaxRank) scan.fail("a shape of rank 32 at most");
      shape.push_back(scan.non_negative_integer());
    }
    return shape;
  }

  static void parse_offsets(JsonScanner& scan, SafetensorsEntry& entry) {
    std::size_t count = 0;
    for (JsonArray array(scan); array.next(); ++count) {
      if (count == 2) scan.fail("']' after two data_offsets");
      (count == 0 ? entry.begin : entry.end) =
          static_cast<std::uint64_t>(scan.non_negative_integer());
    }
    if (count != 2) scan.fail("two data_offsets before");
  }

  void check_entry(const SafetensorsEntry& entry) const {
    if (entry.begin > entry.end) {
      fail(entry,
           "data_offsets that begin at " + std::to_string(entry.begin) +
               " after their end " + std::to_string(entry.end),
           "begin <= end");
    }
    if (entry.end > data_size_) {
      fail(entry, "data_offsets that end at " + std::to_string(entry.end),
           "at most the " + std::to_string(data_size_) + " data bytes present");
    }
    check_size(entry);
  }

  void check_size(const SafetensorsEntry& entry) const {
    const std::string shape = "shape " + to_string(entry.shape);
    const auto count = checked_numel(entry.shape);
    if (!count) fail(entry, shape, "a product below 2^63");
    const std::uint64_t bits_each = element_bits(entry);
    if (bits_each == 0) return;
    const auto bits =
        checked_mul(static_cast<std::uint64_t>(*count), bits_each);
    if (!bits) fail(entry, shape, "a size below 2^64 bits");
    if (*bits % 8 != 0) {
      fail(entry, shape + " of " + entry.dtype_text, "a size in whole bytes");
    }
    if (*bits / 8 != entry.end - entry.begin) {
      fail(entry,
           std::to_string(entry.end - entry.begin) + " bytes in data_offsets",
           std::to_string(*bits / 8) + " for " + shape + " of " +
               entry.dtype_text);
    }
  }

  // Sorted by offset, each tensor begins where the one before ended.
  void check_coverage() const {
    std::vector<const SafetensorsEntry*> order;
    for (const SafetensorsEntry& entry : header_.entries) {
      order.push_back(&entry);
    }
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
      return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
    });
    std::uint64_t reached = 0;
    const SafetensorsEntry* before = nullptr;
    for (const SafetensorsEntry* entry : order) {
      if (entry->begin < reached) {
        fail(*entry,
             "overlap: it begins at " + std::to_string(entry->begin) +
                 " inside " + quoted(*before),
             "no byte in two tensors");
      }
      if (entry->begin > reached) fail_hole(reached, entry->begin);
      reached = entry->end;
      before = entry;
    }
    if (reached < data_size_) {
      refuse(file_, header_.data_begin + reached,
             std::to_string(data_size_ - reached) +
                 " bytes behind the last tensor",
             "the end of the file");
    }
  }

  [[noreturn]] void fail_hole(std::uint64_t from, std::uint64_t to) const {
    refuse(file_, header_.data_begin + from,
           "hole: data bytes " + std::to_string(from) + " to " +
               std::to_string(to) + " belong to no tensor",
           "every byte in a tensor");
  }

  static std::string quoted(const SafetensorsEntry& entry) {
    return fmt::format("\"{}\"", printable(entry.name));
  }

  [[noreturn]] void fail(const SafetensorsEntry& entry, std::string_view found,
                         std::string_view expected) const {
    throw Error(Code::kRefused,
                std::string(file_) + ": tensor " + quoted(entry) + ": found " +
                    std::string(found) + ", expected " + std::string(expected));
  }

  std::span<const std::byte> bytes_;
  std::string_view file_;
  std::uint64_t data_size_ = 0;
  SafetensorsHeader header_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> bytes,
                                           std::string_view file) {
  return HeaderParser(bytes, file).run();
}

}  // namespace assay
