#include "assay/formats/base64.h"

#include <array>

#include "assay/formats/bytes.h"

namespace assay {
namespace {

constexpr std::uint32_t kBad = 0x80000000;

constexpr std::array<std::uint32_t, 256> make_table() {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<std::uint32_t, 256> table{};
  table.fill(kBad);
  for (std::uint32_t i = 0; i < 64; ++i) {
    table[static_cast<unsigned char>(kAlphabet[i])] = i;
  }
  return table;
}
constexpr auto kTable = make_table();

std::uint32_t value(char c) { return kTable[static_cast<unsigned char>(c)]; }

// 24 bits of one full group, kBad set when a character is foreign.
std::uint32_t group(const char* c) {
  const std::uint32_t a = value(c[0]), b = value(c[1]);
  const std::uint32_t d = value(c[2]), e = value(c[3]);
  return ((a | b | d | e) & kBad) | (a << 18 | b << 12 | d << 6 | e);
}

std::size_t padding(std::string_view text) {
  if (text.ends_with("==")) return 2;
  return text.ends_with('=') ? 1 : 0;
}

}  // namespace

std::vector<std::byte> base64_decode(std::string_view text,
                                     std::string_view file,
                                     std::uint64_t offset) {
  if (text.size() % 4 != 0) {
    refuse(file, offset, std::to_string(text.size()) + " characters of base64",
           "a multiple of 4");
  }
  const std::size_t padded = padding(text);
  std::vector<std::byte> out(text.size() / 4 * 3);
  for (std::size_t i = 0, o = 0; i < text.size(); i += 4, o += 3) {
    char last[4];
    const char* at = text.data() + i;
    if (padded != 0 && i + 4 == text.size()) {
      text.copy(last, 4, i);
      for (std::size_t k = 4 - padded; k < 4; ++k) last[k] = 'A';
      at = last;
    }
    const std::uint32_t bits = group(at);
    if (bits & kBad) {
      refuse(file, offset + i, "a character that is no base64",
             "A-Z a-z 0-9 + / and = at the end");
    }
    out[o] = static_cast<std::byte>(bits >> 16);
    out[o + 1] = static_cast<std::byte>(bits >> 8);
    out[o + 2] = static_cast<std::byte>(bits);
  }
  out.resize(out.size() - padded);
  return out;
}

}  // namespace assay
