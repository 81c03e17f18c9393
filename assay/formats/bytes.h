// A cursor over untrusted bytes: every read is checked against the end, every
// refusal names the file, the offset, what was found and what was expected.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "assay/base/error.h"

namespace assay {

// "FILE: offset 12: found X, expected Y".
[[noreturn]] inline void refuse(std::string_view file, std::uint64_t offset,
                                std::string_view found,
                                std::string_view expected) {
  std::string message(file);
  message += ": offset ";
  message += std::to_string(offset);
  message += ": found ";
  message += found;
  message += ", expected ";
  message += expected;
  throw Error(Code::kRefused, message);
}

// a * b, a + b; nullopt when the result leaves 64 bits.
inline std::optional<std::uint64_t> checked_mul(std::uint64_t a,
                                                std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}
inline std::optional<std::uint64_t> checked_add(std::uint64_t a,
                                                std::uint64_t b) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// 'text'. Appends, where GCC 12 warns of `"'" + std::string()`.
inline std::string single_quoted(std::string_view text) {
  std::string quoted("'");
  quoted += text;
  quoted += '\'';
  return quoted;
}

// The integer at `from`, which holds sizeof(T) bytes in the given order.
template <std::unsigned_integral T>
T read_integer(const std::byte* from, std::endian order) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  if (order != std::endian::native) {
    if constexpr (sizeof(T) == 2) value = __builtin_bswap16(value);
    if constexpr (sizeof(T) == 4) value = __builtin_bswap32(value);
    if constexpr (sizeof(T) == 8) value = __builtin_bswap64(value);
  }
  return value;
}

// Not thread-safe; does not own the bytes or the name. Offsets in errors are
// `base` + position, so that a cursor over a part names places in the file.
// `what` names the field being read.
class ByteCursor {
 public:
  ByteCursor(std::span<const std::byte> bytes, std::string_view file,
             std::uint64_t base = 0)
      : bytes_(bytes), file_(file), base_(base) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t offset() const { return base_ + position_; }
  std::uint64_t remaining() const { return bytes_.size() - position_; }
  bool at_end() const { return position_ == bytes_.size(); }
  std::string_view file() const { return file_; }

  // Position counts from the start of the bytes, not from `base`.
  void seek(std::uint64_t position, std::string_view what) {
    if (position > bytes_.size()) {
      fail("position " + std::to_string(position) + " of " + std::string(what),
           "at most " + std::to_string(bytes_.size()));
    }
    position_ = static_cast<std::size_t>(position);
  }

  std::uint8_t u8(std::string_view what) {
    need(1, what);
    return static_cast<std::uint8_t>(bytes_[position_++]);
  }
  template <std::unsigned_integral T>
  T le(std::string_view what) {
    return integer<T>(std::endian::little, what);
  }
  template <std::unsigned_integral T>
  T be(std::string_view what) {
    return integer<T>(std::endian::big, what);
  }

  std::span<const std::byte> take(std::uint64_t count, std::string_view what) {
    need(count, what);
    const auto part = bytes_.subspan(position_, count);
    position_ += count;
    return part;
  }
  std::string_view text(std::uint64_t count, std::string_view what) {
    return as_text(take(count, what));
  }
  void skip(std::uint64_t count, std::string_view what) {
    need(count, what);
    position_ += count;
  }

  // Throws Error{kRefused} at the current offset.
  [[noreturn]] void fail(std::string_view found,
                         std::string_view expected) const {
    refuse(file_, offset(), found, expected);
  }

 private:
  void need(std::uint64_t count, std::string_view what) const {
    if (count > remaining()) [[unlikely]]
      too_short(count, what);
  }
  [[noreturn]] void too_short(std::uint64_t count,
                              std::string_view what) const {
    fail(std::to_string(remaining()) + " bytes left",
         std::to_string(count) + " bytes of " + std::string(what));
  }
  template <std::unsigned_integral T>
  T integer(std::endian order, std::string_view what) {
    need(sizeof(T), what);
    const T value = read_integer<T>(bytes_.data() + position_, order);
    position_ += sizeof(T);
    return value;
  }

  std::span<const std::byte> bytes_;
  std::string_view file_;
  std::uint64_t base_;
  std::size_t position_ = 0;
};

}  // namespace assay
