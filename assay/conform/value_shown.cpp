#include "assay/conform/value_shown.h"

#include <utility>

#include "assay/base/text.h"
#include "assay/formats/bytes.h"

namespace assay::conform {
namespace {

constexpr std::size_t kMostBytes = 80;

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

}  // namespace assay::conform
