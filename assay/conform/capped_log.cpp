#include "assay/conform/capped_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "assay/base/text.h"

namespace assay::conform {

void CappedLog::append(std::string_view bytes) {
  const std::size_t first = std::min(bytes.size(), half_ - head_.size());
  head_ += bytes.substr(0, first);
  tail_ += bytes.substr(first);
  // Cut only when it has doubled, not for every few bytes.
  if (tail_.size() < 2 * half_ + 1) return;
  dropped_ += static_cast<std::int64_t>(tail_.size() - half_);
  tail_.erase(0, tail_.size() - half_);
}

void CappedLog::clear() {
  head_.clear();
  tail_.clear();
  dropped_ = 0;
}

std::string CappedLog::text() const {
  const std::size_t more = tail_.size() > half_ ? tail_.size() - half_ : 0;
  const std::int64_t dropped = dropped_ + static_cast<std::int64_t>(more);
  if (dropped == 0) return head_ + tail_;
  return fmt::format("{}\n[{} bytes left out]\n{}", head_, dropped,
                     std::string_view(tail_).substr(more));
}

std::string CappedLog::last_line() const {
  const std::string all = text();
  const std::vector<std::string_view> lines = split(all, '\n');
  const auto found =
      std::find_if(lines.rbegin(), lines.rend(),
                   [](std::string_view line) { return !trim(line).empty(); });
  return found == lines.rend() ? "" : std::string(trim(*found));
}

}  // namespace assay::conform
