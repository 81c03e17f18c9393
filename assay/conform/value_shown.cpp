#include "assay/conform/value_shown.h"

#include <algorithm>
#include <utility>

#include "assay/base/text.h"
#include "assay/formats/bytes.h"

namespace assay::conform {
namespace {

constexpr std::size_t kMostBytes = 80;

// Bytes of the control character that a text begins with, 0 where it is none.
// C1 of them are two bytes of UTF-8, and terminals obey some.
std::size_t control_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x20 || first == 0x7f) return 1;
  const bool c1 = first == 0xc2 && text.size() > 1 &&
                  static_cast<unsigned char>(text[1]) < 0xa0;
  return c1 ? 2 : 0;
}

}  // namespace

std::string shortened(std::string text) {
  if (text.size() <= kMostBytes) return text;
  std::size_t at = kMostBytes;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  text.resize(at);
  return text + "...";
}

std::string shown(const Value* value) {
  if (!value) return "nothing";
  // to_json() escapes what must not be printed; printable() quotes as well.
  return shortened(value->is_text() ? single_quoted(printable(value->text()))
                                    : to_json(*value));
}

std::string one_line(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    const std::size_t control = control_bytes(text);
    const char next = control > 0 ? ' ' : text[0];
    const bool again = next == ' ' && (line.empty() || line.back() == ' ');
    if (!again) line.push_back(next);
    text.remove_prefix(std::max<std::size_t>(control, 1));
  }
  if (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

}  // namespace assay::conform
