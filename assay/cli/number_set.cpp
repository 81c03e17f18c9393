#include "assay/cli/number_set.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "assay/base/error.h"
#include "assay/base/text.h"

namespace assay {
namespace {

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || number < 0)
    return std::nullopt;
  return number;
}

}  // namespace

NumberSet::NumberSet(const std::string& flag, const std::string& text) {
  if (text.empty()) return;
  for (const std::string_view part : split(text, ',')) {
    const std::size_t dash = part.find('-');
    const auto first = whole_number(part.substr(0, dash));
    const auto last =
        dash == part.npos ? first : whole_number(part.substr(dash + 1));
    if (!first || !last || *last < *first)
      throw Error(Code::kUsage, flag + ": '" + printable(text) +
                                    "', expected numbers such as 0,2,4-7");
    ranges_.emplace_back(*first, *last);
  }
}

bool NumberSet::contains(std::int64_t number) const {
  return ranges_.empty() ||
         std::any_of(ranges_.begin(), ranges_.end(), [&](const auto& range) {
           return range.first <= number && number <= range.second;
         });
}

}  // namespace assay
