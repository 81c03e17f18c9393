#include "assay/conform/value_shown.h"

#include "assay/base/text.h"

namespace assay::conform {
namespace {

constexpr std::size_t kMostBytes = 80;

// Not in the middle of a character.
std::size_t cut_of(const std::string& text) {
  std::size_t at = kMostBytes;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

}  // namespace

std::string shown(const Value* value) {
  if (!value) return "nothing";
  // to_json() escapes what must not be printed, printable() quotes too.
  std::string text =
      value->is_text() ? printable(value->text()) : to_json(*value);
  if (text.size() <= kMostBytes) return text;
  text.resize(cut_of(text));
  return text + "...";
}

}  // namespace assay::conform
